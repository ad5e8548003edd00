/* The verbs of clients: REQUEST in, REPLY out. Listings come straight from the store. */
#include <stdio.h>
#include <string.h>

#include "core/base64.h"
#include "daemon/requests_internal.h"

struct gk_json *blob_piece(struct gk_core *core, const char *hex, int64_t offset,
                           struct gk_err *err)
{
    struct gk_hash hash;
    char *bytes = NULL;
    size_t count = 0;
    int64_t size = 0;
    struct gk_buf text = {0};
    if (!gk_hash_from_hex(hex, &hash) || offset < 0) {
        (void)gk_fail(err, GK_INPUT,
                      "blob '%.80s' at %" PRId64
                      ": 64 hex digits and an offset of 0 or more are needed",
                      hex, offset);
        return NULL;
    }
    if (core->files.get(core->files.context, &hash, offset, &bytes, &count, &size, err) != GK_OK) {
        return NULL;
    }
    struct gk_json *body = gk_json_new_object();
    gk_base64_encode(bytes, count, &text);
    bool ok = !text.failed && gk_json_set_string(body, "hash", hex) &&
              gk_json_set_int(body, "offset", offset) && gk_json_set_int(body, "size", size) &&
              gk_json_set_string(body, "data", gk_buf_text(&text));
    gk_buf_fini(&text);
    free(bytes);
    if (!ok) {
        gk_json_free(body);
        (void)gk_fail(err, GK_NOMEM, "out of memory for a piece of a blob");
        return NULL;
    }
    return body;
}

/* ------------------------------------------------------------------ verbs */

/* Moves the members of a page into the reply. */
enum gk_status merge(struct request *r, struct gk_json *page, enum gk_status status,
                     struct gk_err *err)
{
    void *cursor = NULL;
    const char *key;
    const struct gk_json *value;
    while (status == GK_OK && (value = gk_json_next(page, &cursor, &key))) {
        if (!gk_json_set(r->reply, key, gk_json_copy(value))) {
            status = gk_fail(err, GK_NOMEM, "out of memory for a reply");
        }
    }
    gk_json_free(page);
    return status;
}

int64_t cursor_of(const struct request *r)
{
    return gk_json_get_int(r->body, "cursor", 0);
}

static enum gk_status verb_status(struct request *r, struct gk_err *err)
{
    struct gk_core *core = r->core;
    bool ok = gk_json_set_int(r->reply, "pid", core->pid) &&
              gk_json_set_int(r->reply, "epoch", core->epoch) &&
              gk_json_set_string(r->reply, "version", core->version) &&
              gk_json_set_string(r->reply, "state",
                                 core->disk == GK_CORE_DISK_FULL  ? "full"
                                 : core->disk == GK_CORE_DISK_LOW ? "low"
                                 : core->drain_ms == 0            ? "ok"
                                 : core->lease_count > 0          ? "draining"
                                                                  : "drained") &&
              (core->drain_ms == 0 ||
               (gk_json_set_int(r->reply, "drain_ms", core->drain_ms) &&
                gk_json_set_string(r->reply, "drain_reason", core->drain_reason))) &&
              gk_json_set_int(r->reply, "dead_letters", core->dead_letters) &&
              gk_json_set_int(r->reply, "fenced_devices", core->fence_count) &&
              gk_json_set_real(r->reply, "oldest_ready_s", (double)oldest_ready_ns(core) / 1e9) &&
              gk_json_set_bool(r->reply, "private", core->is_private) &&
              gk_json_set_bool(r->reply, "ready", true) &&
              gk_json_set_int(r->reply, "jobs_open", core->job_count) &&
              gk_json_set_int(r->reply, "workers", core->session_count) &&
              gk_json_set_int(r->reply, "leases", core->lease_count) &&
              gk_json_set_int(r->reply, "schema", gk_db_schema(core->db));
    return ok ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
}

static enum gk_status verb_blob_have(struct request *r, struct gk_err *err)
{
    const struct gk_json *hashes;
    struct gk_json *missing = gk_json_new_array();
    enum gk_status status =
        gk_json_need(r->body, "hashes", GK_JSON_ARRAY, &hashes, "blob_have", err);
    for (size_t i = 0; status == GK_OK && i < gk_json_count(hashes); i++) {
        const char *hex = gk_json_string(gk_json_at(hashes, i), "");
        struct gk_hash hash;
        if (!gk_hash_from_hex(hex, &hash)) {
            status = gk_fail(err, GK_INPUT, "blob_have: '%.80s' is no hash of 64 hex digits", hex);
        } else if (!r->core->files.has(r->core->files.context, &hash) &&
                   !gk_json_push(missing, gk_json_new_string(hex))) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    return gk_json_set(r->reply, "missing", missing) || status != GK_OK
               ? status
               : gk_fail(err, GK_NOMEM, "out of memory");
}

static enum gk_status verb_blob_put(struct request *r, struct gk_err *err)
{
    const char *hex, *data;
    int64_t offset, size;
    struct gk_hash hash;
    struct gk_buf bytes = {0};
    enum gk_status status = gk_json_need_string(r->body, "hash", 64, &hex, "blob_put", err);
    if (status == GK_OK) {
        status = gk_json_need_int(r->body, "size", 0, GK_BUNDLE_MAX, &size, "blob_put", err);
    }
    if (status == GK_OK) {
        status = gk_json_need_int(r->body, "offset", 0, size, &offset, "blob_put", err);
    }
    if (status == GK_OK) {
        status = gk_json_need_string(r->body, "data", 400000, &data, "blob_put", err);
    }
    if (status == GK_OK && (!gk_hash_from_hex(hex, &hash) ||
                            gk_base64_decode(data, strlen(data), &bytes, NULL) != GK_OK)) {
        status = gk_fail(err, GK_INPUT, "blob_put: hash must be 64 hex digits and data base64");
    }
    if (status == GK_OK && r->core->disk != GK_CORE_DISK_OK) {
        status = gk_fail(err, GK_LIMIT,
                         "the disk of the state folder is nearly full: no new files are taken");
    }
    if (status == GK_OK) {
        status = r->core->files.put(r->core->files.context, &hash, offset, size, bytes.data,
                                    bytes.size, err);
    }
    gk_buf_fini(&bytes);
    return status;
}

static enum gk_status verb_blob_get(struct request *r, struct gk_err *err)
{
    struct gk_json *piece = blob_piece(r->core, gk_json_get_string(r->body, "hash", ""),
                                       gk_json_get_int(r->body, "offset", 0), err);
    return piece ? merge(r, piece, GK_OK, err) : (err ? err->status : GK_NOMEM);
}

static enum gk_status verb_submit(struct request *r, struct gk_err *err)
{
    return request_submit(r->core, r->peer, r->body, r->reply, err);
}

static enum gk_status verb_submit_suite(struct request *r, struct gk_err *err)
{
    return request_submit_suite(r->core, r->peer, r->body, r->reply, err);
}

/* How urgent an open job is by now, and how long it has waited for a lease that it could use. */
static bool add_turn(const struct gk_core *core, struct gk_json *row, const struct job *job)
{
    uint64_t waits_ns = job->ready_ns ? core->now_ns - job->ready_ns : 0;
    return gk_json_set_int(row, "effective_priority", job->effective) &&
           gk_json_set_real(row, "waiting_s", (double)waits_ns / 1e9);
}

static enum gk_status verb_jobs(struct request *r, struct gk_err *err)
{
    struct gk_json *page = NULL;
    enum gk_status status = gk_db_list_jobs(r->core->db, cursor_of(r),
                                            gk_json_get_string(r->body, "state", NULL), &page, err);
    const struct gk_json *rows = gk_json_get(page, "jobs");
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        struct gk_json *row = (struct gk_json *)(uintptr_t)gk_json_at(rows, i); /* ours, not lent */
        const struct job *job = job_find(r->core, gk_json_get_int(row, "job", 0));
        if (job && !add_turn(r->core, row, job)) {
            status = gk_fail(err, GK_NOMEM, "out of memory for jobs");
        }
    }
    if (status != GK_OK) {
        gk_json_free(page);
        return status;
    }
    return merge(r, page, status, err);
}

enum gk_status need_job(struct request *r, int64_t *id_out, struct gk_json **row_out,
                        struct gk_err *err)
{
    enum gk_status status = gk_json_need_int(r->body, "job", 1, INT64_MAX, id_out, "request", err);
    if (status == GK_OK) {
        status = gk_db_job_get(r->core->db, *id_out, row_out, err);
    }
    return status == GK_NOT_FOUND ? gk_fail(err, GK_NOT_FOUND, "there is no job %" PRId64, *id_out)
                                  : status;
}

static enum gk_status verb_show(struct request *r, struct gk_err *err)
{
    int64_t id;
    struct gk_json *row = NULL, *page = NULL;
    enum gk_status status = need_job(r, &id, &row, err);
    if (status == GK_OK) {
        status = merge(r, row, GK_OK, err);
    }
    if (status == GK_OK &&
        !gk_json_set(r->reply, "task_count", gk_json_copy(gk_json_get(r->reply, "tasks")))) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status == GK_OK) {
        struct gk_json *rates = NULL;
        enum gk_status known = rates_json(r->core, id, &rates, err);
        status = known == GK_OK ? (gk_json_set(r->reply, "rates", rates) ? GK_OK : GK_NOMEM)
                 : known == GK_NOT_FOUND ? GK_OK
                                         : known;
    }
    if (status == GK_OK) {
        status = gk_db_list_tasks(r->core->db, id, cursor_of(r), &page, err);
        status = merge(r, page, status, err); /* `tasks` is the list now */
    }
    return status;
}

static enum gk_status verb_watch(struct request *r, struct gk_err *err)
{
    int64_t id;
    struct gk_json *row = NULL;
    enum gk_status status = need_job(r, &id, &row, err);
    gk_json_free(row);
    if (status != GK_OK) {
        return status;
    }
    struct gk_core *core = r->core;
    if (core->watcher_count == WATCHERS_MAX) {
        return gk_fail(err, GK_LIMIT, "%d watches are open, no more are served", WATCHERS_MAX);
    }
    core->watchers[core->watcher_count++] = (struct watcher){
        .peer = *r->peer, .job = id, .after = gk_json_get_int(r->body, "after_event", 0)};
    core->new_events = true;
    return gk_json_set_int(r->reply, "job", id) ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
}

enum gk_status need_own(const struct request *r, const struct gk_json *row, const char *verb,
                        struct gk_err *err)
{
    const char *owner = gk_json_get_string(row, "key", "");
    if ((r->peer->roles & GK_ROLE_ADMIN) || strcmp(owner, r->peer->key) == 0) {
        return GK_OK;
    }
    return gk_fail(err, GK_DENIED,
                   "%s: job %" PRId64 " belongs to %s%s; key '%s' lacks the role admin, which "
                   "may change jobs of others",
                   verb, gk_json_get_int(row, "job", 0), *owner ? "key " : "the local socket",
                   owner, r->peer->key);
}

static enum gk_status verb_trials(struct request *r, struct gk_err *err)
{
    int64_t id;
    struct gk_json *row = NULL, *page = NULL;
    enum gk_status status = need_job(r, &id, &row, err);
    gk_json_free(row);
    if (status == GK_OK && gk_json_get_bool(r->body, "measured", false)) {
        status = gk_db_list_measured(r->core->db, id, cursor_of(r), &page, err);
    } else if (status == GK_OK) {
        status = gk_db_list_trials(r->core->db, id, gk_json_get_bool(r->body, "failed", false),
                                   cursor_of(r), &page, err);
    }
    return merge(r, page, status, err);
}

/* A pick whose identity is not today's: another template hash, another NVRTC on the workers of its
 * arch. */
static enum gk_status mark_stale(struct gk_core *core, struct gk_json *row, struct gk_err *err)
{
    char hash[GK_HASH_TEXT_SIZE];
    enum gk_status status =
        gk_db_template_hash(core->db, gk_json_get_string(row, "op", ""),
                            gk_json_get_string(row, "template", ""), hash, NULL);
    if (is_store_failure(status)) {
        return gk_fail(err, status, "template hashes");
    }
    const char *why =
        status == GK_OK && strcmp(hash, gk_json_get_string(row, "template_hash", "")) != 0
            ? "template"
            : NULL;
    for (uint32_t s = 0; !why && s < core->session_count; s++) {
        const struct session *session = core->sessions[s];
        for (uint32_t d = 0; d < session->device_count; d++) {
            if (session->nvrtc[0] &&
                strcmp(session->devices[d].props.arch, gk_json_get_string(row, "arch", "")) == 0 &&
                strcmp(session->nvrtc, gk_json_get_string(row, "nvrtc", "")) != 0) {
                why = "nvrtc";
            }
        }
    }
    bool ok = gk_json_set_bool(row, "stale", why != NULL) &&
              (!why || gk_json_set_string(row, "stale_because", why)) &&
              gk_json_set_int(row, "tie_count", (int64_t)gk_json_count(gk_json_get(row, "ties")));
    return ok ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
}

static enum gk_status list_picks(struct request *r, const char *op, struct gk_err *err)
{
    struct gk_json *page = NULL;
    enum gk_status status =
        gk_db_list_picks(r->core->db, op, gk_json_get_string(r->body, "arch", NULL),
                         gk_json_get_string(r->body, "gpu", NULL),
                         gk_json_get_int(r->body, "job", 0), cursor_of(r), &page, err);
    struct gk_json *rows = status == GK_OK ? gk_json_get_mutable(page, "rows") : NULL;
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        status = mark_stale(r->core, (struct gk_json *)(uintptr_t)gk_json_at(rows, i),
                            err); /* ours, not lent */
    }
    return merge(r, page, status, err);
}

/* Rows get their age here and not in list_picks(): an export of the same store has the same bytes
 * tomorrow. */
static enum gk_status verb_best(struct request *r, struct gk_err *err)
{
    enum gk_status status = list_picks(r, gk_json_get_string(r->body, "op", NULL), err);
    const struct gk_json *rows = gk_json_get(r->reply, "rows");
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        struct gk_json *row = (struct gk_json *)(uintptr_t)gk_json_at(rows, i); /* ours, not lent */
        int64_t then = gk_json_get_int(row, "confirmed_ms", 0);
        if (!gk_json_set_int(row, "age_ms", (int64_t)r->core->wall_ms - then)) {
            status = gk_fail(err, GK_NOMEM, "out of memory");
        }
    }
    return status;
}

/* Each row with the device that it was judged on: an export renders its limits. A store that lost
 * them leaves them out. */
static enum gk_status add_devices(struct request *r, const struct gk_json *rows, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        struct gk_json *row = (struct gk_json *)(uintptr_t)gk_json_at(rows, i), /* ours, not lent */
            *props = NULL;
        status = gk_db_device_of(r->core->db, gk_json_get_int(row, "task", 0),
                                 gk_json_get_string(row, "arch", ""),
                                 gk_json_get_string(row, "gpu", ""), &props, err);
        if (status == GK_OK && !gk_json_set(row, "device", props)) {
            status = gk_fail(err, GK_NOMEM, "out of memory for a device");
        }
        status = status == GK_NOT_FOUND ? GK_OK : status;
    }
    return status;
}

/* Rows of one op a call keep the cursor simple: `ops` with several names is asked one by one by the
 * client. */
static enum gk_status verb_export_data(struct request *r, struct gk_err *err)
{
    const struct gk_json *ops = gk_json_get(r->body, "ops");
    if (gk_json_count(ops) > 1) {
        return gk_fail(err, GK_INPUT,
                       "export_data: %zu ops; ask for one at a time, or for all without ops",
                       gk_json_count(ops));
    }
    enum gk_status status = list_picks(r, gk_json_string(gk_json_at(ops, 0), NULL), err);
    struct gk_json *bundles = gk_json_new_object();
    const struct gk_json *rows = gk_json_get(r->reply, "rows");
    if (status == GK_OK) {
        status = add_devices(r, rows, err);
    }
    for (size_t i = 0; status == GK_OK && i < gk_json_count(rows); i++) {
        const char *id = gk_json_get_string(gk_json_at(rows, i), "bundle", "");
        struct gk_json *bundle = NULL;
        if (!gk_json_get(bundles, id)) {
            status = gk_db_bundle_get(r->core->db, id, &bundle, err);
            if (status == GK_OK && !gk_json_set(bundles, id, bundle)) {
                status = gk_fail(err, GK_NOMEM, "out of memory");
            }
        }
    }
    if (!gk_json_set(r->reply, "bundles", bundles) && status == GK_OK) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    struct gk_json *meta = NULL;
    if (status == GK_OK) {
        status = gk_db_meta(r->core->db, &meta, err);
    }
    if (status == GK_OK && !gk_json_set(r->reply, "store", meta)) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    return status;
}

static enum gk_status verb_keys(struct request *r, struct gk_err *err)
{
    return request_keys(r->core, r->peer, r->body, r->reply, err);
}

static enum gk_status verb_stop(struct request *r, struct gk_err *err)
{
    /* A daemon whose disk is full can still be told to end, and cannot write that down. */
    enum gk_status status =
        r->core->disk == GK_CORE_DISK_FULL
            ? GK_OK
            : core_audit(r->core, r->peer->key, "stop", "daemon",
                         gk_json_get_string(r->body, "reason", NULL), "ends", err);
    if (status != GK_OK) {
        return status;
    }
    r->core->stopping = true;
    return gk_json_set_int(r->reply, "pid", r->core->pid) ? GK_OK
                                                          : gk_fail(err, GK_NOMEM, "out of memory");
}

/* Any of `roles` will do. READ changes nothing; OWN also looks at whose job it is (need_own). */
#define READ  GK_ROLES_ALL
#define OWN   (GK_ROLE_SUBMIT | GK_ROLE_ADMIN)
#define ADMIN GK_ROLE_ADMIN

/* What a verb does beside answering. `looks`: it needs no room on the disk. `told`: the log has a
 * line of each one that was done, and names the job (pieces of files and watches are too many, the
 * keys have an event of their own). LOOKS_ELSE_TOLD: by its action. */
enum verb_kind { LOOKS, TOLD, QUIET, LOOKS_ELSE_TOLD };

static const struct verb {
    const char *name;
    enum gk_status (*run)(struct request *r, struct gk_err *err);
    uint8_t roles;
    enum verb_kind kind;
} VERBS[] = {
    {"status", verb_status, READ, LOOKS},
    {"blob_have", verb_blob_have, READ, LOOKS},
    {"blob_put", verb_blob_put, OWN, QUIET},
    {"blob_get", verb_blob_get, READ, LOOKS},
    {"submit", verb_submit, OWN, TOLD},
    {"submit_suite", verb_submit_suite, OWN, TOLD},
    {"jobs", verb_jobs, READ, LOOKS},
    {"show", verb_show, READ, LOOKS},
    {"watch", verb_watch, READ, QUIET},
    {"cancel", verb_cancel, OWN, TOLD},
    {"pause", verb_pause, OWN, TOLD},
    {"resume", verb_resume, OWN, TOLD},
    {"retry", verb_retry, OWN, TOLD},
    {"finish", verb_finish, OWN, TOLD},
    {"trials", verb_trials, READ, LOOKS},
    {"best", verb_best, READ, LOOKS},
    {"export_data", verb_export_data, READ, LOOKS},
    {"workers", verb_workers, READ, LOOKS_ELSE_TOLD},
    {"spread", verb_spread, READ, LOOKS},
    {"db", verb_db, ADMIN, TOLD},
    {"stop", verb_stop, ADMIN, TOLD},
    {"keys", verb_keys, ADMIN, QUIET},
    {"drain", verb_drain, ADMIN, TOLD},
    {"dead", verb_dead, READ, LOOKS_ELSE_TOLD},
    {"audit", verb_audit, ADMIN, LOOKS},
};

/* NULL: there is none of this name. */
static const struct verb *verb_of(const struct gk_json *body)
{
    const char *name = gk_json_get_string(body, "verb", "");
    for (size_t i = 0; i < GK_ARRAY_COUNT(VERBS); i++) {
        if (strcmp(VERBS[i].name, name) == 0) {
            return &VERBS[i];
        }
    }
    return NULL;
}

static enum verb_kind kind_of(const struct verb *verb, const struct gk_json *body)
{
    const char *action = gk_json_get_string(body, "action", "list");
    if (verb->kind != LOOKS_ELSE_TOLD) {
        return verb->kind;
    }
    return strcmp(action, "list") == 0 || strcmp(action, "show") == 0 ? LOOKS : TOLD;
}

bool request_only_looks(const struct gk_json *body)
{
    const struct verb *verb = verb_of(body);
    bool checks = verb && verb->run == verb_db &&
                  strcmp(gk_json_get_string(body, "action", ""), "check") == 0;
    return verb && (kind_of(verb, body) == LOOKS || verb->run == verb_stop || checks);
}

static enum gk_status run_verb(struct request *r, struct gk_err *err)
{
    const struct verb *verb = verb_of(r->body);
    if (verb) {
        enum gk_status status = role_need(r->core, r->peer, verb->roles, verb->name, err);
        if (status == GK_OK) {
            status = request_members(verb->name, "verb", r->body, err);
        }
        return status == GK_OK ? verb->run(r, err) : status;
    }
    struct gk_buf names = {0};
    for (size_t i = 0; i < GK_ARRAY_COUNT(VERBS); i++) {
        gk_buf_printf(&names, "%s%s", i ? " " : "", VERBS[i].name);
    }
    enum gk_status status = gk_fail(err, GK_PROTOCOL, "verb '%.60s'; there are %s",
                                    gk_json_get_string(r->body, "verb", ""), gk_buf_text(&names));
    gk_buf_fini(&names);
    return status;
}

/* For the log: what a client changed, and what it was refused. */
static void tell(struct gk_core *core, const struct request *r, enum gk_status status,
                 const char *why)
{
    const char *verb = gk_json_get_string(r->body, "verb", ""),
               *action = gk_json_get_string(r->body, "action", ""),
               *reason = gk_json_get_string(r->body, "reason", "");
    const struct verb *known = verb_of(r->body);
    bool told = status == GK_OK ? known && kind_of(known, r->body) == TOLD
                                : status != GK_MISSING; /* asks for files: no mistake */
    if (status != GK_OK) {
        count_refusal(core, status);
    }
    if (!told) {
        return;
    }
    bool drains = status == GK_OK && strcmp(verb, "drain") == 0;
    const char *what = drains && core->drain_ms != 0 ? "begun" : drains ? "ended" : action;
    struct gk_notice *notice =
        status == GK_OK
            ? core_notice(core, drains ? GK_EVENT_DRAIN : GK_EVENT_REQUEST, "%s%s%.180s", what,
                          *what && *reason ? ": " : "", reason)
            : core_notice(core, GK_EVENT_REFUSED, "%s: %.220s", gk_status_name(status), why);
    notice_name(notice, verb);
    notice_peer(notice, r->peer);
    notice->job = gk_json_get_int(
        status == GK_OK && strcmp(verb, "submit") == 0 ? r->reply : r->body, "job", 0);
}

enum gk_status request_message(struct gk_core *core, const struct gk_peer *peer,
                               const struct gk_message *message, struct gk_err *err)
{
    struct gk_err why = {0};
    struct request r = {.core = core,
                        .peer = peer,
                        .message = message,
                        .body = message->body,
                        .reply = gk_json_new_object()};
    uint32_t watchers = core->watcher_count;
    enum gk_status status = r.reply ? run_verb(&r, &why) : gk_fail(&why, GK_NOMEM, "out of memory");
    if (is_store_failure(status)) {
        gk_json_free(r.reply);
        return gk_fail(err, status, "%s", why.text);
    }
    tell(core, &r, status, why.text);
    if (status == GK_OK && r.deferred) {
        gk_json_free(r.reply);
        return GK_OK;
    }
    if (status != GK_OK) { /* half-filled pages are no answer */
        gk_json_free(r.reply);
        r.reply = gk_json_new_object();
        core->watcher_count = watchers;
    }
    /* `state` of a job and `status` of the reply are two members; the reply's own is set last. */
    bool ok = gk_json_set_string(r.reply, "status", gk_status_name(status)) &&
              (status == GK_OK || gk_json_set_string(r.reply, "text", why.text));
    if (!ok) {
        gk_json_free(r.reply);
        return gk_fail(err, GK_NOMEM, "out of memory for a reply");
    }
    core_send(core, peer, GK_MSG_REPLY, 0, 0, message->seq, r.reply);
    return GK_OK;
}

/* ------------------------------------------------------------------ watching */

static bool send_event(struct gk_core *core, struct watcher *watcher, const struct gk_json *row)
{
    struct gk_json *body = gk_json_copy(gk_json_get(row, "body"));
    const char *kind = gk_json_get_string(row, "kind", "");
    static const char *const members[] = {"job", "event", "kind", "at_ms"};
    bool ok = body != NULL;
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(members); i++) {
        ok = gk_json_set(body, members[i], gk_json_copy(gk_json_get(row, members[i])));
    }
    if (!ok) {
        gk_json_free(body);
        return false;
    }
    core_send(core, &watcher->peer, GK_MSG_EVENT, 0, 0, 0, body);
    watcher->after = gk_json_get_int(row, "event", watcher->after);
    return strcmp(kind, "job_done") != 0 && strcmp(kind, "cancelled") != 0;
}

enum gk_status watchers_step(struct gk_core *core, struct gk_err *err)
{
    bool more = false;
    if (!core->new_events) {
        return GK_OK;
    }
    for (uint32_t i = 0; i < core->watcher_count;) {
        struct watcher *watcher = &core->watchers[i];
        struct gk_json *rows = NULL;
        bool alive = !watcher->stale;
        if (alive) {
            enum gk_status status =
                gk_db_events(core->db, watcher->job, watcher->after, &rows, err);
            if (status != GK_OK) {
                return status;
            }
        }
        for (size_t e = 0; alive && e < gk_json_count(rows); e++) {
            alive = send_event(core, watcher, gk_json_at(rows, e));
        }
        more = more || gk_json_count(rows) >= 500;
        gk_json_free(rows);
        if (alive) {
            i++;
        } else {
            core->watchers[i] = core->watchers[--core->watcher_count];
        }
    }
    core->new_events = more;
    return GK_OK;
}
