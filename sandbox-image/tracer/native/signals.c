/* Signals that come while the tracer's own Python code runs.
 *
 * The interpreter calls the program's handlers between any two instructions of its main thread. What one raises would be
 * lost in the tracer's code, and with it a program's own time limit. So there the main thread passes for
 * another, which calls no handlers; what has come meanwhile is called for when the program goes on. */
#include "recorder.h"

#include <internal/pycore_ceval.h>
#include <internal/pycore_runtime.h>

/* Hold back the handlers of signals, and the calls that libraries ask for; return what signals_release wants. */
unsigned long signals_hold(void) {
    unsigned long main = _PyRuntime.main_thread;
    if (main != PyThread_get_thread_ident()) {
        return 0; /* no handler is called in this thread anyway */
    }
    _PyRuntime.main_thread = 0;
    return main;
}

/* Have them again, and those first that were held back. */
void signals_release(unsigned long held) {
    PyThreadState *state = PyThreadState_GetUnchecked();
    if (held == 0) {
        return;
    }
    _PyRuntime.main_thread = held;
    if (_Py_atomic_load_int(&_PyRuntime.signals.is_tripped)) {
        _Py_set_eval_breaker_bit(state, _PY_SIGNALS_PENDING_BIT);
    }
    if (_Py_atomic_load_int32_relaxed(&_PyRuntime.ceval.pending_mainthread.npending) > 0) {
        _Py_set_eval_breaker_bit(state, _PY_CALLS_TO_DO_BIT);
    }
}
