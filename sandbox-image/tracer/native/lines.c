/* Lines of a code object's instructions. */
#include "recorder.h"

/* The table of locations, as Objects/locations.md of CPython describes it. */
typedef struct Reader {
    const uint8_t *at, *end;
} Reader;

static unsigned read_byte(Reader *reader) {
    return reader->at < reader->end ? *reader->at++ : 0;
}

static unsigned read_number(Reader *reader) {
    unsigned byte = read_byte(reader), number = byte & 63, shift = 0;
    while (byte & 64 && shift < 24) {
        byte = read_byte(reader);
        shift += 6;
        number |= (byte & 63) << shift;
    }
    return number;
}

static int read_signed(Reader *reader) {
    unsigned number = read_number(reader);
    return number & 1 ? -(int)(number >> 1) : (int)(number >> 1);
}

/* Read the step of the line that an entry of the table makes. */
static int read_step(Reader *reader, unsigned form) {
    int step = 0;
    if (form < 10) {
        read_byte(reader);
    } else if (form < 13) {
        step = (int)form - 10;
        read_byte(reader);
        read_byte(reader);
    } else if (form == 13) {
        step = read_signed(reader);
    } else if (form == 14) {
        step = read_signed(reader);
        read_number(reader);
        read_number(reader);
        read_number(reader);
    }
    return step;
}

/* Fill in the line of each unit, 0 where there is none. The program can make
 * code objects with any table: false when lines are out of all bounds. */
bool lines_read(PyCodeObject *code, int32_t *lines, int units) {
    Reader reader = {(const uint8_t *)PyBytes_AS_STRING(code->co_linetable), NULL};
    reader.end = reader.at + PyBytes_GET_SIZE(code->co_linetable);
    int64_t line = code->co_firstlineno;
    int unit = 0;
    while (unit < units && reader.at < reader.end) {
        unsigned head = read_byte(&reader);
        unsigned form = head >> 3 & 15;
        line += read_step(&reader, form);
        if (line < 0 || line > 10000000) {
            return false;
        }
        for (unsigned length = (head & 7) + 1; length > 0 && unit < units; length--) {
            lines[unit++] = form == 15 ? 0 : (int32_t)line;
        }
    }
    while (unit < units) {
        lines[unit++] = 0;
    }
    return true;
}
