/*
 * Backups: a copy through the store's own handle, a piece a step, so that work goes on between two
 * of them; what is written meanwhile goes into the copy too (SQLite sees to that on one handle).
 * The copy has another name until it is whole and on the disk. A small one is packed (db_pack.c)
 * out of the finished copy, which nobody changes any more.
 */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/state_dir.h"
#include "db/db_internal.h"

#define COPY_PAGES   128 /* of 4 KiB: a few milliseconds */
#define PARTIAL_TAIL ".partial"

enum stage { STAGE_COPY, STAGE_PACK, STAGE_WHOLE };

struct gk_db_backup {
    struct gk_db *db;
    struct gk_db copy; /* the target, for the verbs of this folder; its path is `partial` */
    sqlite3_backup *running;
    struct db_pack *pack;
    char *path, *partial;
    bool no_samples;
    enum stage stage;
};

static enum gk_status refuse_existing(const char *path, struct gk_err *err)
{
    struct stat info;
    if (lstat(path, &info) == 0) {
        return gk_fail(err, GK_EXISTS, "%s exists already; nothing is overwritten", path);
    }
    return errno == ENOENT ? GK_OK : gk_fail(err, GK_IO, "%s: %s", path, strerror(errno));
}

static enum gk_status fail_target(struct gk_db_backup *backup, int rc, struct gk_err *err)
{
    return gk_fail(err, (rc & 0xff) == SQLITE_FULL ? GK_FULL : GK_IO, "backup to %s: %s",
                   backup->path, sqlite3_errstr(rc));
}

static enum gk_status open_target(struct gk_db_backup *backup, struct gk_err *err)
{
    (void)unlink(backup->partial); /* of one that was cut off; mostly there is none */
    int rc = sqlite3_open_v2(backup->partial, &backup->copy.handle,
                             SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_EXRESCODE |
                                 SQLITE_OPEN_NOFOLLOW,
                             NULL);
    if (rc == SQLITE_OK) { /* finish() makes it durable, once */
        rc = sqlite3_exec(backup->copy.handle, "PRAGMA synchronous=OFF", NULL, NULL, NULL);
    }
    if (rc == SQLITE_OK) {
        backup->running =
            sqlite3_backup_init(backup->copy.handle, "main", backup->db->handle, "main");
        rc = backup->running ? SQLITE_OK : sqlite3_errcode(backup->copy.handle);
    }
    return rc == SQLITE_OK ? GK_OK : fail_target(backup, rc, err);
}

enum gk_status gk_db_backup_begin(struct gk_db *db, const char *path, bool no_samples,
                                  struct gk_db_backup **backup_out, struct gk_err *err)
{
    enum gk_status status = refuse_existing(path, err);
    struct gk_db_backup *backup = status == GK_OK ? calloc(1, sizeof *backup) : NULL;
    if (status != GK_OK) {
        return status;
    }
    if (!backup || !(backup->path = gk_strdup(path)) ||
        !(backup->partial = gk_asprintf("%s" PARTIAL_TAIL, path)) ||
        !(backup->copy.path = gk_strdup(backup->partial))) {
        gk_db_backup_end(backup);
        return gk_fail(err, GK_NOMEM, "out of memory for a backup");
    }
    backup->db = db;
    backup->no_samples = no_samples;
    status = open_target(backup, err);
    if (status != GK_OK) {
        gk_db_backup_end(backup);
        return status;
    }
    *backup_out = backup;
    return GK_OK;
}

/* The last page is there: the file becomes one of its own, without the store's WAL. */
static enum gk_status copied(struct gk_db_backup *backup, struct gk_err *err)
{
    int rc = sqlite3_backup_finish(backup->running);
    backup->running = NULL;
    if (rc == SQLITE_OK) {
        rc = sqlite3_exec(backup->copy.handle, "PRAGMA journal_mode=DELETE", NULL, NULL, NULL);
    }
    if (rc != SQLITE_OK) {
        return fail_target(backup, rc, err);
    }
    backup->stage = backup->no_samples ? STAGE_PACK : STAGE_WHOLE;
    return backup->no_samples ? db_pack_begin(&backup->copy, &backup->pack, err) : GK_OK;
}

enum gk_status gk_db_backup_step(struct gk_db_backup *backup, bool *done_out, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    bool packed = false;
    if (backup->stage == STAGE_COPY && !backup->db->in_transaction) {
        int rc = sqlite3_backup_step(backup->running, COPY_PAGES);
        if (rc == SQLITE_DONE) {
            status = copied(backup, err);
        } else if (rc != SQLITE_OK && rc != SQLITE_BUSY && rc != SQLITE_LOCKED) {
            status = fail_target(backup, rc, err);
        }
    } else if (backup->stage == STAGE_PACK) {
        status = db_pack_step(backup->pack, &packed, err);
        backup->stage = packed ? STAGE_WHOLE : STAGE_PACK;
    }
    if (status == GK_OK) {
        *done_out = backup->stage == STAGE_WHOLE;
    }
    return status;
}

enum gk_status gk_db_backup_file(struct gk_db_backup *backup, const void *bytes, size_t size,
                                 struct gk_err *err)
{
    return db_pack_file(&backup->copy, bytes, size, err);
}

static void close_copy(struct gk_db_backup *backup)
{
    if (backup->running) {
        (void)sqlite3_backup_finish(backup->running); /* what failed was told by its step */
        backup->running = NULL;
    }
    db_pack_end(backup->pack);
    backup->pack = NULL;
    for (uint32_t i = 0; i < backup->copy.statement_count; i++) {
        (void)sqlite3_finalize(backup->copy.statements[i].statement); /* repeats told errors */
        free(backup->copy.statements[i].sql);
    }
    backup->copy.statement_count = 0;
    (void)sqlite3_close(backup->copy.handle); /* cannot be busy: all statements are final */
    backup->copy.handle = NULL;
}

static enum gk_status sync_path(const char *path, int flags, struct gk_err *err)
{
    int fd = open(path, flags | O_CLOEXEC);
    enum gk_status status = fd >= 0 && fsync(fd) == 0
                                ? GK_OK
                                : gk_fail(err, GK_IO, "%s: fsync: %s", path, strerror(errno));
    if (fd >= 0) {
        (void)close(fd); /* nothing was written through it */
    }
    return status;
}

/* Never over a file that came there meanwhile: link() refuses that, rename() would not. */
static enum gk_status put_in_place(const struct gk_db_backup *backup, struct gk_err *err)
{
    if (link(backup->partial, backup->path) != 0) {
        return gk_fail(err, errno == EEXIST ? GK_EXISTS : GK_IO, "%s: %s", backup->path,
                       strerror(errno));
    }
    char *folder = gk_strdup(backup->path), *slash = folder ? strrchr(folder, '/') : NULL;
    if (slash) {
        slash[slash == folder] = '\0';
    }
    enum gk_status status = folder ? sync_path(slash ? folder : ".", O_RDONLY | O_DIRECTORY, err)
                                   : gk_fail(err, GK_NOMEM, "out of memory for a path");
    free(folder);
    return status;
}

enum gk_status gk_db_backup_finish(struct gk_db_backup *backup, struct gk_err *err)
{
    GK_ASSERT(backup->stage == STAGE_WHOLE);
    close_copy(backup);
    enum gk_status status = GK_OK;
    if (chmod(backup->partial, 0600) != 0) {
        status = gk_fail(err, GK_IO, "%s: %s", backup->partial, strerror(errno));
    }
    if (status == GK_OK) {
        status = sync_path(backup->partial, O_RDONLY, err);
    }
    if (status == GK_OK) {
        status = put_in_place(backup, err);
    }
    gk_db_backup_end(backup);
    return status;
}

void gk_db_backup_end(struct gk_db_backup *backup)
{
    if (!backup) {
        return;
    }
    close_copy(backup);
    if (backup->partial) {
        (void)unlink(backup->partial); /* torn, or linked under its own name by now */
    }
    free(backup->copy.path);
    free(backup->partial);
    free(backup->path);
    free(backup);
}

enum gk_status gk_db_backup(struct gk_db *db, const char *path, bool no_samples, struct gk_err *err)
{
    struct gk_db_backup *backup = NULL;
    bool done = false;
    enum gk_status status = refuse_existing(path, err);
    if (status == GK_OK) {
        status = gk_db_commit(db, err); /* what was written in this tick belongs to it */
    }
    if (status == GK_OK) {
        status = gk_db_backup_begin(db, path, no_samples, &backup, err);
    }
    while (status == GK_OK && !done) {
        status = gk_db_backup_step(backup, &done, err);
    }
    if (status == GK_OK) {
        return gk_db_backup_finish(backup, err);
    }
    gk_db_backup_end(backup);
    return status;
}

enum gk_status gk_db_restore(const char *from, const char *path, struct gk_err *err)
{
    struct gk_db *db = NULL;
    struct gk_json *found = NULL;
    struct stat info;
    enum gk_status status = refuse_existing(path, err);
    if (status == GK_OK && (stat(from, &info) != 0 || !S_ISREG(info.st_mode))) {
        status = gk_fail(err, GK_NOT_FOUND, "%s: no such backup file", from);
    }
    if (status == GK_OK) {
        status = gk_backup_check(from, err);
    }
    if (status == GK_OK) {
        status = gk_db_open(from, false, &db, err);
    }
    if (status == GK_OK) {
        status = gk_db_check(db, &found, err);
    }
    if (status == GK_OK && !gk_json_get_bool(found, "ok", false)) {
        status = gk_fail(err, GK_CORRUPT, "%s is damaged: %s", from,
                         gk_json_string(gk_json_at(gk_json_get(found, "problems"), 0), ""));
    }
    if (status == GK_OK) {
        status = gk_db_backup(db, path, false, err);
    }
    gk_json_free(found);
    gk_db_close(db);
    return status;
}

enum gk_status gk_db_backup_note(struct gk_db *db, uint64_t wall_ms, struct gk_err *err)
{
    return db_run(db, err,
                  "INSERT INTO meta(key,value) VALUES('backup_ms',?1)"
                  " ON CONFLICT(key) DO UPDATE SET value=?1",
                  "i", (int64_t)wall_ms);
}

enum gk_status gk_db_backup_last(struct gk_db *db, uint64_t *wall_ms_out, struct gk_err *err)
{
    int64_t wall_ms = 0;
    enum gk_status status =
        db_int(db, err, &wall_ms, "SELECT value FROM meta WHERE key='backup_ms'", "");
    if (status == GK_OK || status == GK_NOT_FOUND) {
        *wall_ms_out = status == GK_OK ? (uint64_t)wall_ms : 0;
        return GK_OK;
    }
    return status;
}
