/* Binding, stepping, and rows as JSON objects. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "db/db_internal.h"

/* Texts are lent to the statement: they outlive its step, and the next user clears the bindings. */
enum gk_status db_bind(struct gk_db *db, sqlite3_stmt *statement, int at,
                       const struct gk_json *value, struct gk_err *err)
{
    int rc = SQLITE_OK;
    switch (gk_json_type(value)) {
    case GK_JSON_NULL:
        rc = sqlite3_bind_null(statement, at);
        break;
    case GK_JSON_BOOL:
        rc = sqlite3_bind_int64(statement, at, gk_json_bool(value, false));
        break;
    case GK_JSON_INT:
        rc = sqlite3_bind_int64(statement, at, gk_json_int(value, 0));
        break;
    case GK_JSON_REAL:
        rc = sqlite3_bind_double(statement, at, gk_json_real(value, 0));
        break;
    case GK_JSON_STRING:
        rc = sqlite3_bind_text(statement, at, gk_json_string(value, ""), -1, SQLITE_STATIC);
        break;
    case GK_JSON_ARRAY:
    case GK_JSON_OBJECT: {
        char *text = gk_json_text(value);
        if (!text) {
            return gk_fail(err, GK_NOMEM, "out of memory for a column");
        }
        rc = sqlite3_bind_text(statement, at, text, -1, free);
        break;
    }
    }
    return rc == SQLITE_OK ? GK_OK : db_fail(db, rc, "bind", err);
}

static enum gk_status bind_list(struct gk_db *db, sqlite3_stmt *statement, const char *format,
                                va_list ap, struct gk_err *err)
{
    for (int at = 1; *format; format++, at++) {
        int rc = SQLITE_OK;
        const char *text;
        switch (*format) {
        case 'i':
            rc = sqlite3_bind_int64(statement, at, va_arg(ap, int64_t));
            break;
        case 'h': {
            int64_t number = va_arg(ap, int64_t);
            rc = number ? sqlite3_bind_int64(statement, at, number)
                        : sqlite3_bind_null(statement, at);
            break;
        }
        case 'r':
            rc = sqlite3_bind_double(statement, at, va_arg(ap, double));
            break;
        case 's':
            text = va_arg(ap, const char *);
            rc = text ? sqlite3_bind_text(statement, at, text, -1, SQLITE_STATIC)
                      : sqlite3_bind_null(statement, at);
            break;
        default: {
            enum gk_status status =
                db_bind(db, statement, at, va_arg(ap, const struct gk_json *), err);
            if (status != GK_OK) {
                return status;
            }
        }
        }
        if (rc != SQLITE_OK) {
            return db_fail(db, rc, "bind", err);
        }
    }
    return GK_OK;
}

static enum gk_status step_write(struct gk_db *db, sqlite3_stmt *statement, struct gk_err *err)
{
    int rc = sqlite3_step(statement);
    enum gk_status status = rc == SQLITE_DONE || rc == SQLITE_ROW
                                ? GK_OK
                                : db_fail(db, rc, sqlite3_sql(statement), err);
    (void)sqlite3_reset(statement); /* repeats the error of the step */
    return status;
}

enum gk_status db_run(struct gk_db *db, struct gk_err *err, const char *sql, const char *format,
                      ...)
{
    sqlite3_stmt *statement;
    enum gk_status status = db_begin(db, err);
    if (status == GK_OK) {
        status = db_prepare(db, sql, &statement, err);
    }
    if (status == GK_OK) {
        va_list ap;
        va_start(ap, format);
        status = bind_list(db, statement, format, ap, err);
        va_end(ap);
    }
    return status == GK_OK ? step_write(db, statement, err) : status;
}

static struct gk_json *column_value(sqlite3_stmt *statement, int column)
{
    const char *declared = sqlite3_column_decltype(statement, column);
    const char *text;
    switch (sqlite3_column_type(statement, column)) {
    case SQLITE_INTEGER:
        return declared && strcmp(declared, "BOOL") == 0
                   ? gk_json_new_bool(sqlite3_column_int64(statement, column) != 0)
                   : gk_json_new_int(sqlite3_column_int64(statement, column));
    case SQLITE_FLOAT:
        return gk_json_new_real(sqlite3_column_double(statement, column));
    default:
        text = (const char *)sqlite3_column_text(statement, column);
        if (declared && text && strcmp(declared, "JSON") == 0) {
            struct gk_json *json = NULL;
            if (gk_json_parse(text, (size_t)sqlite3_column_bytes(statement, column),
                              "a stored column", &json, NULL) == GK_OK) {
                return json;
            }
        }
        return gk_json_new_string(text ? text : "");
    }
}

static struct gk_json *row_object(sqlite3_stmt *statement)
{
    struct gk_json *row = gk_json_new_object();
    for (int i = 0; row && i < sqlite3_column_count(statement); i++) {
        if (sqlite3_column_type(statement, i) != SQLITE_NULL &&
            !gk_json_set(row, sqlite3_column_name(statement, i), column_value(statement, i))) {
            gk_json_free(row);
            return NULL;
        }
    }
    return row;
}

static enum gk_status collect(struct gk_db *db, sqlite3_stmt *statement, struct gk_json **rows_out,
                              struct gk_err *err)
{
    struct gk_json *rows = gk_json_new_array();
    int rc = SQLITE_ROW;
    enum gk_status status = rows ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory for rows");
    while (status == GK_OK && (rc = sqlite3_step(statement)) == SQLITE_ROW) {
        if (!gk_json_push(rows, row_object(statement))) {
            status = gk_fail(err, GK_NOMEM, "out of memory for rows");
        }
    }
    if (status == GK_OK && rc != SQLITE_DONE) {
        status = db_fail(db, rc, sqlite3_sql(statement), err);
    }
    (void)sqlite3_reset(statement); /* repeats the error of the step */
    if (status != GK_OK) {
        gk_json_free(rows);
        return status;
    }
    *rows_out = rows;
    return GK_OK;
}

/* A statement with its values bound, after what the transaction holds back was written. */
static enum gk_status ready(struct gk_db *db, const char *sql, const char *format, va_list ap,
                            sqlite3_stmt **statement_out, struct gk_err *err)
{
    enum gk_status status = db_flush(db, err);
    if (status == GK_OK) {
        status = db_prepare(db, sql, statement_out, err);
    }
    return status == GK_OK ? bind_list(db, *statement_out, format, ap, err) : status;
}

enum gk_status db_rows(struct gk_db *db, struct gk_err *err, struct gk_json **rows_out,
                       const char *sql, const char *format, ...)
{
    sqlite3_stmt *statement = NULL;
    va_list ap;
    va_start(ap, format);
    enum gk_status status = ready(db, sql, format, ap, &statement, err);
    va_end(ap);
    return status == GK_OK ? collect(db, statement, rows_out, err) : status;
}

static enum gk_status first(struct gk_db *db, sqlite3_stmt *statement, struct gk_json **row_out,
                            int64_t *value_out, struct gk_err *err)
{
    int rc = sqlite3_step(statement);
    enum gk_status status = GK_OK;
    if (rc == SQLITE_DONE) {
        status = gk_fail(err, GK_NOT_FOUND, "not in the store");
    } else if (rc != SQLITE_ROW) {
        status = db_fail(db, rc, sqlite3_sql(statement), err);
    } else if (value_out) {
        *value_out = sqlite3_column_int64(statement, 0);
    } else {
        struct gk_json *row = row_object(statement);
        status = row ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory for a row");
        if (row) {
            *row_out = row;
        }
    }
    (void)sqlite3_reset(statement); /* repeats the error of the step */
    return status;
}

enum gk_status db_row(struct gk_db *db, struct gk_err *err, struct gk_json **row_out,
                      const char *sql, const char *format, ...)
{
    sqlite3_stmt *statement = NULL;
    va_list ap;
    va_start(ap, format);
    enum gk_status status = ready(db, sql, format, ap, &statement, err);
    va_end(ap);
    return status == GK_OK ? first(db, statement, row_out, NULL, err) : status;
}

enum gk_status db_int(struct gk_db *db, struct gk_err *err, int64_t *value_out, const char *sql,
                      const char *format, ...)
{
    sqlite3_stmt *statement = NULL;
    va_list ap;
    va_start(ap, format);
    enum gk_status status = ready(db, sql, format, ap, &statement, err);
    va_end(ap);
    return status == GK_OK ? first(db, statement, NULL, value_out, err) : status;
}

enum gk_status db_peek(struct gk_db *db, struct gk_err *err, int64_t *value_out, const char *sql,
                       const char *format, ...)
{
    sqlite3_stmt *statement;
    enum gk_status status = db_prepare(db, sql, &statement, err);
    if (status == GK_OK) {
        va_list ap;
        va_start(ap, format);
        status = bind_list(db, statement, format, ap, err);
        va_end(ap);
    }
    return status == GK_OK ? first(db, statement, NULL, value_out, err) : status;
}

/* The i-th word of a list, or false. */
static bool word_at(const char **list, char *word_out, size_t size)
{
    while (**list == ' ') {
        (*list)++;
    }
    size_t length = strcspn(*list, " ");
    if (length == 0 || length >= size) {
        return false;
    }
    memcpy(word_out, *list, length);
    word_out[length] = '\0';
    *list += length;
    return true;
}

enum gk_status db_insert(struct gk_db *db, const char *table, const char *columns,
                         const struct gk_json *row, int64_t *id_out, struct gk_err *err)
{
    struct gk_buf sql = {0};
    char word[64];
    sqlite3_stmt *statement = NULL;
    gk_buf_printf(&sql, "INSERT INTO %s(", table);
    const char *list = columns;
    int count = 0;
    for (; word_at(&list, word, sizeof word); count++) {
        gk_buf_printf(&sql, "%s%s", count ? "," : "", word);
    }
    gk_buf_puts(&sql, ") VALUES(");
    for (int i = 0; i < count; i++) {
        gk_buf_printf(&sql, "%s?%d", i ? "," : "", i + 1);
    }
    gk_buf_puts(&sql, ")");
    enum gk_status status = gk_buf_status(&sql, err);
    if (status == GK_OK) {
        status = db_begin(db, err);
    }
    if (status == GK_OK) {
        status = db_prepare(db, gk_buf_text(&sql), &statement, err);
    }
    list = columns;
    for (int at = 1; status == GK_OK && word_at(&list, word, sizeof word); at++) {
        status = db_bind(db, statement, at, gk_json_get(row, word), err);
    }
    if (status == GK_OK) {
        status = step_write(db, statement, err);
    }
    if (status == GK_OK && id_out) {
        *id_out = sqlite3_last_insert_rowid(db->handle);
    }
    gk_buf_fini(&sql);
    return status;
}

static bool has_word(const char *columns, const char *wanted)
{
    char word[64];
    while (word_at(&columns, word, sizeof word)) {
        if (strcmp(word, wanted) == 0) {
            return true;
        }
    }
    return false;
}

enum gk_status db_update(struct gk_db *db, const char *table, const char *columns, const char *key,
                         int64_t id, const struct gk_json *changes, struct gk_err *err)
{
    struct gk_buf sql = {0};
    sqlite3_stmt *statement = NULL;
    enum gk_status status = db_begin(db, err);
    gk_buf_printf(&sql, "UPDATE %s SET ", table);
    void *cursor = NULL;
    const char *name;
    int count = 0;
    while (gk_json_next(changes, &cursor, &name)) {
        if (!has_word(columns, name)) {
            gk_buf_fini(&sql);
            return gk_fail(err, GK_INTERNAL, "store: table %s has no column %s", table, name);
        }
        count++;
        gk_buf_printf(&sql, "%s%s=?%d", count > 1 ? "," : "", name, count);
    }
    gk_buf_printf(&sql, " WHERE %s=?%d", key, count + 1);
    if (status == GK_OK) {
        status = gk_buf_status(&sql, err);
    }
    if (status == GK_OK) {
        status = db_prepare(db, gk_buf_text(&sql), &statement, err);
    }
    cursor = NULL;
    for (int at = 1; status == GK_OK && at <= count; at++) {
        status = db_bind(db, statement, at, gk_json_next(changes, &cursor, &name), err);
    }
    if (status == GK_OK) {
        (void)sqlite3_bind_int64(statement, count + 1, id); /* the index is in range */
        status = step_write(db, statement, err);
    }
    gk_buf_fini(&sql);
    return status;
}

struct gk_json *db_page_of(struct gk_json *rows, const char *name, const char *key, size_t most)
{
    struct gk_json *page = gk_json_new_object();
    struct gk_json *kept = gk_json_new_array();
    bool ok = page && kept;
    struct gk_buf text = {0};
    size_t count = gk_json_count(rows), at = 0, bytes = 0;
    for (; ok && at < count && at < most; at++) {
        const struct gk_json *row = gk_json_at(rows, at);
        gk_buf_reset(&text);
        ok = gk_json_canonical(row, &text, NULL) == GK_OK;
        bytes += text.size;
        if (at > 0 && bytes > DB_PAGE_BYTES) {
            break; /* a page has one row at least, or nobody would come to the end */
        }
        ok = ok && gk_json_push(kept, gk_json_copy(row));
    }
    if (ok && at < count) {
        ok = gk_json_set_int(page, "next", gk_json_get_int(gk_json_at(rows, at - 1), key, 0));
    }
    ok = gk_json_set(page, name, kept) && ok;
    gk_buf_fini(&text);
    gk_json_free(rows);
    if (!ok) {
        gk_json_free(page);
        return NULL;
    }
    return page;
}

struct gk_json *db_page(struct gk_json *rows, const char *name, const char *key)
{
    return db_page_of(rows, name, key, DB_PAGE_ROWS);
}
