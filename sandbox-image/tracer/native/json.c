/* Text of definitions: ASCII JSON in a growing buffer. */
#include "recorder.h"

#include <stdarg.h>
#include <stdio.h>

/* Make room for more bytes; false when there is no memory. */
static bool text_room(Text *text, size_t more) {
    if (text->failed) {
        return false;
    }
    if (text->size + more <= text->room) {
        return true;
    }
    size_t room = text->room * 2 + more + 256;
    char *data = PyMem_RawRealloc(text->data, room);
    if (data == NULL) {
        text->failed = true;
        return false;
    }
    text->data = data;
    text->room = room;
    return true;
}

/* Append formatted text of less than 256 bytes. */
void text_add(Text *text, const char *format, ...) {
    if (!text_room(text, 256)) {
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text->data + text->size, 256, format, arguments);
    va_end(arguments);
    if (size < 0 || size > 255) {
        text->failed = true;
        return;
    }
    text->size += (size_t)size;
}

/* Append one UTF-16 unit as an escape. */
static void escape(Text *text, unsigned unit) {
    text_add(text, "\\u%04x", unit);
}

/* Append the first characters of a string as a JSON string. What is not
 * exactly a string, such as a name that the program made, becomes "?". */
void text_quote(Text *text, PyObject *string, Py_ssize_t limit) {
    if (string == NULL || !PyUnicode_CheckExact(string)) {
        text_add(text, "\"?\"");
        return;
    }
    int kind = PyUnicode_KIND(string);
    const void *data = PyUnicode_DATA(string);
    Py_ssize_t size = Py_MIN(PyUnicode_GET_LENGTH(string), limit);
    text_add(text, "\"");
    for (Py_ssize_t i = 0; i < size; i++) {
        Py_UCS4 character = PyUnicode_READ(kind, data, i);
        if (character == '"' || character == '\\') {
            text_add(text, "\\%c", (int)character);
        } else if (character >= ' ' && character < 127) {
            text_add(text, "%c", (int)character);
        } else if (character < 0x10000) {
            escape(text, character);
        } else {
            escape(text, 0xD800 + ((character - 0x10000) >> 10));
            escape(text, 0xDC00 + ((character - 0x10000) & 0x3FF));
        }
    }
    text_add(text, "\"");
}

void text_free(Text *text) {
    PyMem_RawFree(text->data);
    *text = (Text){0};
}
