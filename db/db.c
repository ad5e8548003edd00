/*
 * Opening, closing, committing. The order of the pragmas matters: EXCLUSIVE before the first access
 * in WAL mode, so that no shared-memory file and no second connection can exist (the system's
 * SQLite has a WAL race with two).
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "db/db_internal.h"

#define WAL_PAGES_MAX 4096        /* of 4 KB: a checkpoint of 16 MB takes some 20 ms */
#define NEVER_SPILLS  "100000000" /* pages */

enum gk_status db_fail(struct gk_db *db, int rc, const char *doing, struct gk_err *err)
{
    static const struct {
        int code;
        enum gk_status status;
    } map[] = {
        {SQLITE_FULL, GK_FULL},   {SQLITE_IOERR, GK_IO},          {SQLITE_CANTOPEN, GK_IO},
        {SQLITE_READONLY, GK_IO}, {SQLITE_PERM, GK_IO},           {SQLITE_BUSY, GK_BUSY},
        {SQLITE_LOCKED, GK_BUSY}, {SQLITE_CORRUPT, GK_CORRUPT},   {SQLITE_NOTADB, GK_CORRUPT},
        {SQLITE_NOMEM, GK_NOMEM}, {SQLITE_CONSTRAINT, GK_EXISTS},
    };
    enum gk_status status = GK_INTERNAL;
    for (size_t i = 0; i < GK_ARRAY_COUNT(map); i++) {
        if ((rc & 0xff) == map[i].code) {
            status = map[i].status;
        }
    }
    if (status == GK_IO || status == GK_CORRUPT) {
        db->broken = true;
    }
    return gk_fail(err, status, "store %s: %s: %s", db->path, doing,
                   db->handle ? sqlite3_errmsg(db->handle) : sqlite3_errstr(rc));
}

enum gk_status db_exec(struct gk_db *db, const char *sql, struct gk_err *err)
{
    int rc = sqlite3_exec(db->handle, sql, NULL, NULL, NULL);
    return rc == SQLITE_OK ? GK_OK : db_fail(db, rc, sql, err);
}

enum gk_status db_prepare(struct gk_db *db, const char *sql, sqlite3_stmt **statement_out,
                          struct gk_err *err)
{
    /* Most texts are literals: they are met again at the same address. A text that was made may lie
     * where another one lay, so it is compared in any case. */
    uint32_t place = (uint32_t)((uintptr_t)sql >> 3) % DB_PLACES, at = db->places[place].index;
    if (db->places[place].sql != sql || strcmp(db->statements[at].sql, sql) != 0) {
        for (at = 0; at < db->statement_count && strcmp(db->statements[at].sql, sql) != 0; at++) {
            /* until it is found */
        }
    }
    if (at < db->statement_count) {
        db->places[place].sql = sql;
        db->places[place].index = at;
        (void)sqlite3_reset(db->statements[at].statement); /* repeats the last step's error */
        (void)sqlite3_clear_bindings(db->statements[at].statement);
        *statement_out = db->statements[at].statement;
        return GK_OK;
    }
    if (db->statement_count == DB_STATEMENTS_MAX) {
        return gk_fail(err, GK_INTERNAL, "store: more than %d statements", DB_STATEMENTS_MAX);
    }
    sqlite3_stmt *statement = NULL;
    int rc = sqlite3_prepare_v3(db->handle, sql, -1, SQLITE_PREPARE_PERSISTENT, &statement, NULL);
    if (rc != SQLITE_OK) {
        return db_fail(db, rc, sql, err);
    }
    char *copy = gk_strdup(sql);
    if (!copy) {
        (void)sqlite3_finalize(statement); /* it was never run */
        return gk_fail(err, GK_NOMEM, "out of memory for a statement");
    }
    db->statements[db->statement_count].sql = copy;
    db->statements[db->statement_count++].statement = statement;
    *statement_out = statement;
    return GK_OK;
}

enum gk_status db_begin(struct gk_db *db, struct gk_err *err)
{
    if (db->broken) {
        return gk_fail(err, GK_IO,
                       "store %s: an earlier input or output error; nothing is written any more",
                       db->path);
    }
    if (db->in_transaction) {
        return GK_OK;
    }
    enum gk_status status = db_exec(db, "BEGIN IMMEDIATE", err);
    db->in_transaction = status == GK_OK;
    return status;
}

bool gk_db_is_dirty(const struct gk_db *db)
{
    return db->in_transaction;
}

enum gk_status gk_db_commit(struct gk_db *db, struct gk_err *err)
{
    if (!db->in_transaction) {
        return GK_OK;
    }
    GK_ASSERT(!db->copied); /* it would write over the log */
    enum gk_status status = db_flush(db, err);
    if (status != GK_OK) {
        gk_db_rollback(db);
        return status;
    }
    /* A statement that hit a full disk has rolled the whole transaction back already. */
    if (sqlite3_get_autocommit(db->handle)) {
        db->in_transaction = false;
        db_forget_pending(db);
        return gk_fail(err, db->broken ? GK_IO : GK_FULL,
                       "store %s: the transaction was rolled back (%s)", db->path,
                       db->broken ? "input or output error" : "no space left");
    }
    status = db_exec(db, "COMMIT", err);
    if (status != GK_OK) {
        gk_db_rollback(db);
    }
    db->in_transaction = false;
    db->commits++;
    return status;
}

uint64_t gk_db_rows_written(const struct gk_db *db)
{
    return (uint64_t)sqlite3_total_changes64(db->handle);
}

void gk_db_rollback(struct gk_db *db)
{
    if (db->in_transaction && !sqlite3_get_autocommit(db->handle)) {
        (void)sqlite3_exec(db->handle, "ROLLBACK", NULL, NULL,
                           NULL); /* nothing left to do if it fails */
    }
    db_forget_pending(db);
    db->in_transaction = false;
}

static int checkpoint(struct gk_db *db, int mode)
{
    for (uint32_t i = 0; i < db->statement_count; i++) {
        (void)sqlite3_reset(db->statements[i].statement); /* an open read would keep the WAL */
    }
    db->wal_pages = 0;
    return sqlite3_wal_checkpoint_v2(db->handle, NULL, mode, NULL, NULL);
}

enum gk_status gk_db_checkpoint(struct gk_db *db, bool idle, struct gk_err *err)
{
    if (db->in_transaction || db->broken || db->copied) {
        return GK_OK;
    }
    if (!idle && !gk_db_log_is_long(db)) {
        return GK_OK;
    }
    /* Under load the file keeps its size and is written again from its start: growing it anew costs
     * a block at a time. */
    int rc = checkpoint(db, idle ? SQLITE_CHECKPOINT_TRUNCATE : SQLITE_CHECKPOINT_PASSIVE);
    /* A full disk has no room for the copy: the WAL stays and is tried again later. */
    return rc == SQLITE_OK || (rc & 0xff) == SQLITE_FULL ? GK_OK
                                                         : db_fail(db, rc, "checkpoint", err);
}

bool gk_db_log_is_long(const struct gk_db *db)
{
    return !db->broken && db->wal_pages >= WAL_PAGES_MAX;
}

enum gk_status gk_db_copy_log(struct gk_db *db, struct gk_db_sync *sync_out, bool *copied_out,
                              struct gk_err *err)
{
    GK_ASSERT(!db->copied);
    *copied_out = false;
    if (db->in_transaction || db->broken || db->synced != db->commits) {
        return GK_OK;
    }
    enum gk_status status = db_exec(db, "PRAGMA synchronous=OFF", err);
    if (status != GK_OK) {
        return status;
    }
    int rc = checkpoint(db, SQLITE_CHECKPOINT_PASSIVE);
    if (rc != SQLITE_OK && (rc & 0xff) != SQLITE_FULL) {
        return db_fail(db, rc, "checkpoint", err);
    }
    sqlite3_file *file = NULL;
    status = db_exec(db, "PRAGMA synchronous=NORMAL", err);
    if (status != GK_OK || rc != SQLITE_OK) { /* full: the log stays, and is tried again later */
        return status;
    }
    rc = sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_FILE_POINTER, &file);
    if (rc != SQLITE_OK) {
        return db_fail(db, rc, "the store's file", err);
    }
    db->copied = *copied_out = true;
    *sync_out = (struct gk_db_sync){.file = file, .rc = SQLITE_OK, .of_pages = true};
    /* A transaction that outgrows the cache would write to the log as a commit does. */
    return db_exec(db, "PRAGMA cache_spill=" NEVER_SPILLS, err);
}

/* NORMAL differs from FULL in one thing: the log is not synced at a commit. Before a checkpoint
 * moves anything out of it, it still is. */
enum gk_status gk_db_sync_apart(struct gk_db *db, struct gk_err *err)
{
    GK_ASSERT(!db->in_transaction);
    return db_exec(db, "PRAGMA synchronous=NORMAL", err);
}

enum gk_status gk_db_sync_begin(struct gk_db *db, struct gk_db_sync *sync_out, struct gk_err *err)
{
    sqlite3_file *file = NULL;
    int rc = sqlite3_file_control(db->handle, "main", SQLITE_FCNTL_JOURNAL_POINTER, &file);
    if (rc != SQLITE_OK) {
        return db_fail(db, rc, "the write-ahead log", err);
    }
    *sync_out = (struct gk_db_sync){
        .file = file && file->pMethods ? file : NULL, .rc = SQLITE_OK, .commits = db->commits};
    return GK_OK;
}

void gk_db_sync_run(struct gk_db_sync *sync)
{
    sqlite3_file *file = sync->file;
    sync->rc = file ? file->pMethods->xSync(file, SQLITE_SYNC_NORMAL) : SQLITE_OK;
}

enum gk_status gk_db_sync_end(struct gk_db *db, const struct gk_db_sync *sync, struct gk_err *err)
{
    if (sync->rc != SQLITE_OK) {
        db->broken = true; /* the message of the handle is another call's */
        return gk_fail(err, GK_IO, "store %s: sync of the %s: %s", db->path,
                       sync->of_pages ? "file" : "write-ahead log", sqlite3_errstr(sync->rc));
    }
    if (!sync->of_pages) {
        db->synced = sync->commits;
        return GK_OK;
    }
    db->copied = false;
    /* A number, not ON: SQLite takes the words only while no transaction is open. */
    return db_exec(db, "PRAGMA cache_spill=1", err);
}

static int on_commit(void *context, sqlite3 *handle, const char *name, int pages)
{
    struct gk_db *db = context;
    (void)handle, (void)name;
    db->wal_pages = pages;
    return SQLITE_OK;
}

static enum gk_status harden(struct gk_db *db, struct gk_err *err)
{
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_DEFENSIVE, 1, NULL); /* known options */
    (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, NULL);
    (void)sqlite3_limit(db->handle, SQLITE_LIMIT_LENGTH, 64 << 20);
    (void)sqlite3_limit(db->handle, SQLITE_LIMIT_ATTACHED, 1);
    static const char *const pragmas[] = {
        "PRAGMA locking_mode=EXCLUSIVE",
        "PRAGMA journal_mode=WAL",
        "PRAGMA synchronous=FULL",
        "PRAGMA cell_size_check=ON",
        "PRAGMA mmap_size=0",
        "PRAGMA wal_autocheckpoint=0",
        "PRAGMA foreign_keys=ON",
        "PRAGMA temp_store=MEMORY",
        "PRAGMA cache_size=-16384",
        "PRAGMA journal_size_limit=67108864",
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(pragmas); i++) {
        enum gk_status status = db_exec(db, pragmas[i], err);
        if (status != GK_OK) {
            return status;
        }
    }
    /* After the pragma, which sets a hook of its own. */
    (void)sqlite3_wal_hook(db->handle, on_commit, db); /* the hook before it: none */
    return GK_OK;
}

static enum gk_status need_file(const char *path, struct gk_err *err)
{
    struct stat info;
    if (stat(path, &info) == 0 && info.st_size > 0) {
        return GK_OK;
    }
    return gk_fail(err, GK_MISSING,
                   "store %s is %s, but there was one here: restore a backup (gktune db restore "
                   "FILE), or give another state folder; none is made in its place",
                   path, stat(path, &info) == 0 ? "empty" : "gone");
}

/* What can be done is said where the damage is met. */
static enum gk_status advise(enum gk_status status, const char *path, struct gk_err *err)
{
    char text[600];
    if (status != GK_CORRUPT || !err) {
        return status;
    }
    (void)snprintf(text, sizeof text, "%.590s", err->text);
    return gk_fail(err, status,
                   "%s. Nothing was changed. Move it away and restore a backup (gktune db restore "
                   "FILE); without one, `sqlite3 %s .recover` saves what can be read",
                   text, path);
}

static bool is_there(const char *path, struct db_place *place_out)
{
    struct stat info;
    if (stat(path, &info) != 0) {
        return false;
    }
    *place_out = (struct db_place){info.st_dev, info.st_ino};
    return true;
}

enum gk_status gk_db_open_as(const char *path, const struct gk_db_options *options,
                             struct gk_db **db_out, struct gk_err *err)
{
    struct gk_db *db = calloc(1, sizeof *db);
    if (!db || !(db->path = gk_strdup(path))) {
        free(db);
        return gk_fail(err, GK_NOMEM, "out of memory for the store");
    }
    enum gk_status status = options->must_exist ? need_file(path, err) : GK_OK;
    /* One thread a store: no lock around every call, nor around every allocation for a count that
     * nobody reads. Refused when the library runs already: then it does without. */
    (void)sqlite3_config(SQLITE_CONFIG_MEMSTATUS, 0);
    int rc = status == GK_OK ? sqlite3_open_v2(path, &db->handle,
                                               SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE |
                                                   SQLITE_OPEN_EXRESCODE | SQLITE_OPEN_NOFOLLOW |
                                                   SQLITE_OPEN_NOMUTEX,
                                               NULL)
                             : SQLITE_OK;
    if (rc != SQLITE_OK) {
        status = db_fail(db, rc, "open", err);
    }
    if (status == GK_OK) {
        status = harden(db, err);
    }
    if (status == GK_OK) {
        status = db_migrate(db, options->may_migrate, err);
    }
    if (status == GK_OK) { /* no migration: the same store, written smaller */
        status = db_unpack(db, err);
    }
    if (status != GK_OK) {
        gk_db_close(db);
        return advise(status, path, err);
    }
    (void)is_there(path, &db->file); /* later: what cannot be seen now is not missed then */
    *db_out = db;
    return GK_OK;
}

enum gk_status gk_db_in_place(struct gk_db *db, struct gk_err *err)
{
    struct db_place now;
    char *log = gk_asprintf("%s-wal", db->path);
    if (!log) {
        return gk_fail(err, GK_NOMEM, "out of memory for the log's path");
    }
    const struct {
        const char *path;
        struct db_place *then;
    } files[] = {{db->path, &db->file}, {log, &db->log}};
    enum gk_status status = GK_OK;
    for (size_t i = 0; i < GK_ARRAY_COUNT(files) && status == GK_OK; i++) {
        bool there = is_there(files[i].path, &now);
        if (files[i].then->inode == 0) {
            *files[i].then = there ? now : (struct db_place){0};
        } else if (!there || now.inode != files[i].then->inode ||
                   now.device != files[i].then->device) {
            db->broken = true; /* nor is it closed in order: that would remove a log by its name */
            status = gk_fail(err, GK_IO,
                             "%s was %s while the store is open: no start would find what is "
                             "stored from now on",
                             files[i].path, there ? "replaced" : "removed or moved");
        }
    }
    free(log);
    return status;
}

enum gk_status gk_db_open(const char *path, bool may_migrate, struct gk_db **db_out,
                          struct gk_err *err)
{
    struct gk_db_options options = {.may_migrate = may_migrate};
    return gk_db_open_as(path, &options, db_out, err);
}

void gk_db_close(struct gk_db *db)
{
    if (!db) {
        return;
    }
    gk_db_rollback(db);
    for (uint32_t i = 0; i < db->statement_count; i++) {
        (void)sqlite3_finalize(db->statements[i].statement); /* repeats an error told before */
        free(db->statements[i].sql);
    }
    if ((db->broken || db->copied) && db->handle) {
        /* Closing would copy the WAL into the file and sync again what was just refused, or remove
         * a WAL whose copy nobody has seen synced. The next start reads the WAL as it is. */
        (void)sqlite3_db_config(db->handle, SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1, NULL);
    }
    (void)sqlite3_close(db->handle); /* cannot be busy: all statements are final */
    free(db->path);
    free(db);
}
