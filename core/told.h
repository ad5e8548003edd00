/*
 * A record as a worker told it, and the texts that the store keeps of it: read from a RESULT's body
 * where it lies, or from parsed JSON. The two ways give the same (test_told).
 */
#ifndef GK_CORE_TOLD_H
#define GK_CORE_TOLD_H

#include "core/record.h"

struct gk_told {             /* all zero before its first use; its texts are used again */
    struct gk_record record; /* from a body without counts and environment: those are text alone */
    struct gk_buf kept;      /* the record without what is stored apart; canonical, as the others */
    struct gk_buf samples, environment; /* size 0: there are none */
};

void gk_told_fini(struct gk_told *told);
/* False: this way cannot read it; parse the body and take the other one, which says what is wrong.
 * body[size] is a NUL. */
bool gk_told_from_body(const char *body, size_t size, struct gk_told *told);
/* Errors are those of gk_record_from_json(). */
enum gk_status gk_told_from_json(const struct gk_json *record, struct gk_told *told,
                                 struct gk_err *err);

#endif
