/*
 * The audit trail: who did what to which target, why, and how it ended. Lines are only ever added
 * (two triggers refuse anything else), in the transaction of the change that they tell of. Each
 * line's hash covers the line before it, so that a line that was changed, taken out or put in is
 * seen by whoever walks the chain.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "db/db_internal.h"

#define FIRST_LINE   "gktune audit" /* stands for the hash before line 1 */
#define VERIFY_ROWS  1000
#define PROBLEMS_MAX 10 /* one break makes every later line suspect: more names help nobody */

/* False: out of memory. A hash of half a line must never be stored: the chain would be broken. */
static bool line_hash(const char *before, const struct gk_json *row,
                      char text_out[GK_HASH_TEXT_SIZE])
{
    bool ok = true;
    static const char *const members[] = {"line",   "at_ms",  "who",    "what",
                                          "target", "reason", "outcome"};
    struct gk_hasher hasher;
    gk_hasher_init(&hasher);
    gk_hasher_text(&hasher, before);
    for (size_t i = 0; i < GK_ARRAY_COUNT(members); i++) {
        struct gk_buf text = {0};
        const struct gk_json *value = gk_json_get(row, members[i]);
        ok = ok && (!value || (gk_json_canonical(value, &text, NULL) == GK_OK &&
                               gk_buf_status(&text, NULL) == GK_OK));
        gk_hasher_text(&hasher, gk_buf_text(&text));
        gk_buf_fini(&text);
    }
    struct gk_hash hash = gk_hasher_final(&hasher);
    gk_hash_hex(&hash, text_out);
    return ok;
}

enum gk_status gk_db_audit_add(struct gk_db *db, uint64_t wall_ms, const struct gk_db_audit *audit,
                               struct gk_err *err)
{
    static const char columns[] = "line at_ms who what target reason outcome hash";
    char hash[GK_HASH_TEXT_SIZE];
    struct gk_json *last = NULL, *row = gk_json_new_object();
    enum gk_status status = db_begin(db, err);
    if (status == GK_OK) {
        status =
            db_row(db, err, &last, "SELECT line, hash FROM audit ORDER BY line DESC LIMIT 1", "");
        status = status == GK_NOT_FOUND ? GK_OK : status;
    }
    bool ok = gk_json_set_int(row, "line", gk_json_get_int(last, "line", 0) + 1) &&
              gk_json_set_int(row, "at_ms", (int64_t)wall_ms) &&
              gk_json_set_string(row, "who", audit->who ? audit->who : "") &&
              gk_json_set_string(row, "what", audit->what) &&
              gk_json_set_string(row, "target", audit->target ? audit->target : "") &&
              gk_json_set_string(row, "reason", audit->reason ? audit->reason : "") &&
              gk_json_set_string(row, "outcome", audit->outcome ? audit->outcome : "done");
    ok = ok && line_hash(gk_json_get_string(last, "hash", FIRST_LINE), row, hash) &&
         gk_json_set_string(row, "hash", hash);
    if (status == GK_OK) {
        status = ok ? db_insert(db, "audit", columns, row, NULL, err)
                    : gk_fail(err, GK_NOMEM, "out of memory for a line of the audit trail");
    }
    gk_json_free(last);
    gk_json_free(row);
    return status;
}

enum gk_status gk_db_list_audit(struct gk_db *db, int64_t cursor, struct gk_json **page_out,
                                struct gk_err *err)
{
    struct gk_json *rows = NULL;
    enum gk_status status = db_rows(
        db, err, &rows, "SELECT * FROM audit WHERE line>?1 ORDER BY line LIMIT 501", "i", cursor);
    if (status == GK_OK && !(*page_out = db_page(rows, "lines", "line"))) {
        status = gk_fail(err, GK_NOMEM, "out of memory for a page");
    }
    return status;
}

static void tell(struct gk_json *problems, size_t *count, const char *format, int64_t line)
{
    struct gk_err text = {0};
    if ((*count)++ < PROBLEMS_MAX) {
        (void)gk_fail(&text, GK_CORRUPT, "audit line %" PRId64 ": %s", line, format);
        (void)gk_json_push(problems,
                           gk_json_new_string(text.text)); /* one message less without memory */
    }
}

enum gk_status gk_db_audit_verify(struct gk_db *db, int64_t *lines_out, struct gk_json *problems,
                                  struct gk_err *err)
{
    char before[GK_HASH_TEXT_SIZE] = FIRST_LINE, hash[GK_HASH_TEXT_SIZE];
    int64_t cursor = 0;
    size_t count = VERIFY_ROWS, told = 0;
    while (count == VERIFY_ROWS) {
        struct gk_json *rows = NULL;
        enum gk_status status =
            db_rows(db, err, &rows, "SELECT * FROM audit WHERE line>?1 ORDER BY line LIMIT ?2",
                    "ii", cursor, (int64_t)VERIFY_ROWS);
        if (status != GK_OK) {
            return status;
        }
        count = gk_json_count(rows);
        for (size_t i = 0; i < count; i++) {
            const struct gk_json *row = gk_json_at(rows, i);
            int64_t line = gk_json_get_int(row, "line", 0);
            const char *stored = gk_json_get_string(row, "hash", "");
            if (!line_hash(before, row, hash)) {
                gk_json_free(rows);
                return gk_fail(err, GK_NOMEM, "out of memory for the audit trail");
            }
            if (line != cursor + 1) {
                tell(problems, &told, "the line before it is missing", line);
            } else if (strcmp(hash, stored) != 0) {
                tell(problems, &told, "it, or the line before it, is not what was written", line);
            }
            cursor = line;
            (void)snprintf(before, sizeof before, "%s", stored);
        }
        gk_json_free(rows);
    }
    *lines_out = cursor;
    return GK_OK;
}
