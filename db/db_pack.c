/*
 * A small backup: tables as compressed text, and a store made of it again.
 *
 * `db backup --no-samples` is what travels between machines, so its size counts: 100,000 trials in
 * 16 MiB. A trial's row has 1.5 KB, most of it names, hashes and numbers that follow from others.
 * What follows is left out (derive_trial() puts it back), the rest is written as JSON, a row after
 * the other, and deflated in parts: about 140 bytes a trial, most of it the digits of times and of
 * worst elements. Nothing that a record says is lost; lost are raw samples, passes of final rounds,
 * the lines of ended work in the logs, tokens, and when a trial was asked for and leased (when it
 * was recorded stays). Such a file has the table `packed`; opening it unpacks, a part a
 * transaction, so that a crash in between goes on where it was.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "core/config.h"
#include "db/db_internal.h"

#define PART_ROWS      1000
#define PART_BYTES_MAX (UINT32_C(64) << 20)

#define PACKED                                                                                     \
    "CREATE TABLE IF NOT EXISTS packed(part INTEGER PRIMARY KEY, name TEXT NOT NULL,"              \
    " size INTEGER NOT NULL, hash TEXT NOT NULL, body BLOB NOT NULL)"
#define FILE_PART "file" /* the name of a part that is a file's bytes, not rows */

/* In the order in which rows may be put back: each refers to earlier ones. */
static const struct table {
    const char *name, *columns, *select;
} tables[] = {
    {"tasks",
     "task job problem arch gpu state props nvrtc hints strategy_version trials verified failed "
     "spent_ns best_ns best_config default_config incumbent round attempt verdict reason flags "
     "not_run",
     "SELECT * FROM tasks WHERE task>?1 ORDER BY task LIMIT ?2"},
    {"trials",
     "trial job task seq batch template template_hash config config_id state attempt worker reused "
     "stage failure message time_ns cost_ns input_set code_id record environment row_hash "
     "created_ms recorded_ms",
     "SELECT t.*, e.content AS conditions FROM trials t LEFT JOIN environments e"
     " ON e.environment=t.environment WHERE t.trial>?1 ORDER BY t.trial LIMIT ?2"},
    {"picks",
     "pick problem op arch gpu policy kind template template_hash config config_id time_ns "
     "default_ns default_config margin noise_floor ties reason ladder record modelled nvrtc "
     "environment bundle job task trial passes created_ms confirmed_ms incumbent_ns vendor regime "
     "conditions marks",
     "SELECT * FROM picks WHERE pick>?1 ORDER BY pick LIMIT ?2"},
};
static const char *const keys[] = {"task", "trial", "pick"};
_Static_assert(sizeof tables / sizeof tables[0] == sizeof keys / sizeof keys[0], "a key a table");

/* ------------------------------------------------------------------ what follows from the rest */

static bool config_id_of(const struct gk_json *trial, char text_out[GK_HASH_TEXT_SIZE])
{
    struct gk_hash hash;
    if (!gk_hash_from_hex(gk_json_get_string(trial, "template_hash", ""), &hash)) {
        return false;
    }
    hash = gk_config_id(&hash, gk_json_get_string(trial, "config", ""));
    gk_hash_hex(&hash, text_out);
    return true;
}

/* Sets what a recorded trial's row repeats of its record, where the row does not say it. */
static bool derive_trial(struct gk_json *trial)
{
    static const char *const repeated[] = {"stage", "failure", "message", "code_id"};
    const struct gk_json *record = gk_json_get(trial, "record");
    char text[GK_HASH_TEXT_SIZE];
    bool ok = true;
    if (!gk_json_get(trial, "config_id") && config_id_of(trial, text)) {
        ok = gk_json_set_string(trial, "config_id", text);
    }
    if (!gk_json_get(trial, "created_ms")) {
        ok = ok && gk_json_set_int(trial, "created_ms", gk_json_get_int(trial, "recorded_ms", 0));
    }
    if (!gk_json_get(trial, "input_set")) {
        ok = ok && gk_json_set_int(trial, "input_set", gk_json_get_int(trial, "seq", 0) % 4);
    }
    if (!record) {
        return ok;
    }
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(repeated); i++) {
        const struct gk_json *value = gk_json_get(record, repeated[i]);
        ok = gk_json_get(trial, repeated[i]) || !value ||
             gk_json_set(trial, repeated[i], gk_json_copy(value));
    }
    if (ok && !gk_json_get(trial, "time_ns") &&
        strcmp(gk_json_get_string(record, "failure", ""), "none") == 0) {
        ok = gk_json_set_real(trial, "time_ns", gk_json_get_real(record, "time_ns", 0));
    }
    if (ok && !gk_json_get(trial, "cost_ns")) {
        ok = gk_json_set_real(trial, "cost_ns", db_record_cost(record));
    }
    if (ok && !gk_json_get(trial, "row_hash")) {
        db_trial_hash(trial, text);
        ok = gk_json_set_string(trial, "row_hash", text);
    }
    return ok;
}

static bool is_among(const char *name, const char *const *names, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (strcmp(names[i], name) == 0) {
            return true;
        }
    }
    return false;
}

static struct gk_json *copy_without(const struct gk_json *row, const char *const *names,
                                    size_t count)
{
    struct gk_json *copy = gk_json_new_object();
    void *cursor = NULL;
    const char *key;
    const struct gk_json *value;
    while (copy && (value = gk_json_next(row, &cursor, &key))) {
        if (!is_among(key, names, count) && !gk_json_set(copy, key, gk_json_copy(value))) {
            gk_json_free(copy);
            return NULL;
        }
    }
    return copy;
}

/* The row without what derive_trial() says of it, its token and when it was leased. What it was
 * measured under stands in it as text: its id is a hash, and would cost more than what it names. */
static struct gk_json *lean_trial(const struct gk_json *row)
{
    static const char *const names[] = {
        "token",   "leased_ms", "created_ms", "environment", "config_id", "input_set", "stage",
        "failure", "message",   "code_id",    "time_ns",     "cost_ns",   "row_hash"};
    struct gk_json *lean = copy_without(row, names, GK_ARRAY_COUNT(names)), *whole = NULL;
    bool ok = lean != NULL, odd = false;
    if (ok && strcmp(gk_json_get_string(row, "state", ""), "leased") == 0) {
        ok = gk_json_set_string(lean, "state", "proposed"); /* its token stays behind */
    }
    ok = ok && (whole = gk_json_copy(lean)) && derive_trial(whole);
    for (size_t i = 2; ok && i < GK_ARRAY_COUNT(names); i++) {
        if ((i == 2 && gk_json_get(row, "recorded_ms")) ||
            (i == 3 && gk_json_get(row, "conditions"))) {
            continue;
        }
        if (odd && strcmp(names[i], "row_hash") == 0) {
            /* The hash of what the row really says: a damaged row must stay one. */
            gk_json_free(whole);
            ok = (whole = gk_json_copy(lean)) && derive_trial(whole);
        }
        const struct gk_json *was = gk_json_get(row, names[i]), *is = gk_json_get(whole, names[i]);
        if (was && (!is || !gk_json_equal(was, is))) {
            ok = ok && gk_json_set(lean, names[i], gk_json_copy(was));
            odd = true;
        }
    }
    gk_json_free(whole);
    if (!ok) {
        gk_json_free(lean);
        return NULL;
    }
    return lean;
}

/* Entries of the round stand in the verdict too, once there is one. */
static struct gk_json *lean_task(const struct gk_json *row)
{
    static const char *const names[] = {"round"};
    return copy_without(row, names, gk_json_get(row, "verdict") ? 1 : 0);
}

static struct gk_json *lean_row(size_t table, const struct gk_json *row)
{
    return table == 0 ? lean_task(row) : table == 1 ? lean_trial(row) : gk_json_copy(row);
}

/* ------------------------------------------------------------------ packing */

static enum gk_status put_part(sqlite3 *target, const char *name, const void *bytes, size_t count,
                               struct gk_err *err)
{
    sqlite3_stmt *insert = NULL;
    uLongf size = compressBound((uLong)count);
    Bytef *body = malloc(size);
    char hex[GK_HASH_TEXT_SIZE];
    struct gk_hash hash = gk_hash_bytes(bytes, count);
    gk_hash_hex(&hash, hex);
    if (!body || compress2(body, &size, bytes, (uLong)count, Z_BEST_COMPRESSION) != Z_OK) {
        free(body);
        return gk_fail(err, GK_NOMEM, "out of memory for a part of a backup");
    }
    int rc = sqlite3_prepare_v2(
        target, "INSERT INTO packed(name,size,hash,body) VALUES(?1,?2,?3,?4)", -1, &insert, NULL);
    if (rc == SQLITE_OK) { /* the indices are in range: what else fails shows in the step */
        (void)sqlite3_bind_text(insert, 1, name, -1, SQLITE_STATIC);
        (void)sqlite3_bind_int64(insert, 2, (int64_t)count);
        (void)sqlite3_bind_text(insert, 3, hex, -1, SQLITE_STATIC);
        (void)sqlite3_bind_blob64(insert, 4, body, size, SQLITE_STATIC);
        rc = sqlite3_step(insert);
    }
    (void)sqlite3_finalize(insert); /* repeats the error of the step */
    free(body);
    return rc == SQLITE_DONE ? GK_OK
                             : gk_fail(err, (rc & 0xff) == SQLITE_FULL ? GK_FULL : GK_IO,
                                       "backup: %s", sqlite3_errmsg(target));
}

/* Packing in steps: rows of the copy go into parts, then what was packed is deleted, then the file
 * shrinks. */
struct db_pack {
    struct gk_db *copy;
    size_t table, row_count; /* rows in `text` */
    int64_t from;            /* key of the last row taken */
    int64_t job;             /* whose log was shortened last */
    size_t emptied;          /* statements of EMPTY that ran */
    struct gk_buf text;
    bool packed, shortened;
};

#define STEP_ROWS 100 /* of a part: some 20 ms */

enum gk_status db_pack_begin(struct gk_db *copy, struct db_pack **pack_out, struct gk_err *err)
{
    struct db_pack *pack = calloc(1, sizeof *pack);
    if (!pack) {
        return gk_fail(err, GK_NOMEM, "out of memory for a backup");
    }
    pack->copy = copy;
    pack->from = INT64_MIN;
    if (sqlite3_exec(copy->handle, PACKED, NULL, NULL, NULL) != SQLITE_OK) {
        free(pack);
        return gk_fail(err, GK_IO, "backup: %s", sqlite3_errmsg(copy->handle));
    }
    *pack_out = pack;
    return GK_OK;
}

void db_pack_end(struct db_pack *pack)
{
    if (pack) {
        gk_buf_fini(&pack->text);
        free(pack);
    }
}

static enum gk_status end_part(struct db_pack *pack, struct gk_err *err)
{
    gk_buf_putc(&pack->text, ']');
    enum gk_status status = gk_buf_status(&pack->text, err);
    if (status == GK_OK) {
        status = put_part(pack->copy->handle, tables[pack->table].name, gk_buf_text(&pack->text),
                          pack->text.size, err);
    }
    gk_buf_reset(&pack->text);
    pack->row_count = 0;
    return status;
}

/* Some rows of the table at hand, as text; a part is written when it is full or the table ends. */
static enum gk_status pack_rows(struct db_pack *pack, struct gk_err *err)
{
    struct gk_json *rows = NULL;
    size_t table = pack->table;
    enum gk_status status =
        db_rows(pack->copy, err, &rows, tables[table].select, "ii", pack->from, (int64_t)STEP_ROWS);
    size_t count = status == GK_OK ? gk_json_count(rows) : 0;
    for (size_t i = 0; status == GK_OK && i < count; i++) {
        const struct gk_json *row = gk_json_at(rows, i);
        struct gk_json *lean = lean_row(table, row);
        pack->from = gk_json_get_int(row, keys[table], pack->from);
        gk_buf_puts(&pack->text, pack->row_count++ ? ",\n" : "[");
        status = lean ? gk_json_canonical(lean, &pack->text, err)
                      : gk_fail(err, GK_NOMEM, "out of memory for a backup");
        gk_json_free(lean);
    }
    gk_json_free(rows);
    bool ends = count < STEP_ROWS;
    if (status == GK_OK && pack->row_count > 0 && (ends || pack->row_count >= PART_ROWS)) {
        status = end_part(pack, err);
    }
    if (status == GK_OK && ends) {
        pack->from = INT64_MIN;
        pack->packed = ++pack->table == GK_ARRAY_COUNT(tables);
    }
    return status;
}

/* Lines of the log that nobody reads of an ended job, job by job: there are many. */
static enum gk_status shorten_log(struct db_pack *pack, struct gk_err *err)
{
    enum gk_status status =
        db_int(pack->copy, err, &pack->job,
               "SELECT job FROM jobs WHERE job>?1 ORDER BY job LIMIT 1", "i", pack->job);
    if (status == GK_NOT_FOUND) {
        pack->shortened = true;
        return GK_OK;
    }
    if (status != GK_OK) {
        return status;
    }
    status = db_run(pack->copy, err,
                    "DELETE FROM events WHERE job=?1 AND kind IN ('asked','recorded','pass')", "i",
                    pack->job);
    return status == GK_OK ? gk_db_commit(pack->copy, err) : status;
}

enum gk_status db_pack_step(struct db_pack *pack, bool *done_out, struct gk_err *err)
{
    /* Whole tables: SQLite frees their pages without looking at rows. */
    static const char *const empty[] = {
        "DELETE FROM samples",
        "DELETE FROM passes",
        "DELETE FROM leases",
        "DELETE FROM known",
        "DELETE FROM known_to",
        "DELETE FROM environments WHERE environment NOT IN"
        " (SELECT environment FROM picks WHERE environment IS NOT NULL)",
        "DELETE FROM picks",
        "DELETE FROM trials",
        "DELETE FROM tasks",
        "VACUUM",
    };
    *done_out = false;
    if (!pack->packed) {
        return pack_rows(pack, err);
    }
    if (!pack->shortened) {
        return shorten_log(pack, err);
    }
    for (uint32_t i = 0; i < pack->copy->statement_count; i++) {
        (void)sqlite3_reset(pack->copy->statements[i].statement); /* none may hold a table */
    }
    if (sqlite3_exec(pack->copy->handle, empty[pack->emptied], NULL, NULL, NULL) != SQLITE_OK) {
        return gk_fail(err, GK_IO, "backup: %s", sqlite3_errmsg(pack->copy->handle));
    }
    *done_out = ++pack->emptied == GK_ARRAY_COUNT(empty);
    return GK_OK;
}

enum gk_status db_pack_file(struct gk_db *copy, const void *bytes, size_t size, struct gk_err *err)
{
    if (size > PART_BYTES_MAX) {
        return gk_fail(err, GK_LIMIT, "backup: a file of %zu bytes; allowed: %u", size,
                       PART_BYTES_MAX);
    }
    if (sqlite3_exec(copy->handle, PACKED, NULL, NULL, NULL) != SQLITE_OK) {
        return gk_fail(err, GK_IO, "backup %s: %s", copy->path, sqlite3_errmsg(copy->handle));
    }
    return put_part(copy->handle, FILE_PART, bytes, size, err);
}

/* ------------------------------------------------------------------ unpacking */

/* The part's text, owned by the caller; its hash is checked. */
static enum gk_status part_text(struct gk_db *db, int64_t part, char **text_out, size_t *size_out,
                                char name_out[32], struct gk_err *err)
{
    sqlite3_stmt *select = NULL;
    enum gk_status status =
        db_prepare(db, "SELECT name,size,hash,body FROM packed WHERE part=?1", &select, err);
    if (status != GK_OK) {
        return status;
    }
    (void)sqlite3_bind_int64(select, 1, part); /* the index is in range */
    int rc = sqlite3_step(select);
    const char *name = (const char *)sqlite3_column_text(select, 0);
    int64_t size = sqlite3_column_int64(select, 1);
    const char *hex = (const char *)sqlite3_column_text(select, 2);
    struct gk_hash want, got;
    char *text = NULL;
    if (rc != SQLITE_ROW) {
        status = db_fail(db, rc, "a part of a backup", err);
    } else if (size < 0 || size > (int64_t)PART_BYTES_MAX || !hex || !name || strlen(name) > 31 ||
               !gk_hash_from_hex(hex, &want)) {
        status = gk_fail(err, GK_CORRUPT, "store %s: part %" PRId64 " of a backup is damaged",
                         db->path, part);
    } else if (!(text = malloc((size_t)size + 1))) {
        status = gk_fail(err, GK_NOMEM, "out of memory for a part of a backup");
    } else {
        uLongf length = (uLongf)size;
        const Bytef *body = sqlite3_column_blob(select, 3);
        bool good = body && uncompress((Bytef *)text, &length, body,
                                       (uLong)sqlite3_column_bytes(select, 3)) == Z_OK;
        got = gk_hash_bytes(text, good ? (size_t)length : 0);
        if (!good || length != (uLongf)size || !gk_hash_equal(&got, &want)) {
            status = gk_fail(err, GK_CORRUPT,
                             "store %s: part %" PRId64 " of a backup does not match its hash",
                             db->path, part);
        }
        text[good ? length : 0] = '\0';
        memcpy(name_out, name, strlen(name) + 1);
    }
    (void)sqlite3_reset(select); /* repeats the error of the step */
    if (status != GK_OK) {
        free(text);
        return status;
    }
    *text_out = text;
    *size_out = (size_t)size;
    return GK_OK;
}

static enum gk_status put_rows(struct gk_db *db, const char *name, const struct gk_json *rows,
                               struct gk_err *err)
{
    size_t table = 0;
    while (table < GK_ARRAY_COUNT(tables) && strcmp(tables[table].name, name) != 0) {
        table++;
    }
    if (table == GK_ARRAY_COUNT(tables)) {
        return gk_fail(err, GK_CORRUPT, "store %s: a backup of table '%s'", db->path, name);
    }
    enum gk_status status = GK_OK;
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        struct gk_json *row = (struct gk_json *)(uintptr_t)gk_json_at(rows, i); /* ours, not lent */
        const struct gk_json *conditions = table == 1 ? gk_json_get(row, "conditions") : NULL;
        char id[GK_HASH_TEXT_SIZE];
        if (conditions) {
            status = db_put_environment(db, conditions, id, err);
            if (status == GK_OK && !gk_json_set_string(row, "environment", id)) {
                status = gk_fail(err, GK_NOMEM, "out of memory");
            }
        }
        if (status == GK_OK && table == 1 && !derive_trial(row)) {
            status =
                gk_fail(err, GK_CORRUPT, "store %s: a trial of a backup is incomplete", db->path);
        }
        if (status == GK_OK) {
            status = db_insert(db, tables[table].name, tables[table].columns, row, NULL, err);
        }
    }
    return status;
}

static enum gk_status unpack_part(struct gk_db *db, int64_t part, struct gk_err *err)
{
    char *text = NULL, name[32];
    size_t size = 0;
    struct gk_json *rows = NULL;
    enum gk_status status = part_text(db, part, &text, &size, name, err);
    if (status == GK_OK) {
        status = gk_json_parse(text, size, "a part of a backup", &rows, err);
    }
    if (status == GK_OK) {
        status = put_rows(db, name, rows, err);
    }
    if (status == GK_OK) {
        status = db_run(db, err, "DELETE FROM packed WHERE part=?1", "i", part);
    }
    free(text);
    gk_json_free(rows);
    if (status == GK_OK) {
        status = gk_db_commit(db, err);
    }
    if (status != GK_OK) {
        gk_db_rollback(db);
        return status;
    }
    return gk_db_checkpoint(db, false, err);
}

static enum gk_status drop_packed(struct gk_db *db, struct gk_err *err)
{
    for (uint32_t i = 0; i < db->statement_count; i++) {
        (void)sqlite3_reset(db->statements[i].statement); /* none may hold the table */
    }
    enum gk_status status = db_exec(db, "DROP TABLE packed", err);
    return status == GK_OK ? gk_db_checkpoint(db, true, err) : status;
}

enum gk_status db_unpack(struct gk_db *db, struct gk_err *err)
{
    int64_t there = 0, part = 0;
    enum gk_status status =
        db_int(db, err, &there,
               "SELECT count(*) FROM sqlite_schema WHERE type='table' AND name='packed'", "");
    if (status != GK_OK || there == 0) {
        return status;
    }
    while ((status =
                db_int(db, err, &part,
                       "SELECT part FROM packed WHERE name<>'" FILE_PART "' ORDER BY part LIMIT 1",
                       "")) == GK_OK) {
        status = unpack_part(db, part, err);
        if (status != GK_OK) {
            return status;
        }
    }
    if (status == GK_NOT_FOUND) { /* files wait for gk_db_files_out() */
        status = db_int(db, err, &there, "SELECT count(*) FROM packed", "");
    }
    return status == GK_OK && there == 0 ? drop_packed(db, err) : status;
}

/* ------------------------------------------------------------------ files */

enum gk_status gk_db_files_needed(struct gk_db *db, struct gk_json **rows_out, struct gk_err *err)
{
    return db_rows(db, err, rows_out,
                   "SELECT DISTINCT json_extract(f.value,'$.hash') AS hash FROM bundles b,"
                   " json_each(b.files) f WHERE b.id IN (SELECT bundle FROM picks UNION"
                   " SELECT bundle FROM jobs WHERE ended_ms IS NULL) ORDER BY hash",
                   "");
}

enum gk_status gk_db_files_out(struct gk_db *db,
                               enum gk_status (*put)(void *context, const void *bytes, size_t size,
                                                     struct gk_err *err),
                               void *context, struct gk_err *err)
{
    int64_t there = 0, part = 0;
    enum gk_status status =
        db_int(db, err, &there,
               "SELECT count(*) FROM sqlite_schema WHERE type='table' AND name='packed'", "");
    if (status != GK_OK || there == 0) {
        return status;
    }
    while ((status = db_int(db, err, &part, "SELECT part FROM packed ORDER BY part LIMIT 1", "")) ==
           GK_OK) {
        char *bytes = NULL, name[32];
        size_t size = 0;
        status = part_text(db, part, &bytes, &size, name, err);
        if (status == GK_OK) {
            status = put(context, bytes, size, err);
        }
        free(bytes);
        if (status == GK_OK) {
            status = db_run(db, err, "DELETE FROM packed WHERE part=?1", "i", part);
        }
        if (status != GK_OK) {
            return status;
        }
    }
    if (status == GK_NOT_FOUND) {
        status = gk_db_commit(db, err);
    }
    return status == GK_OK ? drop_packed(db, err) : status;
}
