/* Programs that reach for frames.
 *
 * Through a frame, as sys._getframe returns it, any code can change the variables of a
 * function at any time. The interpreter tells its audit hooks when somebody gets hold of one. */
#include "notes.h"

#include "flow.h"

/* The program reaches for frames. Through one, variables can be changed from
 * everywhere; a function that traces can also let a frame go on at another line: then no more lines are passed. */
static void pry(Recorder *r, bool jumping) {
    if (!r->passing || (r->prying && !jumping)) {
        return;
    }
    r->prying = true;
    late_catch_all(r);
    if (jumping) {
        revising_stop(r);
        return;
    }
    for (uint32_t i = 0; i <= r->codes.mask; i++) {
        Facts *facts = r->codes.table[i].code != NULL ? r->codes.table[i].facts : NULL;
        if (facts != NULL && facts->flow != NULL) {
            facts->flow->stale = true;
            revising_settle(r, facts);
        }
    }
}

/* Whether it is user code that something comes from, or library code which user code has called for it, as inspect.currentframe. */
static bool is_near(Recorder *r, const PyThreadState *state) {
    enum { MOST_NEAR = 2 };
    int steps = 0;
    for (_PyInterpreterFrame *frame = state->current_frame; frame != NULL && steps < MOST_NEAR; frame = frame->previous) {
        if (frame->owner != FRAME_OWNED_BY_CSTACK && PyCode_Check(frame->f_executable)) {
            if (codes_find(r, (PyCodeObject *)frame->f_executable) != NULL) {
                return true;
            }
            steps++;
        }
    }
    return false;
}

/* Whether an event tells that somebody gets hold of frames. Those that a
 * function is called with follow from the events of setting it. */
static bool is_prying(const char *event, PyObject *arguments) {
    static const char *const ways[] = {
        "sys._getframe", "sys._current_frames", "sys._current_exceptions", "sys.setprofile", "gc.get_objects", "gc.get_referrers", "gc.get_referents",
    };
    static const char *const attributes[] = {"tb_frame", "gi_frame", "cr_frame", "ag_frame"};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        if (strcmp(event, ways[i]) == 0) {
            return true;
        }
    }
    PyObject *name = strcmp(event, "object.__getattr__") == 0 && PyTuple_GET_SIZE(arguments) > 1 ? PyTuple_GET_ITEM(arguments, 1) : NULL;
    for (size_t i = 0; i < sizeof attributes / sizeof *attributes; i++) {
        if (name != NULL && PyUnicode_CheckExact(name) && PyUnicode_EqualToUTF8(name, attributes[i])) {
            return true;
        }
    }
    return false;
}

/* Whether an argument is a frame, or a tuple of arguments with one. */
static bool has_frame(PyObject *argument) {
    if (argument == NULL || !PyTuple_CheckExact(argument)) {
        return argument != NULL && PyFrame_Check(argument);
    }
    bool found = false;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(argument); i++) {
        found |= PyFrame_Check(PyTuple_GET_ITEM(argument, i));
    }
    return found;
}

/* The interpreter itself calls a function: the handler of a signal gets the frame that it interrupts. */
void prying_meet(Recorder *r, const _PyInterpreterFrame *frame) {
    enum { MOST_BEFORE = 3 };
    const PyCodeObject *code = (PyCodeObject *)frame->f_executable;
    for (int slot = 0; slot < Py_MIN(code->co_nlocalsplus, MOST_BEFORE); slot++) {
        if (has_frame(frame->localsplus[slot])) {
            pry(r, false);
            return;
        }
    }
}

/* Say whose the events of a code's single instructions are. */
static void keep_instructions(PyCodeObject *code) {
    _PyCoMonitoringData *data = code->_co_monitoring;
    if (data == NULL || data->per_instruction_opcodes == NULL || data->per_instruction_tools != NULL) {
        return;
    }
    size_t size = (size_t)Py_SIZE(code);
    data->per_instruction_tools = PyMem_Malloc(size);
    if (data->per_instruction_tools != NULL) {
        memset(data->per_instruction_tools, data->active_monitors.tools[PY_MONITORING_EVENT_INSTRUCTION], size);
    }
}

/* A function that traces is about to be set. Where a frame's f_trace_opcodes has been set before, as pdb does,
 * CPython 3.13 forgets for whom the events of single instructions are when there is a second
 * tool, since it makes its table of that only now, and empty. So it is made here, as it should be. */
static void keep_all_instructions(Recorder *r) {
    PyThreadState *state = PyInterpreterState_ThreadHead(PyInterpreterState_Get());
    for (; state != NULL; state = PyThreadState_Next(state)) {
        for (_PyInterpreterFrame *frame = state->current_frame; frame != NULL; frame = frame->previous) {
            if (frame->owner != FRAME_OWNED_BY_CSTACK && PyCode_Check(frame->f_executable)) {
                keep_instructions((PyCodeObject *)frame->f_executable);
            }
        }
    }
    for (uint32_t i = 0; i <= r->codes.mask; i++) {
        if (r->codes.table[i].code != NULL) {
            keep_instructions(r->codes.table[i].code);
        }
    }
}

/* Hear of frames that somebody gets hold of, but for the library's own purposes, as logging does with each call. */
void prying_hear(Recorder *r, const char *event, PyObject *arguments) {
    bool jumping = strcmp(event, "sys.settrace") == 0;
    const PyThreadState *state = r->passing || jumping ? PyThreadState_GetUnchecked() : NULL;
    if (state == NULL || state->interp != r->interpreter) {
        return;
    }
    if (jumping) {
        keep_all_instructions(r);
    }
    if (jumping || (is_prying(event, arguments) && is_near(r, state))) {
        pry(r, jumping);
    }
}
