/* What the tracer asks of the kernel and of the collector for its process. The library's modules for it are files
 * of their own, which take as long to load as all of the tracer's Python. */
#include "recorder.h"

#include <internal/pycore_interp.h>

#include <sys/mman.h>
#include <sys/resource.h>

/* map(descriptor, size): return a view of shared memory, which stays for as long as the process. Raises OSError. */
PyObject *process_map(PyObject *module, PyObject *arguments) {
    int descriptor;
    Py_ssize_t size;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "in", &descriptor, &size)) {
        return NULL;
    }
    void *memory = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
    return memory == MAP_FAILED ? PyErr_SetFromErrno(PyExc_OSError) : PyMemoryView_FromMemory(memory, size, PyBUF_WRITE);
}

/* limit(open_files, file_bytes, cpu_s, processes): apply limits that can never be raised again, of which a negative one is
 * left as it is, and allow no core file. Raises OSError. */
PyObject *process_limit(PyObject *module, PyObject *arguments) {
    long long files, bytes, seconds, processes;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "LLLL", &files, &bytes, &seconds, &processes)) {
        return NULL;
    }
    const struct { int which; long long most; } limits[] = {
        {RLIMIT_NOFILE, files}, {RLIMIT_FSIZE, bytes}, {RLIMIT_CORE, 0}, {RLIMIT_CPU, seconds}, {RLIMIT_NPROC, processes},
    };
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++) {
        struct rlimit both = {(rlim_t)limits[i].most, (rlim_t)limits[i].most};
        if (limits[i].most >= 0 && setrlimit(limits[i].which, &both) < 0) {
            return PyErr_SetFromErrno(PyExc_OSError);
        }
    }
    Py_RETURN_NONE;
}

/* except_for(spared, freeze): call freeze while the collector does not know of one object, which it knows of again afterwards. */
PyObject *process_except_for(PyObject *module, PyObject *arguments) {
    PyObject *spared, *freeze;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyDict_Type, &spared, &freeze)) {
        return NULL;
    }
    bool known = PyObject_GC_IsTracked(spared);
    PyObject_GC_UnTrack(spared);
    PyObject *result = PyObject_CallNoArgs(freeze);
    if (known && !PyObject_GC_IsTracked(spared)) {
        PyObject_GC_Track(spared);
    }
    return result;
}

/* Put a text in the place of one of the interpreter's configuration; false with an exception set when there is no memory. */
static bool reword(wchar_t **place, PyObject *text) {
    wchar_t *wide = PyUnicode_AsWideCharString(text, NULL);
    size_t size = wide != NULL ? (wcslen(wide) + 1) * sizeof *wide : 0;
    wchar_t *copy = wide != NULL ? PyMem_RawMalloc(size) : NULL; /* the configuration frees it so */
    if (copy == NULL) {
        PyMem_Free(wide);
        if (!PyErr_Occurred()) {
            PyErr_NoMemory();
        }
        return false;
    }
    memcpy(copy, wide, size);
    PyMem_Free(wide);
    PyMem_RawFree(*place);
    *place = copy;
    return true;
}

/* run_instead(name, path): have the interpreter run another file than its command line names, by its name there and by its
 * absolute path. It opens the file, and puts its folder on the path for imports, when all preparations are over. */
PyObject *process_run_instead(PyObject *module, PyObject *arguments) {
    PyObject *name, *path;
    PyConfig *config = &PyInterpreterState_Get()->config;
    (void)module;
    if (!PyArg_ParseTuple(arguments, "UU", &name, &path)) {
        return NULL;
    }
    if (config->run_filename == NULL || config->argv.length == 0) {
        PyErr_SetString(PyExc_RuntimeError, "the command line names no file");
        return NULL;
    }
    if (!reword(&config->argv.items[0], name) || !reword(&config->run_filename, path)) {
        return NULL;
    }
    Py_RETURN_NONE;
}
