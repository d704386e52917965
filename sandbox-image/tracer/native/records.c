/* What a record shows besides its head: variables, values, objects, an exception, how much has been put out. */
#include "records.h"

/* Write what an event shows besides its head; say what there is. */
unsigned body_write(Recorder *r, Out *out, const Event *event, const Look *look) {
    unsigned has = 0;
    if (r->with_values) {
        Found found;
        found.count = 0;
        bool quiet = look->quiet;
        uint8_t *at = out->at;
        quiet &= !variables_write(r, out, event->activation, &found, look);
        if (!out->full && *at != 0) {
            has |= HAS_VARIABLES;
        } else if (!out->full) {
            out->at = at;
        }
        if (event->value != NULL) {
            has |= HAS_VALUE;
            value_write(r, out, event->value, Py_TYPE(event->value), &found);
            quiet &= !value_is_object(event->value);
        }
        if (found.count > 0 && !quiet) {
            at = out->at;
            objects_write(r, out, &found, look->all);
            if (!out->full && *at != 0) {
                has |= HAS_OBJECTS;
            } else if (!out->full) {
                out->at = at;
            }
        }
    }
    if (event->error != NULL && event->kind != UNWIND) {
        has |= HAS_ERROR;
        failure_write(r, out, event->error);
    }
    uint64_t standard = r->counters[C_STDOUT], errors = r->counters[C_STDERR];
    if (standard != r->out[0] || errors != r->out[1]) {
        has |= HAS_OUTPUT;
        r->out[0] = standard;
        r->out[1] = errors;
        number_write(out, standard);
        number_write(out, errors);
    }
    return has;
}
