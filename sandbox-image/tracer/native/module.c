/* The module _recorder: the type Recorder, and the callbacks that it hands out. */
#include "values.h"

#include <poll.h>
#include <stddef.h>
#include <sys/wait.h>
#include <unistd.h>

/* The code watcher gets no context, and a process has one recorder: this is the
 * only state outside of objects. */
static Recorder *watching;

typedef struct State {
    PyTypeObject *recorder, *callback;
} State;

static struct PyModuleDef definition;

static State *state_of(PyTypeObject *type) {
    return PyModule_GetState(PyType_GetModuleByDef(type, &definition));
}

/* Tell the recorder that a code object dies. */
static int watch(PyCodeEvent event, PyCodeObject *code) {
    if (event == PY_CODE_EVENT_DESTROY && watching != NULL) {
        codes_forget(watching, code);
    }
    return 0;
}

/* Read the offsets and capacities of the areas. */
static bool read_areas(PyObject *list, uint64_t *offsets, uint64_t *capacities) {
    if (!PyList_CheckExact(list) || PyList_GET_SIZE(list) != AREAS) {
        return false;
    }
    for (int i = 0; i < AREAS; i++) {
        long long offset, capacity;
        if (!PyArg_ParseTuple(PyList_GET_ITEM(list, i), "LL", &offset, &capacity) || offset < 0 || capacity < 0) {
            PyErr_Clear();
            return false;
        }
        offsets[i] = (uint64_t)offset;
        capacities[i] = (uint64_t)capacity;
    }
    return true;
}

static const char *const options[] = {
    "memory", "areas", "include", "lines", "values", "events", "exact_ms", "disable", "set_local", "set_events",
    "restart", "fail", "message", "pass_after", "cpu_ms", "wall_end_ms", "burst_ms", NULL,
};

/* Prepare what the recorder needs before the first event; raises. */
static bool prepare(Recorder *r, PyObject *areas, unsigned long long events) {
    uint64_t offsets[AREAS], capacities[AREAS];
    if (!read_areas(areas, offsets, capacities) || !memory_open(r, offsets, capacities, AREAS)) {
        PyErr_SetString(PyExc_ValueError, "the areas do not fit the trace memory");
        return false;
    }
    if (!codes_open(r) || !objects_open(&r->objects)) {
        PyErr_NoMemory();
        return false;
    }
    if (PyCode_AddWatcher(watch) < 0) {
        return false;
    }
    watching = r;
    r->main_state = PyThreadState_Get();
    r->interpreter = r->main_state->interp;
    r->attached = true;
    notes_open(r);
    r->mask = 1 << ON_START | 1 << ON_THROW | 1 << ON_UNWIND | 1 << ON_RAISE;
    events_open(r, events);
    return true;
}

/* Recorder(memory, areas, ...): memory is the writable mapping, include a tuple
 * of pairs (absolute prefix, relative prefix) of the program's files. */
static PyObject *recorder_new(PyTypeObject *type, PyObject *arguments, PyObject *names) {
    PyObject *memory, *areas, *include, *calls[6];
    int lines, values;
    unsigned long long events;
    long long exact_ms, pass_after, cpu_ms, wall_end_ms, burst_ms;
    if (!PyArg_ParseTupleAndKeywords(arguments, names, "$OOO!ppKLOOOOOOLLLL", (char **)options, &memory, &areas, &PyTuple_Type,
                                     &include, &lines, &values, &events, &exact_ms, &calls[0], &calls[1], &calls[2],
                                     &calls[3], &calls[4], &calls[5], &pass_after, &cpu_ms, &wall_end_ms, &burst_ms)) {
        return NULL;
    }
    if (watching != NULL) {
        PyErr_SetString(PyExc_RuntimeError, "there is a recorder already");
        return NULL;
    }
    Recorder *r = (Recorder *)type->tp_alloc(type, 0);
    if (r == NULL) {
        return NULL;
    }
    r->with_lines = lines;
    r->with_values = values;
    r->exact_ns = exact_ms * 1000000;
    r->passing = lines && pass_after >= 0;
    r->pass_after = (uint64_t)pass_after;
    r->include = Py_NewRef(include);
    r->disable = Py_NewRef(calls[0]);
    r->set_local = Py_NewRef(calls[1]);
    r->set_events = Py_NewRef(calls[2]);
    r->restart = Py_NewRef(calls[3]);
    r->fail = Py_NewRef(calls[4]);
    r->message = Py_NewRef(calls[5]);
    if (PyObject_GetBuffer(memory, &r->memory, PyBUF_WRITABLE) < 0 || !prepare(r, areas, events)) {
        Py_DECREF(r);
        return NULL;
    }
    bursts_open(r, cpu_ms, wall_end_ms, burst_ms);
    return (PyObject *)r;
}

/* Never called while events arrive: each callback holds the recorder. */
static void recorder_dealloc(PyObject *self) {
    Recorder *r = (Recorder *)self;
    PyTypeObject *type = Py_TYPE(self);
    if (watching == r) {
        watching = NULL;
    }
    audit_close(r);
    bursts_close(r);
    warnings_close(r);
    threads_close(r);
    codes_close(r);
    objects_close(&r->objects);
    PyObject *held[] = {r->include, r->disable, r->set_local, r->set_events, r->restart, r->fail, r->message};
    for (size_t i = 0; i < sizeof held / sizeof *held; i++) {
        Py_XDECREF(held[i]);
    }
    if (r->memory.obj != NULL) {
        PyBuffer_Release(&r->memory);
    }
    type->tp_free(self);
    Py_DECREF(type);
}

/* Make an object that is called with a function in C. */
static Callback *callback_new(PyObject *self, vectorcallfunc call) {
    PyTypeObject *type = state_of(Py_TYPE(self))->callback;
    Callback *callback = (Callback *)type->tp_alloc(type, 0);
    if (callback != NULL) {
        callback->call = call;
        callback->recorder = (Recorder *)Py_NewRef(self);
    }
    return callback;
}

/* counting(write, counter): a write that counts the bytes written. */
static PyObject *recorder_counting(PyObject *self, PyObject *arguments) {
    PyObject *write;
    unsigned counter;
    if (!PyArg_ParseTuple(arguments, "OI", &write, &counter)) {
        return NULL;
    }
    if (counter >= C_FIRST_FREE) {
        return PyErr_Format(PyExc_ValueError, "no such counter: %u", counter);
    }
    Callback *callback = callback_new(self, callback_write);
    if (callback != NULL) {
        callback->write = Py_NewRef(write);
        callback->counter = counter;
    }
    return (PyObject *)callback;
}

/* callback(event): the callback for an event, by its number. */
static PyObject *recorder_callback(PyObject *self, PyObject *event) {
    vectorcallfunc call = callback_for((int)PyLong_AsLong(event));
    if (call == NULL) {
        return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "no callback for event %R", event);
    }
    return (PyObject *)callback_new(self, call);
}

/* listen(): hear from the interpreter what the program reaches for, and count warnings. */
static PyObject *recorder_listen(PyObject *self, PyObject *nothing) {
    (void)nothing;
    if (!audit_open((Recorder *)self)) {
        return NULL;
    }
    warnings_open((Recorder *)self);
    Py_RETURN_NONE;
}

/* detach(): do nothing from now on, whatever events come. */
static PyObject *recorder_detach(PyObject *self, PyObject *nothing) {
    (void)nothing;
    ((Recorder *)self)->attached = false;
    bursts_close((Recorder *)self);
    warnings_close((Recorder *)self);
    Py_RETURN_NONE;
}

/* is_user(code): whether code is user code. */
static PyObject *recorder_is_user(PyObject *self, PyObject *code) {
    return PyBool_FromLong(PyCode_Check(code) && codes_is_user((Recorder *)self, (PyCodeObject *)code));
}

/* began: whether a function of the program has started. */
static PyObject *recorder_began(PyObject *self, void *nothing) {
    (void)nothing;
    return PyBool_FromLong(((Recorder *)self)->main_code != NULL);
}

/* mask: the events that are to be set for all code. */
static PyObject *recorder_mask(PyObject *self, void *nothing) {
    (void)nothing;
    return PyLong_FromUnsignedLong(((Recorder *)self)->mask);
}

static void callback_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(((Callback *)self)->recorder);
    Py_XDECREF(((Callback *)self)->write);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef recorder_methods[] = {
    {"callback", recorder_callback, METH_O, NULL},
    {"counting", recorder_counting, METH_VARARGS, NULL},
    {"detach", recorder_detach, METH_NOARGS, NULL},
    {"is_user", recorder_is_user, METH_O, NULL},
    {"listen", recorder_listen, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyGetSetDef recorder_attributes[] = {
    {"began", recorder_began, NULL, NULL, NULL}, {"mask", recorder_mask, NULL, NULL, NULL}, {NULL, NULL, NULL, NULL, NULL},
};
static PyType_Slot recorder_slots[] = {
    {Py_tp_new, recorder_new}, {Py_tp_dealloc, recorder_dealloc}, {Py_tp_methods, recorder_methods},
    {Py_tp_getset, recorder_attributes}, {0, NULL},
};
static PyType_Spec recorder_spec = {
    .name = "_recorder.Recorder", .basicsize = sizeof(Recorder), .slots = recorder_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
};

static PyMemberDef callback_members[] = {
    {"__vectorcalloffset__", Py_T_PYSSIZET, offsetof(Callback, call), Py_READONLY, NULL}, {NULL, 0, 0, 0, NULL},
};
static PyType_Slot callback_slots[] = {
    {Py_tp_dealloc, callback_dealloc}, {Py_tp_members, callback_members}, {Py_tp_call, PyVectorcall_Call}, {0, NULL},
};
static PyType_Spec callback_spec = {
    .name = "_recorder.Callback", .basicsize = sizeof(Callback), .slots = callback_slots,
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_IMMUTABLETYPE |
             Py_TPFLAGS_DISALLOW_INSTANTIATION,
};

/* Refuse any interpreter but the one whose layouts this was compiled for. */
static int check_interpreter(void) {
    if (strcmp(Py_GetVersion(), BUILD_VERSION) == 0 && Py_Version == PY_VERSION_HEX) {
        return 0;
    }
    PyErr_Format(PyExc_ImportError, "compiled for CPython %s, not %s", BUILD_VERSION, Py_GetVersion());
    return -1;
}

static int execute(PyObject *module) {
    State *state = PyModule_GetState(module);
    if (check_interpreter() < 0) {
        return -1;
    }
    state->recorder = (PyTypeObject *)PyType_FromModuleAndSpec(module, &recorder_spec, NULL);
    state->callback = (PyTypeObject *)PyType_FromModuleAndSpec(module, &callback_spec, NULL);
    if (state->recorder == NULL || state->callback == NULL) {
        return -1;
    }
    return PyModule_AddType(module, state->recorder);
}

/* Call a function of the tracer's own, of which nothing that the program has set up to trace or profile, and none of
 * its handlers of signals, may see a frame. */
static PyObject *call_unseen(PyThreadState *state, PyObject *function) {
    PyThreadState_EnterTracing(state);
    unsigned long held = signals_hold();
    PyObject *result = PyObject_CallNoArgs(function);
    signals_release(held);
    PyThreadState_LeaveTracing(state);
    return result;
}

/* hush(function): call a function of the tracer's own that the program's audit hooks, debuggers and profilers do not see. */
static PyObject *module_hush(PyObject *module, PyObject *function) {
    (void)module;
    PyThreadState *state = PyThreadState_Get();
    PyObject *hooks = audit_hush(state);
    PyObject *result = call_unseen(state, function);
    audit_unhush(state, hooks);
    return result;
}

/* End the process with status 0, and have the supervisor answer before it is gone: it takes what memory_leave
 * says for the end when both streams have ended, so they end here and not with the address space. To take that to
 * pieces would keep a processor from the answer, so the process waits a moment to be killed, unless it has
 * children, who may hold the streams. */
static void leave(void) {
    enum { MOMENT_MS = 20 };
    siginfo_t child;
    fflush(NULL);
    if (watching != NULL) {
        memory_leave(watching, 0);
    }
    close(STDOUT_FILENO);
    close(STDERR_FILENO);
    if (waitid(P_ALL, 0, &child, WEXITED | WNOHANG | WNOWAIT) < 0) {
        poll(NULL, 0, MOMENT_MS);
    }
    _exit(0);
}

/* depart(function): call a function of the tracer's own as hush does, at the interpreter's end. When it
 * returns True, and no audit hook of the program waits for what follows, the process ends here. */
static PyObject *module_depart(PyObject *module, PyObject *function) {
    (void)module;
    PyThreadState *state = PyThreadState_Get();
    PyObject *hooks = audit_hush(state);
    PyObject *result = call_unseen(state, function);
    if (result == Py_True && hooks == NULL) {
        leave();
    }
    audit_unhush(state, hooks);
    return result;
}

/* measure(): find out how long the processor's ticks take; to be called once, before there is a Recorder. */
static PyObject *module_measure(PyObject *module, PyObject *nothing) {
    (void)module, (void)nothing;
    clock_measure();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"hush", module_hush, METH_O, NULL}, {"depart", module_depart, METH_O, NULL},
    {"measure", module_measure, METH_NOARGS, NULL}, {"map", process_map, METH_VARARGS, NULL},
    {"limit", process_limit, METH_VARARGS, NULL}, {"except_for", process_except_for, METH_VARARGS, NULL},
    {"run_instead", process_run_instead, METH_VARARGS, NULL},
    {NULL, NULL, 0, NULL},
};
static PyModuleDef_Slot slots[] = {
    {Py_mod_exec, execute},
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
    {0, NULL},
};
static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, .m_name = "_recorder", .m_size = sizeof(State), .m_methods = functions, .m_slots = slots,
};

PyMODINIT_FUNC PyInit__recorder(void) {
    return PyModuleDef_Init(&definition);
}
