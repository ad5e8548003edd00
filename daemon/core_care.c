/*
 * Care for the store beside serving: backups, checks and pruning that an operator asked for, one
 * after the other, and the scrub, which never ends. Each goes on by a bounded step between two
 * ticks, so that nobody waits for it; who asked is answered when it is done. What fails there is
 * the request's failure; only what the store itself fails is the daemon's.
 */
#include <stdio.h>

#include "daemon/requests_internal.h"

#define CARE_MAX       16 /* asked for and not done */
#define SCRUB_EVERY_NS (5 * SECOND_NS)
#define SCRUB_ROWS     100 /* some 10 ms; a million rows take 14 hours */

enum care_kind { CARE_BACKUP, CARE_CHECK, CARE_PRUNE };
static const char *const KIND_NAMES[] = {"backup", "check", "prune"};

struct care_work {
    enum care_kind kind;
    struct gk_peer peer;
    uint64_t reply_to;
    char *path; /* of a backup */
    bool no_samples, begun, copied;
    struct gk_db_backup *backup;
    struct gk_json *files; /* that go into the backup: [{hash}] */
    size_t file;
    struct gk_db_check *check;
    struct gk_db_prune prune;
};

struct care {
    struct care_work works[CARE_MAX];
    uint32_t count;
    uint64_t scrubbed_ns;
    int64_t scrub_cursor; /* -1: not begun */
};

static void work_fini(struct care_work *work)
{
    gk_db_backup_end(work->backup);
    gk_db_check_end(work->check);
    gk_json_free(work->files);
    free(work->path);
    *work = (struct care_work){0};
}

void care_free(struct gk_core *core)
{
    for (uint32_t i = 0; core->care && i < core->care->count; i++) {
        work_fini(&core->care->works[i]);
    }
    free(core->care);
    core->care = NULL;
}

static struct care *care_of(struct gk_core *core)
{
    if (!core->care && (core->care = calloc(1, sizeof *core->care))) {
        core->care->scrub_cursor = -1;
        core->care->scrubbed_ns = core->now_ns;
    }
    return core->care;
}

/* ------------------------------------------------------------------ answers */

/* The first of the list is done: body (taken, may be NULL) becomes its reply. */
static void answer(struct gk_core *core, enum gk_status status, const char *text,
                   struct gk_json *body)
{
    struct care *care = core->care;
    struct care_work work = care->works[0];
    memmove(&care->works[0], &care->works[1], (--care->count) * sizeof care->works[0]);
    care->works[care->count] = (struct care_work){0};
    body = body ? body : gk_json_new_object();
    bool ok = gk_json_set_string(body, "status", gk_status_name(status)) &&
              (status == GK_OK || gk_json_set_string(body, "text", text));
    if (ok) {
        core_send(core, &work.peer, GK_MSG_REPLY, 0, 0, work.reply_to, body);
    } else {
        gk_json_free(body);
    }
    work_fini(&work);
}

void care_abandon(struct gk_core *core, enum gk_status status, const char *text)
{
    while (core->care && core->care->count > 0) {
        answer(core, status, text, NULL);
    }
}

/* ------------------------------------------------------------------ backup */

/* Whole blob, owned by the caller. */
static enum gk_status whole_blob(struct gk_core *core, const struct gk_hash *hash,
                                 struct gk_buf *out, struct gk_err *err)
{
    int64_t size = 0;
    enum gk_status status = GK_OK;
    do {
        char *bytes = NULL;
        size_t count = 0;
        status = core->files.get(core->files.context, hash, (int64_t)out->size, &bytes, &count,
                                 &size, err);
        if (status == GK_OK) {
            gk_buf_add(out, bytes, count);
            status = count == 0 && (int64_t)out->size < size
                         ? gk_fail(err, GK_CORRUPT, "a blob ends before its size")
                         : gk_buf_status(out, err);
        }
        free(bytes);
    } while (status == GK_OK && (int64_t)out->size < size);
    return status;
}

/* What picks and open jobs stand on travels with the store. A file that is not here any more (a
 * store that lost its blobs) is left out: who submits again brings it. */
static enum gk_status add_file(struct gk_core *core, struct care_work *work, struct gk_err *err)
{
    struct gk_hash hash;
    struct gk_buf bytes = {0};
    enum gk_status status = GK_OK;
    const char *hex = gk_json_get_string(gk_json_at(work->files, work->file++), "hash", "");
    if (gk_hash_from_hex(hex, &hash) && core->files.has(core->files.context, &hash)) {
        status = whole_blob(core, &hash, &bytes, err);
        if (status == GK_OK) {
            status = gk_db_backup_file(work->backup, gk_buf_text(&bytes), bytes.size, err);
        }
    }
    gk_buf_fini(&bytes);
    return status;
}

static enum gk_status backup_step(struct gk_core *core, struct care_work *work, bool *done_out,
                                  struct gk_err *err)
{
    enum gk_status status = GK_OK;
    if (!work->begun) {
        work->begun = true;
        status = gk_db_backup_begin(core->db, work->path, work->no_samples, &work->backup, err);
    } else if (!work->copied) {
        status = gk_db_backup_step(work->backup, &work->copied, err);
        if (status == GK_OK && work->copied) {
            status = gk_db_files_needed(core->db, &work->files, err);
        }
    } else if (work->file < gk_json_count(work->files)) {
        status = add_file(core, work, err);
    } else {
        struct gk_db_backup *backup = work->backup;
        work->backup = NULL; /* freed in any case */
        status = gk_db_backup_finish(backup, err);
        if (status == GK_OK) {
            status = gk_db_backup_note(core->db, core->wall_ms, err);
        }
        *done_out = status == GK_OK;
        core->counters.backups += *done_out;
        core->counters.backup_wall_ms = *done_out ? core->wall_ms : core->counters.backup_wall_ms;
    }
    return status;
}

/* ------------------------------------------------------------------ check, prune */

static enum gk_status check_step(struct gk_core *core, struct care_work *work,
                                 struct gk_json **reply_out, bool *done_out, struct gk_err *err)
{
    enum gk_status status = work->begun ? GK_OK : gk_db_check_begin(core->db, &work->check, err);
    work->begun = true;
    if (status == GK_OK) {
        status = gk_db_check_step(work->check, done_out, err);
    }
    return status == GK_OK && *done_out ? gk_db_check_report(work->check, reply_out, err) : status;
}

static enum gk_status prune_step(struct gk_core *core, struct care_work *work,
                                 struct gk_json **reply_out, bool *done_out, struct gk_err *err)
{
    work->prune.now_ms = core->wall_ms;
    enum gk_status status = gk_db_prune_step(core->db, &work->prune, done_out, err);
    if (status != GK_OK || !*done_out) {
        return status;
    }
    status = gk_db_prune_report(&work->prune, reply_out, err);
    return status == GK_OK ? gk_db_dead_count(core->db, &core->dead_letters, err) : status;
}

/* ------------------------------------------------------------------ scrub */

static enum gk_status tell_damage(struct gk_core *core, const struct gk_json *row,
                                  struct gk_err *err)
{
    char target[48];
    struct gk_json *body = gk_json_new_object();
    (void)snprintf(target, sizeof target, "trial %" PRId64, gk_json_get_int(row, "trial", 0));
    (void)(gk_json_set_int(body, "trial", gk_json_get_int(row, "trial", 0)) &&
           gk_json_set_string(body, "text",
                              "the stored row is damaged: it answers nobody any more, and the "
                              "config is measured again when it is asked for")); /* may lack it */
    core->counters.damaged++;
    struct gk_notice *notice = core_notice(core, GK_EVENT_STORE_DAMAGE,
                                           "the row does not match its hash; it is put aside");
    notice->job = gk_json_get_int(row, "job", 0);
    notice->trial = gk_json_get_int(row, "trial", 0);
    enum gk_status status = core_event(core, gk_json_get_int(row, "job", 0), "note", body, err);
    return status == GK_OK ? core_audit(core, "gktuned", "scrub", target,
                                        "the row does not match its hash", "put aside", err)
                           : status;
}

static enum gk_status scrub_step(struct gk_core *core, struct gk_err *err)
{
    struct care *care = core->care;
    struct gk_json *damaged = NULL;
    enum gk_status status = GK_OK;
    care->scrubbed_ns = core->now_ns;
    if (care->scrub_cursor < 0) { /* elsewhere after each start, so that all is seen in time */
        int64_t last = 0;
        status = gk_db_trial_last(core->db, &last, err);
        care->scrub_cursor =
            last > 0 ? (int64_t)((uint64_t)core->epoch * 2654435761u % (uint64_t)last) : 0;
    }
    if (status == GK_OK) {
        status = gk_db_scrub_step(core->db, SCRUB_ROWS, &care->scrub_cursor, &damaged, err);
    }
    for (size_t i = 0; status == GK_OK && i < gk_json_count(damaged); i++) {
        status = tell_damage(core, gk_json_at(damaged, i), err);
    }
    gk_json_free(damaged);
    return status;
}

/* ------------------------------------------------------------------ stepping */

bool gk_core_has_care(const struct gk_core *core)
{
    if (core->care && core->care->count > 0) {
        return true;
    }
    uint64_t since_ns = core->care ? core->care->scrubbed_ns : 0;
    return core->disk == GK_CORE_DISK_OK && core->now_ns - since_ns >= SCRUB_EVERY_NS;
}

static enum gk_status first_step(struct gk_core *core, struct gk_err *err)
{
    struct care_work *work = &core->care->works[0];
    struct gk_json *reply = NULL;
    struct gk_err why = {0};
    bool done = false;
    enum gk_status status = work->kind == CARE_BACKUP ? backup_step(core, work, &done, &why)
                            : work->kind == CARE_CHECK
                                ? check_step(core, work, &reply, &done, &why)
                                : prune_step(core, work, &reply, &done, &why);
    if (status != GK_OK && work->kind == CARE_BACKUP) {
        /* What fails there is the target's disk, not the store's. */
        answer(core, status == GK_IO || status == GK_FULL ? GK_INPUT : status, why.text, NULL);
        return GK_OK;
    }
    if (status != GK_OK) {
        return gk_fail(err, status, "%s", why.text);
    }
    if (done) {
        answer(core, GK_OK, "", reply);
    }
    return GK_OK;
}

enum gk_status gk_core_care(struct gk_core *core, uint64_t now_ns, uint64_t wall_ms,
                            struct gk_err *err)
{
    core->now_ns = now_ns;
    core->wall_ms = wall_ms;
    struct care *care = care_of(core);
    if (!care) {
        return gk_fail(err, GK_NOMEM, "out of memory for care");
    }
    if (care->count > 0) {
        return first_step(core, err);
    }
    return now_ns - care->scrubbed_ns >= SCRUB_EVERY_NS && core->disk == GK_CORE_DISK_OK
               ? scrub_step(core, err)
               : GK_OK;
}

/* ------------------------------------------------------------------ the verb */

static enum gk_status read_work(const struct request *r, struct care_work *work, struct gk_err *err)
{
    const char *action = gk_json_get_string(r->body, "action", ""),
               *path = gk_json_get_string(r->body, "path", "");
    if (strcmp(action, "check") == 0) {
        work->kind = CARE_CHECK;
        return GK_OK;
    }
    if (strcmp(action, "prune") == 0) {
        int64_t days;
        enum gk_status status = gk_json_need_int(r->body, "days", 0, 36500, &days, "db prune", err);
        uint64_t span_ms = status == GK_OK ? (uint64_t)days * 86400000u : 0;
        work->kind = CARE_PRUNE;
        work->prune.before_ms = r->core->wall_ms > span_ms ? r->core->wall_ms - span_ms : 0;
        work->prune.dry_run = gk_json_get_bool(r->body, "dry_run", false);
        return status;
    }
    if (strcmp(action, "backup") != 0) {
        return gk_fail(err, GK_INPUT, "db: action '%.40s'; there are check, backup and prune",
                       action);
    }
    if (path[0] != '/') {
        return gk_fail(err, GK_INPUT,
                       "db backup: path '%s' must be absolute (the daemon has its own folder)",
                       path);
    }
    work->kind = CARE_BACKUP;
    work->no_samples = gk_json_get_bool(r->body, "no_samples", false);
    work->path = gk_strdup(path);
    return work->path ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory for a path");
}

enum gk_status verb_db(struct request *r, struct gk_err *err)
{
    struct care *care = care_of(r->core);
    struct care_work work = {.peer = *r->peer, .reply_to = r->message->seq};
    if (!care) {
        return gk_fail(err, GK_NOMEM, "out of memory for care");
    }
    if (care->count == CARE_MAX) {
        return gk_fail(err, GK_LIMIT, "db: %d requests wait for their turn, no more are taken",
                       CARE_MAX);
    }
    enum gk_status status = read_work(r, &work, err);
    if (status == GK_OK && !(work.kind == CARE_PRUNE && work.prune.dry_run) &&
        work.kind != CARE_CHECK) {
        char what[32];
        (void)snprintf(what, sizeof what, "db %s", KIND_NAMES[work.kind]);
        status = core_audit(r->core, r->peer->key, what, work.path ? work.path : "store",
                            gk_json_get_string(r->body, "reason", NULL), "begun", err);
    }
    if (status != GK_OK) {
        work_fini(&work);
        return status;
    }
    care->works[care->count++] = work;
    r->deferred = true;
    return GK_OK;
}
