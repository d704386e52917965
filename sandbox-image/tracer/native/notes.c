/* Notes: exceptions, deaths of threads, effects. Each has a place of fixed size
 * in the area of notes, so that it can be changed later: a count goes up, an
 * outcome becomes known, one of the last exceptions gives way to a later one. A
 * place whose kind is 0 is empty or being written. */
#include "notes.h"

#include <errno.h>

enum { WORDING_SHARE = 10000 }; /* wordings in Python a second at most, past the first: each takes some microseconds */

/* As the reader knows it. */
typedef struct Note {
    uint32_t kind, action;
    uint64_t number, times, seq;
    uint32_t failures;
    int32_t error;
    uint32_t thread, function, line, family;
    uint8_t text[NOTE_TEXT];
} Note;
_Static_assert(sizeof(Note) == NOTE_BYTES, "a note has its size");

static Note *note_at(const Recorder *r, uint32_t index) {
    return (Note *)(r->area[AREA_NOTES].base + NOTES_HEAD) + index;
}

/* Write the head of the area; without room for it there are no notes. */
void notes_open(Recorder *r) {
    Area *area = &r->area[AREA_NOTES];
    r->notes = (Notes){0};
    if (area->capacity < NOTES_HEAD) {
        return;
    }
    r->notes.room = (uint32_t)Py_MIN((area->capacity - NOTES_HEAD) / NOTE_BYTES, MAX_NOTES);
    r->notes.counts = (uint64_t *)(area->base + 8);
    uint32_t head[2] = {NOTES_FORMAT, NOTE_BYTES};
    memcpy(area->base, head, sizeof head);
    __atomic_store_n(area->committed, NOTES_HEAD, __ATOMIC_RELEASE);
}

void notes_count(Recorder *r, int count) {
    if (r->notes.counts != NULL) {
        r->notes.counts[count]++;
    }
}

/* Return the index of a new place; -1 when there are no more. */
static int place_take(Recorder *r) {
    Notes *notes = &r->notes;
    if (notes->used == notes->room) {
        return -1;
    }
    int index = (int)notes->used++;
    __atomic_store_n(r->area[AREA_NOTES].committed, NOTES_HEAD + (uint64_t)notes->used * NOTE_BYTES, __ATOMIC_RELEASE);
    return index;
}

/* Write a note whose text is written already. */
static void note_write(Recorder *r, Note *note, enum NoteKind kind, uint32_t action, const NotePlace *place) {
    note->action = action;
    note->number = ++r->notes.last;
    note->times = 1;
    note->seq = r->event_count;
    note->failures = 0;
    note->error = 0;
    note->thread = place->thread;
    note->function = place->facts != NULL ? place->facts->number : 0;
    note->line = place->facts != NULL && place->line > 0 ? (uint32_t)place->line : 0;
    note->family = 0;
    __atomic_store_n(&note->kind, (uint32_t)kind, __ATOMIC_RELEASE);
}

/* Empty a place before it is written anew. Who reads it does so when this process
 * has ended, so that only the compiler has to keep the order. */
static void note_clear(Note *note) {
    note->kind = 0;
    __atomic_signal_fence(__ATOMIC_SEQ_CST);
}

/* Copy a text, cut to so many bytes on the edge of a character; return what follows it. */
static const uint8_t *text_copy(Out *to, const uint8_t *text, const uint8_t *end, size_t limit) {
    size_t size = 0;
    for (int shift = 0; text < end; shift += 7) {
        size |= (size_t)(*text & 127) << shift;
        if (!(*text++ & 128)) {
            break;
        }
    }
    size_t shown = Py_MIN(Py_MIN(size, limit), (size_t)(end - text));
    while (shown > 0 && shown < size && (text[shown] & 0xC0) == 0x80) {
        shown--;
    }
    bytes_write(to, text, shown);
    return text + Py_MIN(size, (size_t)(end - text));
}

/* Write type and message of an exception into a note: mostly there is room, else they are cut. */
static void error_write(Recorder *r, Note *note, PyObject *error, bool sparing) {
    Out text = {note->text, note->text + NOTE_TEXT, false};
    failure_tell(r, &text, error, sparing);
    if (!text.full) {
        return;
    }
    uint8_t bytes[4096];
    Out whole = {bytes, bytes + sizeof bytes, false};
    text = (Out){note->text, note->text + NOTE_TEXT, false};
    failure_tell(r, &whole, error, sparing);
    const uint8_t *message = text_copy(&text, bytes, whole.at, MAX_TYPE);
    text_copy(&text, message, whole.at, NOTE_TEXT - MAX_TYPE - 4);
}

/* Whether it is time for a wording that takes long. */
bool notes_may_ask(Recorder *r) {
    uint64_t now = ticks(r);
    if (now - r->notes.asked < r->ticks_per_second / WORDING_SHARE) {
        return false;
    }
    r->notes.asked = now;
    return true;
}

/* Note an exception that was raised in user code, or came into it: the first ones
 * and, in places that are used over and over, the last ones. */
void notes_exception(Recorder *r, Thread *thread, const Facts *facts, int line, PyObject *error) {
    Notes *notes = &r->notes;
    uint64_t count = notes->exceptions++;
    uint32_t at = (uint32_t)(count < FIRST_EXCEPTIONS ? count : FIRST_EXCEPTIONS + (count - FIRST_EXCEPTIONS) % LAST_EXCEPTIONS);
    if (count < FIRST_EXCEPTIONS + LAST_EXCEPTIONS) {
        notes->raised[at].index = place_take(r);
    }
    notes->raised[at].error = error;
    notes->raised[at].type = Py_TYPE(error);
    if (notes->raised[at].index < 0) {
        return;
    }
    NotePlace place = {facts, line, thread->number};
    Note *note = note_at(r, (uint32_t)notes->raised[at].index);
    note_clear(note);
    error_write(r, note, error, count >= FIRST_EXCEPTIONS);
    note_write(r, note, NOTE_EXCEPTION, FATE_OPEN, &place);
    note->times = count + 1;
}

/* Remember what has become of an exception: of the last one noted for the object. False when it is not listed. */
bool notes_fate(Recorder *r, PyObject *error, int fate) {
    Notes *notes = &r->notes;
    uint64_t kept = Py_MIN(notes->exceptions, FIRST_EXCEPTIONS + LAST_EXCEPTIONS);
    Note *last = NULL;
    for (uint64_t at = 0; at < kept; at++) {
        if (notes->raised[at].error == error && notes->raised[at].type == Py_TYPE(error) && notes->raised[at].index >= 0) {
            Note *note = note_at(r, (uint32_t)notes->raised[at].index);
            last = last == NULL || note->number > last->number ? note : last;
        }
    }
    if (last != NULL) {
        last->action = (uint32_t)fate;
    }
    return last != NULL;
}

/* Return where the exception was in user code, as deep as can be. */
static NotePlace origin_of(Recorder *r, PyObject *error) {
    NotePlace place = {0};
    PyObject *first = ((PyBaseExceptionObject *)error)->traceback;
    PyTracebackObject *entry = first != NULL && PyTraceBack_Check(first) ? (PyTracebackObject *)first : NULL;
    for (int steps = 0; entry != NULL && steps < MAX_DEEP; steps++, entry = entry->tb_next) {
        _PyInterpreterFrame *frame = entry->tb_frame->f_frame;
        Facts *facts = PyCode_Check(frame->f_executable) ? codes_find(r, _PyFrame_GetCode(frame)) : NULL;
        if (facts != NULL) {
            place = (NotePlace){facts, line_of(facts, entry->tb_lasti / (int)sizeof(_Py_CODEUNIT)), 0};
        }
    }
    return place;
}

/* Note that an exception ended a thread. */
static void note_death(Recorder *r, PyThreadState *state, PyObject *error) {
    Thread *thread = threads_current(r, state);
    notes_count(r, COUNT_DEATHS);
    notes_fate(r, error, FATE_THREAD);
    int index = r->notes.deaths < MAX_DEATHS ? place_take(r) : -1;
    if (index < 0) {
        return;
    }
    r->notes.deaths++;
    NotePlace place = origin_of(r, error);
    place.thread = thread != NULL ? thread->number : 0;
    Note *note = note_at(r, (uint32_t)index);
    error_write(r, note, error, false);
    note_write(r, note, NOTE_THREAD, 0, &place);
}

/* Return the Python function that called a frame, NULL for none. */
static PyCodeObject *caller_of(const _PyInterpreterFrame *frame) {
    for (frame = frame->previous; frame != NULL; frame = frame->previous) {
        if (frame->owner != FRAME_OWNED_BY_CSTACK && PyCode_Check(frame->f_executable)) {
            return (PyCodeObject *)frame->f_executable;
        }
    }
    return NULL;
}

/* A frame of a thread other than the main one ends by an exception. It ends the
 * thread when no Python function called the frame, or the one of the library that
 * catches what comes out of Thread.run to tell it to threading.excepthook. An
 * exit ends a thread silently. */
void notes_unwind(Recorder *r, PyThreadState *state, const _PyInterpreterFrame *frame, PyObject *error) {
    PyCodeObject *caller = caller_of(frame);
    if (caller != NULL && !(PyUnicode_EqualToUTF8(caller->co_name, "_bootstrap_inner") &&
                            notes_is_library(caller, "threading.py"))) {
        return;
    }
    if (!PyType_IsSubtype(Py_TYPE(error), (PyTypeObject *)PyExc_SystemExit)) {
        note_death(r, state, error);
    }
}

/* Whether code is of a file of the standard library. */
bool notes_is_library(const PyCodeObject *code, const char *name) {
    Py_ssize_t size;
    const char *path = PyUnicode_AsUTF8AndSize(code->co_filename, &size);
    if (path == NULL) {
        PyErr_Clear();
        return false;
    }
    const size_t root = sizeof LIBRARY - 1, length = strlen(name);
    return (size_t)size == root + length && memcmp(path, LIBRARY, root) == 0 && memcmp(path + root, name, length) == 0;
}

/* Return the note of an effect that was there before; NULL when it is new. */
static Note *effect_find(Recorder *r, const Effect *effect) {
    for (uint32_t i = 0; i < r->notes.used; i++) {
        Note *note = note_at(r, i);
        if (note->kind == (uint32_t)effect->kind && note->action == effect->action && note->family == effect->family &&
            r->notes.size[i] == effect->size && memcmp(note->text, effect->text, effect->size) == 0) {
            return note;
        }
    }
    return NULL;
}

/* Wait for the outcome of an effect: of each thread's last one. */
static void wait_for(Notes *notes, PyThreadState *state, uint32_t note, bool same_frame) {
    _PyInterpreterFrame *frame = state->current_frame;
    if (frame == NULL) {
        return;
    }
    uint32_t at = 0;
    while (at < notes->pendings && notes->pending[at].state != state) {
        at++;
    }
    if (at == PENDING) {
        at = notes->next_pending++ % PENDING;
    } else if (at == notes->pendings) {
        notes->pendings++;
    }
    notes->pending[at] = (Pending){state, frame, frame->f_executable, same_frame ? NULL : frame->instr_ptr, note};
}

/* Note what the program reaches for, at the moment before it does. */
void notes_effect(Recorder *r, const Effect *effect, const NotePlace *place, PyThreadState *state) {
    Notes *notes = &r->notes;
    int kind = effect->kind - NOTE_FILE;
    notes_count(r, COUNT_FILES + kind);
    Note *note = effect_find(r, effect);
    if (note != NULL) {
        note->times++;
    } else {
        int index = notes->effects[kind] < MAX_EFFECTS ? place_take(r) : -1;
        if (index < 0) {
            return;
        }
        notes->effects[kind]++;
        notes->size[index] = (uint32_t)effect->size;
        note = note_at(r, (uint32_t)index);
        memcpy(note->text, effect->text, effect->size);
        note_write(r, note, effect->kind, effect->action, place);
        note->family = effect->family;
    }
    wait_for(notes, state, (uint32_t)(note - note_at(r, 0)), effect->same_frame);
}

/* An exception is raised in a frame with an effect whose outcome is awaited: when
 * it is the answer of the system the effect has failed. */
static void outcome(Recorder *r, Pending *pending, PyObject *error) {
    if (!PyType_IsSubtype(Py_TYPE(error), (PyTypeObject *)PyExc_OSError)) {
        return;
    }
    PyObject *number = ((PyOSErrorObject *)error)->myerrno;
    if (number == NULL || !PyLong_CheckExact(number) || !PyUnstable_Long_IsCompact((PyLongObject *)number)) {
        return;
    }
    Py_ssize_t code = PyUnstable_Long_CompactValue((PyLongObject *)number);
    if (code == EINPROGRESS) {
        return; /* a socket that does not block: no outcome yet */
    }
    Note *note = note_at(r, pending->note);
    note->failures++;
    if (note->error == 0) {
        note->error = (int32_t)code;
    }
    pending->frame = NULL;
}

/* An exception is raised in a frame of any code. */
void notes_outcome(Recorder *r, PyThreadState *state, const _PyInterpreterFrame *frame, PyObject *error) {
    for (uint32_t i = 0; i < r->notes.pendings; i++) {
        Pending *pending = &r->notes.pending[i];
        if (pending->frame == frame && pending->state == state && pending->code == frame->f_executable &&
            (pending->at == NULL || pending->at == frame->instr_ptr)) {
            outcome(r, pending, error);
        }
    }
}
