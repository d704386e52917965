/* What the program reaches for: files, sockets, other programs.
 *
 * The interpreter tells its audit hooks of these before they happen. A hook in C
 * is not to be seen from Python and cannot be taken away; it hears everything
 * that any code does, often what is of no interest here, so it returns at once
 * for that. Arguments may be objects of the program's classes, or anything at all where
 * the program calls sys.audit itself: only exact strings, bytes and numbers are read. */
#include "notes.h"

#include "flow.h"

#include <fcntl.h>
#include <internal/pycore_interp.h>
#include <sys/socket.h>

/* How an event's arguments name what is reached for. */
enum Naming { BY_OPEN, BY_PATH, BY_PATHS, BY_FAMILY, BY_ADDRESS, BY_HOST, BY_POPEN, BY_COMMAND, BY_NOTHING };

static const struct Heard {
    const char *event;
    enum NoteKind kind;
    enum Action action;
    enum Naming naming;
} heard[] = {
    {"open", NOTE_FILE, READ, BY_OPEN},
    {"os.listdir", NOTE_FILE, LIST, BY_PATH},
    {"os.scandir", NOTE_FILE, LIST, BY_PATH},
    {"os.remove", NOTE_FILE, REMOVE, BY_PATH},
    {"os.rename", NOTE_FILE, RENAME, BY_PATHS},
    {"os.mkdir", NOTE_FILE, MKDIR, BY_PATH},
    {"os.rmdir", NOTE_FILE, RMDIR, BY_PATH},
    {"os.link", NOTE_FILE, LINK, BY_PATHS},
    {"os.symlink", NOTE_FILE, SYMLINK, BY_PATHS},
    {"os.truncate", NOTE_FILE, TRUNCATE, BY_PATH},
    {"os.chmod", NOTE_FILE, CHMOD, BY_PATH},
    {"socket.__new__", NOTE_SOCKET, OPEN_SOCKET, BY_FAMILY},
    {"socket.connect", NOTE_SOCKET, CONNECT, BY_ADDRESS},
    {"socket.bind", NOTE_SOCKET, BIND, BY_ADDRESS},
    {"socket.sendto", NOTE_SOCKET, SEND, BY_ADDRESS},
    {"socket.sendmsg", NOTE_SOCKET, SEND, BY_ADDRESS},
    {"socket.getaddrinfo", NOTE_SOCKET, RESOLVE, BY_HOST},
    {"socket.gethostbyname", NOTE_SOCKET, RESOLVE, BY_HOST},
    {"socket.gethostbyaddr", NOTE_SOCKET, RESOLVE, BY_HOST},
    {"subprocess.Popen", NOTE_PROCESS, RUN, BY_POPEN},
    {"os.system", NOTE_PROCESS, SHELL, BY_PATH},
    {"os.posix_spawn", NOTE_PROCESS, SPAWN, BY_COMMAND},
    {"os.exec", NOTE_PROCESS, EXEC, BY_COMMAND},
    {"os.fork", NOTE_PROCESS, FORK, BY_NOTHING},
    {"os.forkpty", NOTE_PROCESS, FORK, BY_NOTHING},
};

/* A hook has a place for a context, but outlives the recorder: this says whether there is still one. */
static Recorder *listening;

/* Text that is put together, bounded. */
typedef struct Words {
    uint8_t bytes[MAX_WORD_BYTES];
    size_t size;
    int characters;
    bool cut;
} Words;

static void character_add(Words *words, Py_UCS4 c) {
    uint8_t bytes[4];
    Out out = {bytes, bytes + sizeof bytes, false};
    if (words->cut) {
        return;
    }
    character_write(&out, c);
    size_t size = (size_t)(out.at - bytes);
    bool last = words->characters == MAX_WORDS - 1 || words->size + size + 3 > sizeof words->bytes;
    if (last) { /* an ellipsis in place of what does not fit */
        memcpy(bytes, "\xE2\x80\xA6", size = 3);
        words->cut = true;
    }
    memcpy(words->bytes + words->size, bytes, size);
    words->size += size;
    words->characters++;
}

static void ascii_add(Words *words, const char *text) {
    while (*text != 0) {
        character_add(words, (Py_UCS4)(uint8_t)*text++);
    }
}

/* Add an exact string, bytes or small number; "?" for anything else. */
static void part_add(Words *words, PyObject *part) {
    if (PyUnicode_CheckExact(part)) {
        Py_ssize_t size = Py_MIN(PyUnicode_GET_LENGTH(part), MAX_WORDS);
        for (Py_ssize_t i = 0; i < size; i++) {
            character_add(words, PyUnicode_READ_CHAR(part, i));
        }
    } else if (PyBytes_CheckExact(part)) {
        Py_ssize_t size = Py_MIN(PyBytes_GET_SIZE(part), MAX_WORDS);
        for (Py_ssize_t i = 0; i < size; i++) {
            uint8_t byte = (uint8_t)PyBytes_AS_STRING(part)[i];
            character_add(words, byte < 0x80 ? byte : 0xFFFD);
        }
    } else if (PyLong_CheckExact(part) && PyUnstable_Long_IsCompact((PyLongObject *)part)) {
        char digits[32];
        snprintf(digits, sizeof digits, "%zd", PyUnstable_Long_CompactValue((PyLongObject *)part));
        ascii_add(words, digits);
    } else {
        ascii_add(words, "?");
    }
}

/* Return an argument of an event, None when there are not so many. */
static PyObject *argument(PyObject *arguments, Py_ssize_t at) {
    return at < PyTuple_GET_SIZE(arguments) ? PyTuple_GET_ITEM(arguments, at) : Py_None;
}

/* How a file is opened, by the mode of open() or else the flags of os.open(). */
static enum Action opening(PyObject *mode, long flags) {
    if (PyUnicode_CheckExact(mode)) {
        bool both = false;
        enum Action action = READ;
        for (Py_ssize_t i = 0; i < Py_MIN(PyUnicode_GET_LENGTH(mode), 8); i++) {
            switch (PyUnicode_READ_CHAR(mode, i)) {
                case 'w': action = WRITE; break;
                case 'a': action = APPEND; break;
                case 'x': action = CREATE; break;
                case '+': both = true; break;
            }
        }
        return both && action == READ ? UPDATE : action;
    }
    if (flags < 0 || (flags & O_ACCMODE) == O_RDONLY) {
        return READ;
    }
    if ((flags & (O_CREAT | O_EXCL)) == (O_CREAT | O_EXCL)) {
        return CREATE;
    }
    if (flags & O_APPEND) {
        return APPEND;
    }
    return (flags & O_ACCMODE) == O_RDWR && !(flags & O_TRUNC) ? UPDATE : WRITE;
}

/* Add a path. False for a descriptor, which is no file that is reached for. */
static bool path_add(Words *words, PyObject *path) {
    if (path == Py_None) {
        ascii_add(words, "."); /* what listing means without a path */
        return true;
    }
    part_add(words, path);
    return !PyLong_CheckExact(path);
}

/* Whether a path is like <string>: the compiler tries to read such files, to quote from them. */
static bool is_made_up(const Words *path) {
    return path->size > 1 && path->bytes[0] == '<' && path->bytes[path->size - 1] == '>';
}

/* Add the address of a socket, and find its family where its form tells it; false when there is none. */
static bool address_add(Words *words, PyObject *address, uint32_t *family) {
    if (address == Py_None) {
        return false; /* a socket that is connected already */
    }
    if (!PyTuple_CheckExact(address)) {
        *family = PyUnicode_CheckExact(address) || PyBytes_CheckExact(address) ? AF_UNIX : 0;
        part_add(words, address);
        return true;
    }
    Py_ssize_t size = PyTuple_GET_SIZE(address);
    PyObject *host = size > 0 ? PyTuple_GET_ITEM(address, 0) : Py_None;
    bool wide = size == 4 || (PyUnicode_CheckExact(host) && PyUnicode_FindChar(host, ':', 0, PyUnicode_GET_LENGTH(host), 1) >= 0);
    *family = wide ? AF_INET6 : size == 2 ? AF_INET : 0;
    ascii_add(words, wide ? "[" : "");
    for (Py_ssize_t i = 0; i < Py_MIN(size, 2); i++) {
        ascii_add(words, i == 0 ? "" : wide ? "]:" : ":");
        part_add(words, PyTuple_GET_ITEM(address, i));
    }
    return true;
}

static bool is_text(PyObject *part) {
    return PyUnicode_CheckExact(part) || PyBytes_CheckExact(part);
}

/* Add the words of a command: the program and its arguments, or one text. What is
 * run is the program, whatever the first argument says. */
static void command_add(Words *words, PyObject *program, PyObject *command) {
    bool list = PyList_CheckExact(command), tuple = PyTuple_CheckExact(command);
    Py_ssize_t size = list ? PyList_GET_SIZE(command) : tuple ? PyTuple_GET_SIZE(command) : 0;
    if (size == 0) {
        part_add(words, is_text(command) ? command : program);
        return;
    }
    for (Py_ssize_t i = 0; i < Py_MIN(size, MAX_WORDS); i++) {
        PyObject *word = list ? PyList_GET_ITEM(command, i) : PyTuple_GET_ITEM(command, i);
        ascii_add(words, i > 0 ? " " : "");
        part_add(words, i == 0 && is_text(program) ? program : word);
    }
}

/* Say what an event is about; false when it is about nothing that is told. */
static bool describe(const struct Heard *what, PyObject *arguments, Effect *effect) {
    Words words = {.size = 0};
    PyObject *first = argument(arguments, 0), *second = argument(arguments, 1);
    bool told = true;
    *effect = (Effect){.kind = what->kind, .action = what->action, .same_frame = what->naming == BY_POPEN};
    switch (what->naming) {
        case BY_OPEN:
            effect->action = opening(second, small_number(argument(arguments, 2)));
            told = first != Py_None && path_add(&words, first) && !(effect->action == READ && is_made_up(&words));
            break;
        case BY_PATH:
            told = path_add(&words, first);
            break;
        case BY_PATHS:
            told = path_add(&words, first);
            ascii_add(&words, " -> ");
            told &= path_add(&words, second);
            break;
        case BY_FAMILY: {
            /* A local socket that is only made reaches nobody: event loops have one. */
            long family = small_number(second);
            effect->family = family > 0 ? (uint32_t)family : 0;
            told = family > 0 && family != AF_UNIX;
            break;
        }
        case BY_ADDRESS:
            told = address_add(&words, second, &effect->family);
            break;
        case BY_HOST:
            part_add(&words, first);
            if (second != Py_None) {
                ascii_add(&words, ":");
                part_add(&words, second);
            }
            break;
        case BY_POPEN:
        case BY_COMMAND:
            command_add(&words, first, second);
            break;
        case BY_NOTHING:
            break;
    }
    Out out = {effect->text, effect->text + sizeof effect->text, false};
    bytes_write(&out, words.bytes, words.size);
    effect->size = (size_t)(out.at - effect->text);
    return told;
}

/* Whether code is the import system's. */
static bool is_importing(const PyCodeObject *code) {
    const char *path = PyUnicode_AsUTF8(code->co_filename);
    if (path == NULL) {
        PyErr_Clear();
    }
    return path != NULL && strncmp(path, "<frozen importlib.", 18) == 0;
}

/* Whether a frame is where the interpreter shows what nobody caught, and reads
 * sources for that: in the hook of threads, or after it has called a hook itself. */
static bool is_showing(const Recorder *r, const PyThreadState *state, const _PyInterpreterFrame *frame) {
    const PyCodeObject *code = (PyCodeObject *)frame->f_executable;
    return (r->notes.shown.state == state && r->notes.shown.frame == frame && r->notes.shown.at == frame->instr_ptr) ||
           (PyUnicode_EqualToUTF8(code->co_name, "invoke_excepthook") && notes_is_library(code, "threading.py"));
}

/* Find where the program is, and whether what happens is its doing: not the
 * import system's, and not what reads sources to show them in a traceback. At the main
 * thread's bottom without user code are the interpreter's start and end, and at that of
 * another one, without any code, what shows the exception that ended it. */
static bool find_place(Recorder *r, PyThreadState *state, NotePlace *place) {
    *place = (NotePlace){0};
    int steps = 0;
    for (_PyInterpreterFrame *frame = state->current_frame; frame != NULL && steps < MAX_WALKED; frame = frame->previous) {
        if (frame->owner == FRAME_OWNED_BY_CSTACK || !PyCode_Check(frame->f_executable)) {
            continue;
        }
        PyCodeObject *code = (PyCodeObject *)frame->f_executable;
        if (steps == 0 && is_showing(r, state, frame)) {
            return false;
        }
        Facts *facts = codes_find(r, code);
        if (facts != NULL) {
            place->facts = facts;
            place->line = line_of(facts, _PyInterpreterFrame_LASTI(frame));
            break;
        }
        if (is_importing(code) || notes_is_library(code, "linecache.py") || notes_is_library(code, "traceback.py")) {
            return false;
        }
        steps++;
    }
    if (place->facts == NULL && (state == r->main_state || steps == 0)) {
        return false;
    }
    Thread *thread = threads_current(r, state);
    if (thread != NULL && r->passing) {
        late_catch(r, thread, state->current_frame); /* a note says how many events came before it */
    }
    place->thread = thread != NULL ? thread->number : 0;
    return true;
}

/* Whether it is the library's subprocess that starts a program, which has told so itself. */
static bool is_told(const struct Heard *what, const PyThreadState *state) {
    const _PyInterpreterFrame *frame = state->current_frame;
    return what->action == SPAWN && frame != NULL && PyCode_Check(frame->f_executable) &&
           notes_is_library((PyCodeObject *)frame->f_executable, "subprocess.py");
}

/* Note an event that tells of an effect. */
static void effect_hear(Recorder *r, PyThreadState *state, const char *event, PyObject *arguments) {
    for (size_t i = 0; i < sizeof heard / sizeof *heard; i++) {
        Effect effect;
        NotePlace place;
        if (strcmp(event, heard[i].event) == 0) {
            if (!is_told(&heard[i], state) && describe(&heard[i], arguments, &effect) && find_place(r, state, &place)) {
                notes_effect(r, &effect, &place, state);
            }
            return;
        }
    }
}

/* An exception has nobody to go to, as from __del__. */
static void unraisable_hear(Recorder *r, PyThreadState *state, PyObject *arguments) {
    PyObject *facts = argument(arguments, 1);
    _PyInterpreterFrame *frame = state->current_frame;
    notes_count(r, COUNT_UNRAISABLE);
    if (frame != NULL) {
        r->notes.shown = (Pending){.state = state, .frame = frame, .at = frame->instr_ptr};
    }
    /* A structure of the interpreter's own, with type, value and traceback; checked because sys.audit can be called with anything. */
    if (PyTuple_Check(facts) && Py_TYPE(facts)->tp_flags & Py_TPFLAGS_IMMUTABLETYPE && PyTuple_GET_SIZE(facts) > 1 &&
        PyTuple_GET_ITEM(facts, 1) != NULL && PyExceptionInstance_Check(PyTuple_GET_ITEM(facts, 1))) {
        notes_fate(r, PyTuple_GET_ITEM(facts, 1), FATE_IGNORED);
    }
}

/* The hook. It never raises: an error would be the program's to see. */
static int hear(const char *event, PyObject *arguments, void *nothing) {
    (void)nothing;
    Recorder *r = listening;
    if (r == NULL || !r->attached || arguments == NULL || !PyTuple_Check(arguments)) {
        return 0;
    }
    bool of_system = event[0] == 'o' && (event[1] == 'p' || event[1] == 's');
    bool of_socket = event[0] == 's' && (event[1] == 'o' || event[1] == 'u');
    bool is_unraisable = strcmp(event, "sys.unraisablehook") == 0;
    if (!of_system && !of_socket && !is_unraisable) {
        prying_hear(r, event, arguments);
        return 0;
    }
    PyThreadState *state = PyThreadState_GetUnchecked();
    if (state == NULL) {
        return 0;
    }
    if (state->interp != r->interpreter) {
        r->counters[C_FLAGS] |= FLAG_INTERPRETERS; /* it opens files already when it starts */
    } else if (is_unraisable) {
        unraisable_hear(r, state, arguments);
    } else {
        effect_hear(r, state, event, arguments);
    }
    return 0;
}

/* Listen from now on. There is no way to take the hook away again. False with an exception when it cannot be had. */
bool audit_open(Recorder *r) {
    listening = r;
    if (PySys_AddAuditHook(hear, NULL) != 0) {
        return false;
    }
    auditing_open();
    return true;
}

/* Take the hooks of the program away; return them. What the tracer does in Python
 * is not the program's, and not for its hooks to see. */
PyObject *audit_hush(PyThreadState *state) {
    PyObject *hooks = state->interp->audit_hooks;
    state->interp->audit_hooks = NULL;
    return hooks;
}

/* Give the program its hooks back, and those that another thread has added since. */
void audit_unhush(PyThreadState *state, PyObject *hooks) {
    PyObject *added = state->interp->audit_hooks;
    if (hooks == NULL) {
        return;
    }
    state->interp->audit_hooks = hooks;
    for (Py_ssize_t i = 0; added != NULL && i < PyList_GET_SIZE(added); i++) {
        if (PyList_Append(hooks, PyList_GET_ITEM(added, i)) < 0) {
            PyErr_Clear();
        }
    }
    Py_XDECREF(added);
}

void audit_close(Recorder *r) {
    if (listening == r) {
        listening = NULL;
    }
}
