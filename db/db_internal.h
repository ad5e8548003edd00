/*
 * Inside of db/: the handle, prepared statements, and rows as JSON objects.
 *
 * Formats of arguments: i int64_t, r double, s const char * (NULL: SQL NULL), j const struct
 * gk_json * (strings and numbers as they are, lists and objects as canonical text, NULL: SQL NULL),
 * h int64_t whose 0 is SQL NULL.
 */
#ifndef GK_DB_DB_INTERNAL_H
#define GK_DB_DB_INTERNAL_H

#include <sqlite3.h>
#include <sys/types.h>

#include "db/db.h"

#define DB_STATEMENTS_MAX 192          /* every statement text of this folder, and then some */
#define DB_PAGE_ROWS      500          /* schemas/PROTOCOL.md: rows a page at most */
#define DB_PAGE_BYTES     (384u << 10) /* of them; a message has 1 MiB, and callers add to rows */
#define DB_SCHEMA_VERSION 8
#define DB_APPLICATION_ID 0x676b7431 /* "gkt1" */

/* See db_pending.c. Tasks and jobs share their slots by number: a slot that another one holds is
 * written first. */
#define DB_PENDING_TASKS 256
#define DB_PENDING_JOBS  64
struct db_pending_task {
    int64_t job, task, trials, failed; /* task 0: empty */
    double spent_ns;
};
struct db_pending_rates {
    int64_t job;
    struct gk_db_rates delta;
};
struct db_last_event {
    int64_t job, event;
};
struct db_pending {
    bool any, tokens_known, tokens_taken;
    int64_t next_token;
    struct db_pending_task tasks[DB_PENDING_TASKS];
    struct db_pending_rates rates[DB_PENDING_JOBS];
    struct db_last_event events[DB_PENDING_JOBS];
};

#define DB_PLACES 512 /* of statements by the address of their text */

struct gk_db {
    sqlite3 *handle;
    char *path;
    bool in_transaction;
    bool broken; /* an I/O error was seen: nothing is written any more */
    struct {
        char *sql;
        sqlite3_stmt *statement;
    } statements[DB_STATEMENTS_MAX];
    uint32_t statement_count;
    struct {
        const char *sql; /* where it was looked up */
        uint32_t index;
    } places[DB_PLACES];
    int64_t wal_pages;        /* as of the last commit */
    uint64_t commits, synced; /* how many there were; how many of them a sync apart covered */
    bool copied;              /* pages of the log stand in the file, which is not synced */
    struct db_pending pending;
    struct db_place { /* of the store and of its log, as stat() has them; inode 0: not seen yet */
        dev_t device;
        ino_t inode;
    } file, log;
};

/* The status of a result code of SQLite, with "doing" in the message. Marks the store broken on I/O
 * errors. */
enum gk_status db_fail(struct gk_db *db, int rc, const char *doing, struct gk_err *err);
/* A statement from the cache, reset and without bindings. */
enum gk_status db_prepare(struct gk_db *db, const char *sql, sqlite3_stmt **statement_out,
                          struct gk_err *err);
/* Writes what adds up within a transaction; forgets it. */
enum gk_status db_flush(struct gk_db *db, struct gk_err *err);
void db_forget_pending(struct gk_db *db);
/* Opens the transaction of this tick if none is open. */
enum gk_status db_begin(struct gk_db *db, struct gk_err *err);
/* Runs text that is no prepared statement (pragmas, schema). */
enum gk_status db_exec(struct gk_db *db, const char *sql, struct gk_err *err);

/* A write of this tick's transaction. */
enum gk_status db_run(struct gk_db *db, struct gk_err *err, const char *sql, const char *format,
                      ...);
/* All rows as a list of objects: members are the columns, NULL columns are absent, columns declared
 * JSON are parsed, columns declared BOOL are truth values. */
enum gk_status db_rows(struct gk_db *db, struct gk_err *err, struct gk_json **rows_out,
                       const char *sql, const char *format, ...);
/* The first row as an object. GK_NOT_FOUND without one. */
enum gk_status db_row(struct gk_db *db, struct gk_err *err, struct gk_json **row_out,
                      const char *sql, const char *format, ...);
/* One integer. GK_NOT_FOUND without a row. */
enum gk_status db_int(struct gk_db *db, struct gk_err *err, int64_t *value_out, const char *sql,
                      const char *format, ...);
/* The same where what adds up in this transaction does not matter: it is not written first. */
enum gk_status db_peek(struct gk_db *db, struct gk_err *err, int64_t *value_out, const char *sql,
                       const char *format, ...);
/* Inserts the members of `row` that are among `columns` (space separated). */
enum gk_status db_insert(struct gk_db *db, const char *table, const char *columns,
                         const struct gk_json *row, int64_t *id_out, struct gk_err *err);
/* Sets the members of `changes` (GK_INTERNAL for one that is not among `columns`) where key = id.
 */
enum gk_status db_update(struct gk_db *db, const char *table, const char *columns, const char *key,
                         int64_t id, const struct gk_json *changes, struct gk_err *err);
enum gk_status db_bind(struct gk_db *db, sqlite3_stmt *statement, int at,
                       const struct gk_json *value, struct gk_err *err);
/* Takes the last row off a list of one more than a page and returns its key for `next`. */
struct gk_json *db_page(struct gk_json *rows, const char *name, const char *key);
/* The same of pages of at most so many rows; `rows` holds one more if there is another page. */
struct gk_json *db_page_of(struct gk_json *rows, const char *name, const char *key, size_t most);

enum gk_status db_migrate(struct gk_db *db, bool may_migrate, struct gk_err *err);
/* What a record says that it took: compiling, verifying, measuring. */
double db_record_cost(const struct gk_json *record);
/* Stores what a result was measured under, once; its id is the hash of its text. */
enum gk_status db_put_environment(struct gk_db *db, const struct gk_json *environment,
                                  char id_out[GK_HASH_TEXT_SIZE], struct gk_err *err);
/* Makes a small backup out of a finished copy, in steps (see db_pack.c). */
struct db_pack;
enum gk_status db_pack_begin(struct gk_db *copy, struct db_pack **pack_out, struct gk_err *err);
enum gk_status db_pack_step(struct db_pack *pack, bool *done_out, struct gk_err *err);
void db_pack_end(struct db_pack *pack); /* may be NULL */
/* Adds a file's bytes to a finished copy. */
enum gk_status db_pack_file(struct gk_db *copy, const void *bytes, size_t size, struct gk_err *err);
/* Puts the rows of a small backup back, if this is one. */
enum gk_status db_unpack(struct gk_db *db, struct gk_err *err);
/* Hash of what a trial's row says; see db check. */
void db_trial_hash(const struct gk_json *trial, char text_out[GK_HASH_TEXT_SIZE]);

#endif
