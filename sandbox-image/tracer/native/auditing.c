/* sys.audit as it is without a hook in C.
 *
 * Where nobody listens the interpreter's own sys.audit does nothing, whatever it is called with. The
 * recorder's hook listens always, so the function is entered by way of one that does nothing where
 * the program has no hook: in the table from which the interpreter calls it, so that the program finds the
 * same function object, no frame more and the same behaviour. */
#include "recorder.h"

#include <internal/pycore_interp.h>
#include <internal/pycore_runtime.h>

typedef PyObject *(*Function)(PyObject *, PyObject *const *, Py_ssize_t);

/* What was in the table before. */
static Function before;

/* Whether an event has a name that hooks can be told; no exception is left. */
static bool has_name(PyObject *event) {
    bool good = PyUnicode_Check(event) && PyUnicode_AsUTF8(event) != NULL;
    PyErr_Clear();
    return good;
}

static PyObject *audit(PyObject *self, PyObject *const *arguments, Py_ssize_t count) {
    const _Py_AuditHookEntry *first = _PyRuntime.audit_hooks.head;
    bool alone = PyInterpreterState_Get()->audit_hooks == NULL && first != NULL && first->next == NULL;
    if (alone && count > 0 && !has_name(arguments[0])) {
        Py_RETURN_NONE;
    }
    return before(self, arguments, count);
}

/* Stand in front of sys.audit for good: the hook in C cannot be taken away either. */
void auditing_open(void) {
    PyObject *function = PySys_GetObject("audit"); /* borrowed */
    if (before != NULL || function == NULL || !PyCFunction_CheckExact(function)) {
        return;
    }
    PyMethodDef *entry = ((PyCFunctionObject *)function)->m_ml;
    if (entry->ml_flags == METH_FASTCALL) {
        before = (Function)(void (*)(void))entry->ml_meth;
        entry->ml_meth = (PyCFunction)(void (*)(void))audit;
    }
}
