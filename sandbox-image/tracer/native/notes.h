/* Notes: what is told of a run besides its events and counters. */
#ifndef TRACEFLEET_NOTES_H
#define TRACEFLEET_NOTES_H

#include "values.h"

/* How the area of notes looks is in docs/trace-format.md. */
enum {
    NOTES_FORMAT = 1, NOTES_HEAD = 128, NOTE_BYTES = 768, NOTE_TEXT = NOTE_BYTES - 56,
    MAX_TYPE = 200,            /* bytes of the name of an exception's type */
    MAX_WORDS = 200,           /* characters of the name of what was reached for */
    MAX_WORD_BYTES = 600,      /* bytes of it */
    MAX_WALKED = 200,          /* frames that are looked through for user code */
    MAX_DEEP = 2000,           /* entries of a traceback */
};

/* Counts in the head of the area. */
enum NoteCount { COUNT_FILES, COUNT_SOCKETS, COUNT_PROCESSES, COUNT_DEATHS, COUNT_WARNINGS, COUNT_UNRAISABLE };

/* What has become of an exception, in the field `action` of its note. */
enum Fate { FATE_OPEN, FATE_PROGRAM, FATE_THREAD, FATE_IGNORED };

/* What was done, in the field `action` of an effect's note. */
enum Action {
    READ = 1, WRITE, APPEND, CREATE, UPDATE, REMOVE, RENAME, MKDIR, RMDIR, LINK, SYMLINK, TRUNCATE, LIST, CHMOD,
    OPEN_SOCKET = 32, CONNECT, BIND, SEND, RESOLVE,
    RUN = 64, SHELL, SPAWN, EXEC, FORK,
};

/* Where in the program something happened. */
typedef struct NotePlace {
    const Facts *facts; /* NULL: no user code */
    int line;
    uint32_t thread;
} NotePlace;

/* What a program reached for. */
typedef struct Effect {
    enum NoteKind kind;
    enum Action action;
    uint32_t family;          /* of a socket, 0 for unknown */
    uint8_t text[MAX_WORD_BYTES + 8];
    size_t size;
    bool same_frame;          /* a failure is raised elsewhere in the frame that announced the effect */
} Effect;

#define LIBRARY "/usr/lib/python3.13/"

void notes_effect(Recorder *r, const Effect *effect, const NotePlace *place, PyThreadState *state);

#endif
