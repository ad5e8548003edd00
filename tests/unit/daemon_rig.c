/* See daemon_rig.h. */
#include "tests/unit/daemon_rig.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/record.h"

static const char *const RIG_RUNGS[] = {"exact", "reference", "reference_1", "emulated"};

static bool files_has(void *context, const struct gk_hash *hash)
{
    (void)context;
    (void)hash;
    return true;
}

static enum gk_status files_put(void *context, const struct gk_hash *hash, int64_t offset,
                                int64_t size, const void *bytes, size_t count, struct gk_err *err)
{
    (void)context, (void)hash, (void)offset, (void)size, (void)bytes, (void)count, (void)err;
    return GK_OK;
}

/* Every blob is one byte. */
static enum gk_status files_get(void *context, const struct gk_hash *hash, int64_t offset,
                                char **bytes_out, size_t *count_out, int64_t *size_out,
                                struct gk_err *err)
{
    (void)context, (void)hash, (void)offset;
    *size_out = 1;
    *count_out = offset == 0;
    *bytes_out = gk_strdup("b");
    return *bytes_out ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory for a blob");
}

static enum gk_status files_catalog(void *context, const struct gk_json *files, const char *id,
                                    const struct gk_catalog **catalog_out, struct gk_err *err)
{
    (void)files, (void)id, (void)err;
    struct rig *rig = context;
    *catalog_out = rig->catalog;
    rig->catalogs_out++;
    return GK_OK;
}

static void files_release(void *context, const struct gk_catalog *catalog)
{
    struct rig *rig = context;
    assert_ptr_equal(catalog, rig->catalog);
    assert_true(rig->catalogs_out > 0);
    rig->catalogs_out--;
}

void rig_start_core(struct rig *rig)
{
    struct gk_err err = {0};
    assert_int_equal(gk_db_start(rig->db, &rig->epoch, &err), GK_OK);
    struct gk_core_setup setup = {
        .db = rig->db,
        .files = {files_has, files_put, files_get, files_catalog, files_release, rig},
        .keys = rig->keys,
        .epoch = rig->epoch,
        .now_ns = rig->now_ns,
        .wall_ms = rig->wall_ms,
        .version = "test",
        .pid = 1};
    if (gk_core_create(&setup, &rig->core, &err) != GK_OK) {
        fail_msg("core: %s", err.text);
    }
    assert_int_equal(gk_db_commit(rig->db, &err), GK_OK);
}

void rig_open(struct rig *rig, const char *store, const char *kernels)
{
    struct gk_err err = {0};
    struct gk_diag diag;
    struct gk_bundle bundle;
    char path[512];
    *rig = (struct rig){.store = store,
                        .now_ns = 1000000000u,
                        .wall_ms = 1750000000000u,
                        .client = {.bytes = "c", .size = 1, .roles = GK_ROLES_ALL}};
    assert_int_equal(gk_hash_setup(&err), GK_OK);
    gk_diag_init(&diag);
    (void)snprintf(path, sizeof path, "%s/%s", GK_SOURCE_DIR, kernels);
    if (gk_catalog_load(path, &rig->catalog, &diag) != GK_OK) {
        fail_msg("%s: %s", path, diag.kept ? diag.texts[0] : "?");
    }
    gk_diag_fini(&diag);
    assert_int_equal(gk_catalog_bundle(rig->catalog, &bundle, &err), GK_OK);
    rig->bundle = gk_bundle_to_json(&bundle);
    gk_bundle_fini(&bundle);
    rig->events = gk_json_new_array();
    if (gk_db_open(store, true, &rig->db, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    rig_start_core(rig);
}

void rig_write(const struct rig *rig, const char *path)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    for (size_t i = 0; i < gk_json_count(rig->written); i++) {
        char *text = gk_json_text(gk_json_at(rig->written, i));
        assert_non_null(text);
        assert_true(fprintf(file, "%s\n", text) > 0);
        free(text);
    }
    assert_int_equal(fclose(file), 0);
}

void rig_close(struct rig *rig)
{
    gk_core_destroy(rig->core);
    assert_int_equal(rig->catalogs_out, 0);
    gk_db_close(rig->db);
    gk_catalog_destroy(rig->catalog);
    gk_json_free(rig->bundle);
    gk_json_free(rig->reply);
    gk_json_free(rig->events);
    gk_json_free(rig->record_seen);
    gk_json_free(rig->written);
    for (uint32_t w = 0; w < rig->worker_count; w++) {
        for (uint32_t i = 0; i < rig->workers[w].lease_count; i++) {
            gk_json_free(rig->workers[w].leases[i]);
        }
    }
}

void rig_restart(struct rig *rig)
{
    gk_core_destroy(rig->core);
    gk_db_rollback(rig->db);
    if (strcmp(rig->store, ":memory:") != 0) {
        gk_db_close(rig->db);
        assert_int_equal(gk_db_open(rig->store, true, &rig->db, NULL), GK_OK);
    }
    for (uint32_t w = 0; w < rig->worker_count; w++) {
        rig->workers[w].session = 0;
    }
    rig_start_core(rig);
}

static void note(struct rig *rig, const struct gk_message *message)
{
    if (rig->written) {
        struct gk_json *item = gk_json_new_object();
        assert_true(gk_json_set_string(item, "type", gk_message_name(message->type)));
        assert_true(gk_json_set(item, "body", gk_json_copy(message->body)));
        assert_true(gk_json_push(rig->written, item));
    }
}

static void deliver(struct rig *rig, struct rig_worker *worker, struct gk_message *message)
{
    const struct gk_json *list;
    switch (message->type) {
    case GK_MSG_WELCOME:
        worker->session = message->session;
        worker->dropped = (int64_t)gk_json_count(gk_json_get(message->body, "drop"));
        worker->kept = (int64_t)gk_json_count(gk_json_get(message->body, "keep"));
        break;
    case GK_MSG_LEASE:
        list = gk_json_get(message->body, "leases");
        for (size_t i = 0; i < gk_json_count(list); i++) {
            assert_true(worker->lease_count < RIG_TOKENS_MAX);
            worker->leases[worker->lease_count++] = gk_json_copy(gk_json_at(list, i));
            worker->granted++;
            worker->credit--;
            const char *config = gk_json_get_string(gk_json_at(list, i), "config", "final");
            struct gk_hash hash = gk_hash_text(config);
            rig->log_hash = rig->log_hash * 1099511628211u + hash.bytes[0] * 256u + hash.bytes[1];
        }
        break;
    case GK_MSG_ACK:
        list = gk_json_get(message->body, "results");
        worker->go_on = gk_json_get_bool(message->body, "go_on", false);
        worker->left_out += gk_json_count(gk_json_get(message->body, "drop"));
        for (size_t i = 0; i < gk_json_count(list); i++) {
            const char *status = gk_json_get_string(gk_json_at(list, i), "status", "");
            worker->acks_stored += strcmp(status, "stored") == 0;
            worker->acks_duplicate += strcmp(status, "duplicate") == 0;
            worker->acks_stale += strcmp(status, "stale") == 0;
            worker->acks_not_owner += strcmp(status, "not_owner") == 0;
            worker->acks_conflict += strcmp(status, "conflict") == 0;
            worker->acks_dropped += strcmp(status, "dropped") == 0;
        }
        break;
    case GK_MSG_CANCEL:
        list = gk_json_get(message->body, "tokens");
        for (size_t t = 0; t < gk_json_count(list); t++) {
            worker->cancelled++;
            for (uint32_t i = 0; i < worker->lease_count; i++) {
                if (gk_json_get_int(worker->leases[i], "token", 0) ==
                    gk_json_int(gk_json_at(list, t), 0)) {
                    rig_forget(worker, i);
                    break;
                }
            }
        }
        break;
    case GK_MSG_REJECT:
        worker->rejects++;
        worker->retry_after_ms = gk_json_get_int(message->body, "retry_after_ms", -1);
        /* fall through */
    case GK_MSG_ERROR:
        (void)snprintf(worker->told, sizeof worker->told, "%s %s",
                       gk_json_get_string(message->body, "code", ""),
                       gk_json_get_string(message->body, "text", ""));
        worker->errors++;
        break;
    default:
        break;
    }
}

void rig_pump(struct rig *rig)
{
    struct gk_err err = {0};
    uint64_t next = 0;
    if (gk_core_tick(rig->core, rig->now_ns, rig->wall_ms, &next, &err) != GK_OK ||
        gk_db_commit(rig->db, &err) != GK_OK) {
        fail_msg("tick: %s", err.text);
    }
    while (!rig->no_care && gk_core_has_care(rig->core)) {
        if (gk_core_care(rig->core, rig->now_ns, rig->wall_ms, &err) != GK_OK ||
            gk_db_commit(rig->db, &err) != GK_OK) {
            fail_msg("care: %s", err.text);
        }
    }
    struct gk_peer peer;
    struct gk_message message;
    while (gk_core_take(rig->core, &peer, &message)) {
        note(rig, &message);
        if (message.type == GK_MSG_REPLY ||
            (message.type == GK_MSG_ERROR && peer.bytes[0] == 'c')) {
            gk_json_free(rig->reply);
            rig->reply = gk_json_copy(message.body);
        } else if (message.type == GK_MSG_EVENT) {
            assert_true(gk_json_push(rig->events, gk_json_copy(message.body)));
        } else {
            for (uint32_t w = 0; w < rig->worker_count; w++) {
                if (rig->workers[w].peer.bytes[0] == peer.bytes[0]) {
                    deliver(rig, &rig->workers[w], &message);
                }
            }
        }
        gk_message_fini(&message);
    }
}

void rig_advance(struct rig *rig, uint64_t ms)
{
    rig->now_ns += ms * 1000000u;
    rig->wall_ms += ms;
    rig_pump(rig);
}

void rig_send(struct rig *rig, struct rig_worker *worker, enum gk_message_type type, int64_t token,
              struct gk_json *body)
{
    struct gk_err err = {0};
    struct gk_message message = {.type = type,
                                 .session = worker->session,
                                 .seq = ++worker->seq,
                                 .token = (uint64_t)token,
                                 .body = body};
    note(rig, &message);
    if (gk_core_message(rig->core, &worker->peer, &message, rig->now_ns, rig->wall_ms, &err) !=
        GK_OK) {
        fail_msg("message: %s", err.text);
    }
    gk_message_fini(&message);
    rig_pump(rig);
}

void rig_props(const char *device, struct gk_device_props *props_out)
{
    bool is_gpu = strncmp(device, "cuda:", 5) == 0;
    assert_int_equal(gk_device_props_builtin(is_gpu ? "mock:sm_90a" : device, props_out, NULL),
                     GK_OK);
    if (is_gpu) {
        (void)snprintf(props_out->device, sizeof props_out->device, "%s", device);
        (void)snprintf(props_out->arch, sizeof props_out->arch, "sm_90a");
        (void)snprintf(props_out->gpu, sizeof props_out->gpu, "h200-132sm%s",
                       strcmp(device, "cuda:500w") == 0 ? "-500w" : ""); /* another power limit */
        (void)snprintf(props_out->name, sizeof props_out->name, "NVIDIA H200");
        (void)snprintf(props_out->uuid, sizeof props_out->uuid, "GPU-%s", device);
        props_out->modelled = false;
        props_out->sms = 132;
        props_out->l2_bytes = INT64_C(50) << 20;
        props_out->mem_bytes = INT64_C(141) << 30;
        props_out->clock_khz = 1980000;
        props_out->mem_bytes_per_us = 4800000;
    }
}

struct gk_json *rig_hello_body(const struct rig *rig, const struct rig_worker *worker)
{
    struct gk_json *body = gk_json_new_object(), *devices = gk_json_new_array(),
                   *held = gk_json_new_array();
    struct gk_device_props props;
    rig_props(worker->device, &props);
    struct gk_json *device = gk_device_props_to_json(&props);
    assert_true(!rig->driver || gk_json_set_string(device, "driver", rig->driver));
    assert_true(gk_json_push(devices, device));
    for (uint32_t i = 0; i < worker->lease_count; i++) {
        struct gk_json *item = gk_json_new_object();
        assert_true(gk_json_set_int(item, "token", gk_json_get_int(worker->leases[i], "token", 0)));
        assert_true(gk_json_set_string(item, "state", "queued"));
        assert_true(gk_json_push(held, item));
    }
    assert_true(gk_json_set_int(body, "version_min", worker->version ? worker->version : 1) &&
                gk_json_set_int(body, "version_max", worker->version ? worker->version : 1) &&
                gk_json_set_string(body, "spool_id", worker->spool) &&
                gk_json_set_string(body, "host", worker->host ? worker->host : "h") &&
                gk_json_set_int(body, "pid", 7) && gk_json_set_string(body, "build", "test") &&
                gk_json_set_string(body, "boot_id", worker->boot ? worker->boot : "b") &&
                gk_json_set_int(body, "cores", 2) && gk_json_set_string(body, "nvrtc", "13.0") &&
                gk_json_set(body, "devices", devices) && gk_json_set(body, "held", held));
    return body;
}

void rig_hello(struct rig *rig, struct rig_worker *worker)
{
    rig_send(rig, worker, GK_MSG_HELLO, 0, rig_hello_body(rig, worker));
}

void rig_ready(struct rig *rig, struct rig_worker *worker, int64_t credit)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "device", 0) && gk_json_set_int(body, "credit", credit));
    worker->credit = credit;
    rig_send(rig, worker, GK_MSG_READY, 0, body);
}

struct rig_worker *rig_connect(struct rig *rig, const char *spool, const char *device,
                               int64_t credit)
{
    struct rig_worker *worker = &rig->workers[rig->worker_count++];
    *worker = (struct rig_worker){
        .spool = spool, .device = device, .peer = {.size = 1, .roles = GK_ROLES_ALL}};
    worker->peer.bytes[0] = (unsigned char)('0' + rig->worker_count);
    rig_hello(rig, worker);
    assert_true(worker->session != 0);
    if (credit > 0) {
        rig_ready(rig, worker, credit);
    }
    return worker;
}

void rig_forget(struct rig_worker *worker, uint32_t at)
{
    gk_json_free(worker->leases[at]);
    memmove(&worker->leases[at], &worker->leases[at + 1],
            (worker->lease_count - at - 1) * sizeof worker->leases[0]);
    worker->lease_count--;
}

void rig_started(struct rig *rig, struct rig_worker *worker, int64_t token)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_string(body, "phase", "run"));
    rig_send(rig, worker, GK_MSG_STARTED, token, body);
}

/* Times are a function of the config alone, as on a modelled device. */
static double time_of(const char *config)
{
    struct gk_hash hash = gk_hash_text(config);
    return 1000 + hash.bytes[3] * 4 + hash.bytes[4] % 4;
}

static bool fails(const struct rig *rig, const char *config)
{
    struct gk_hash hash = gk_hash_text(config);
    return rig->fails ? rig->fails(config) : hash.bytes[5] % 9 == 0;
}

static double noisy(struct rig *rig, double ns)
{
    double unit = (double)(rig->noise_state = rig->noise_state * 6364136223846793005u + 1442695u);
    return ns * (1 + rig->measured.noise * (unit / 18446744073709551616.0 - 0.5));
}

static double ns_of(const struct rig *rig, const struct rig_worker *worker, const char *config)
{
    double ns = rig->measured.time_of ? rig->measured.time_of(config) : time_of(config);
    return worker->skew > 0 ? ns * worker->skew : ns;
}

/* The first `count` of RIG_RUNGS, passed. */
static void add_rungs(struct gk_record *record, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        struct gk_rung *rung = &record->rungs[record->rung_count++];
        *rung = (struct gk_rung){.passed = true, .worst_index = -1, .norm_error = -1};
        (void)snprintf(rung->name, sizeof rung->name, "%s", RIG_RUNGS[i]);
        (void)snprintf(rung->tensor, sizeof rung->tensor, "C");
    }
}

static struct gk_json *record_of(const struct rig *rig, const struct rig_worker *worker,
                                 const char *config)
{
    struct gk_record record;
    gk_record_init(&record);
    record.modelled = strncmp(worker->device, "cuda:", 5) != 0;
    if (!record.modelled) {
        record.gpu_verify_ns = 2e5;
        record.gpu_measure_ns = 6e5;
        record.marks = 1u << GK_MARK_UNSTABLE;
    }
    record.compile_ns = record.verify_ns = record.measure_ns =
        rig->trial_ns > 0 ? rig->trial_ns / 3 : 1e6;
    if (fails(rig, config)) {
        gk_record_fail(&record, GK_STAGE_VERIFY, GK_FAILURE_WRONG, "element 3: got 1, wanted 2");
    } else {
        record.stage = GK_STAGE_DONE;
        add_rungs(&record, 2); /* one input set */
        record.time_ns = ns_of(rig, worker, config);
        record.samples_ns[0] = record.time_ns;
        record.sample_count = 1;
    }
    struct gk_json *json = gk_record_to_json(&record);
    gk_record_fini(&record);
    assert_non_null(json);
    return json;
}

static struct gk_json *conditions_of(const struct rig *rig, int64_t pass)
{
    bool sustained = rig->measured.sustained_from > 0 && pass >= rig->measured.sustained_from;
    struct gk_json *json = gk_json_new_object();
    assert_true(gk_json_set_string(json, "regime", sustained ? "sustained" : "burst") &&
                gk_json_set_int(json, "sm_clock_khz", sustained ? 1500000 : 1980000 - pass) &&
                gk_json_set_int(json, "power_mw", 690000) &&
                gk_json_set_int(json, "power_limit_mw", 700000) &&
                gk_json_set_int(json, "temperature_c", 50 + pass) &&
                gk_json_set_int(json, "throttle", sustained ? 4 : 0) &&
                gk_json_set_bool(json, "at_power_limit",
                                 pass + 1 >= rig->measured.sustained_from &&
                                     rig->measured.sustained_from > 0) &&
                gk_json_set_int(json, "dropped", 1) && gk_json_set_real(json, "gpu_ns", 3e6));
    return json;
}

static struct gk_json *vendor_failure(void)
{
    struct gk_record record;
    gk_record_init(&record);
    gk_record_fail(&record, GK_STAGE_LOAD, GK_FAILURE_LOAD_ERROR, "libcublasLt.so: not found");
    struct gk_json *item = gk_json_new_object();
    assert_true(gk_json_set_int(item, "trial", 0) &&
                gk_json_set(item, "record", gk_record_to_json(&record)));
    gk_record_fini(&record);
    return item;
}

/* In sustained passes everything takes 1.3 times as long, and the vendor is no exception. */
static struct gk_json *sample_of(struct rig *rig, const struct rig_worker *worker,
                                 const struct gk_json *config, int64_t pass)
{
    struct gk_json *sample = gk_json_new_object(), *ns = gk_json_new_array();
    const char *text = gk_json_get_string(config, "config", NULL);
    bool sustained = rig->measured.sustained_from > 0 && pass >= rig->measured.sustained_from;
    double time_ns =
        (text ? ns_of(rig, worker, text) : rig->measured.vendor_ns) * (sustained ? 1.3 : 1);
    assert_true(gk_json_push(ns, gk_json_new_real(noisy(rig, time_ns))));
    assert_true(gk_json_set_int(sample, "trial", gk_json_get_int(config, "trial", 0)) &&
                gk_json_set(sample, "ns", ns) &&
                (text || gk_json_set_string(sample, "detail", "algo 66, 3 of 8")));
    if (text && pass == 1 && rig->measured.tells_rungs) {
        struct gk_record record;
        gk_record_init(&record);
        add_rungs(&record, GK_ARRAY_COUNT(RIG_RUNGS));
        struct gk_json *json = gk_record_to_json(&record);
        gk_record_fini(&record);
        assert_true(gk_json_set(sample, "rungs", gk_json_copy(gk_json_get(json, "rungs"))));
        gk_json_free(json);
    }
    if (text && rig->measured.carries && rig->measured.carries(text)) {
        struct gk_json *marks = gk_json_new_array();
        assert_true(gk_json_push(marks, gk_json_new_string("l2_carried")) &&
                    gk_json_set(sample, "marks", marks) &&
                    gk_json_set_real(sample, "twice_ratio", 1.25));
    }
    return sample;
}

static struct gk_json *pass_of(struct rig *rig, const struct rig_worker *worker,
                               const struct gk_json *lease, int64_t pass)
{
    const struct gk_json *configs = gk_json_get(lease, "configs");
    struct gk_json *body = gk_json_new_object(), *samples = gk_json_new_array(),
                   *failed = gk_json_new_array();
    for (size_t i = 0; i < gk_json_count(configs); i++) {
        const struct gk_json *config = gk_json_at(configs, i);
        bool is_vendor = gk_json_get_int(config, "trial", -1) == 0;
        if (!is_vendor || rig->measured.vendor_ns > 0) {
            assert_true(gk_json_push(samples, sample_of(rig, worker, config, pass)));
        } else if (pass == 1) {
            assert_true(gk_json_push(failed, vendor_failure()));
        }
    }
    assert_true(gk_json_set_int(body, "pass", pass) &&
                gk_json_set_string(body, "record_kind", "pass") &&
                gk_json_set(body, "samples", samples) && gk_json_set(body, "failed", failed) &&
                gk_json_set_bool(body, "last", false));
    if (strncmp(worker->device, "cuda:", 5) == 0) {
        assert_true(gk_json_set(body, "environment", conditions_of(rig, pass)));
    }
    return body;
}

bool rig_answer(struct rig *rig, struct rig_worker *worker, uint32_t at)
{
    struct gk_json *lease = worker->leases[at];
    int64_t token = gk_json_get_int(lease, "token", 0);
    if (strcmp(gk_json_get_string(lease, "kind", ""), "final") == 0) {
        int64_t pass = gk_json_get_int(lease, "pass_now", 0) + 1;
        assert_true(gk_json_set_int(lease, "pass_now", pass));
        worker->go_on = false;
        rig_send(rig, worker, GK_MSG_RESULT, token, pass_of(rig, worker, lease, pass));
        if (worker->go_on) {
            return false;
        }
    } else {
        struct gk_json *body = gk_json_new_object();
        struct gk_json *record = record_of(rig, worker, gk_json_get_string(lease, "config", ""));
        gk_json_free(rig->record_seen);
        rig->record_seen = gk_json_copy(record);
        assert_true(gk_json_set(body, "record", record));
        rig_send(rig, worker, GK_MSG_RESULT, token, body);
    }
    for (uint32_t i = 0; i < worker->lease_count; i++) {
        if (gk_json_get_int(worker->leases[i], "token", 0) == token) {
            rig_forget(worker, i);
            break;
        }
    }
    return true;
}

uint32_t rig_work(struct rig *rig, uint32_t answers_max)
{
    uint32_t answers = 0;
    for (bool moved = true; moved && answers < answers_max;) {
        moved = false;
        for (uint32_t w = 0; w < rig->worker_count && answers < answers_max; w++) {
            struct rig_worker *worker = &rig->workers[w];
            if (worker->session != 0 && worker->credit < 2) {
                rig_ready(rig, worker, 4);
            }
            if (worker->lease_count > 0) {
                (void)rig_answer(rig, worker, 0); /* either way it moved */
                answers++;
                moved = true;
            }
        }
    }
    return answers;
}

const char *rig_request(struct rig *rig, const char *verb, struct gk_json *body)
{
    struct gk_err err = {0};
    if (!body) {
        body = gk_json_new_object();
    }
    assert_true(gk_json_set_string(body, "verb", verb));
    struct gk_message message = {.type = GK_MSG_REQUEST, .seq = ++rig->seq, .body = body};
    note(rig, &message);
    if (gk_core_message(rig->core, &rig->client, &message, rig->now_ns, rig->wall_ms, &err) !=
        GK_OK) {
        fail_msg("request %s: %s", verb, err.text);
    }
    gk_message_fini(&message);
    rig_pump(rig);
    assert_non_null(rig->reply);
    return gk_json_get_string(rig->reply, "status", "");
}

struct gk_json *rig_submit_body(struct rig *rig, const char *submit_id, const char *arch,
                                int64_t trials, const char *const *problems)
{
    struct gk_json *body = gk_json_new_object(), *list = gk_json_new_array(),
                   *archs = gk_json_new_array();
    struct gk_json *budget = gk_json_new_object();
    for (; *problems; problems++) {
        assert_true(gk_json_push(list, gk_json_new_string(*problems)));
    }
    assert_true(gk_json_push(archs, gk_json_new_string(arch)));
    assert_true(gk_json_set_int(budget, "trials", trials));
    assert_true(gk_json_set_string(body, "submit_id", submit_id) &&
                gk_json_set_string(body, "what", "test") && gk_json_set(body, "problems", list) &&
                gk_json_set(body, "archs", archs) && gk_json_set(body, "budget", budget) &&
                gk_json_set_string(body, "strategy", "random") &&
                gk_json_set_int(body, "seed", 5) &&
                gk_json_set(body, "bundle", gk_json_copy(rig->bundle)));
    return body;
}

int64_t rig_submit(struct rig *rig, const char *submit_id, const char *arch, int64_t trials,
                   const char *const *problems)
{
    const char *status =
        rig_request(rig, "submit", rig_submit_body(rig, submit_id, arch, trials, problems));
    if (strcmp(status, "OK") != 0) {
        fail_msg("submit: %s: %s", status, gk_json_get_string(rig->reply, "text", ""));
    }
    return gk_json_get_int(rig->reply, "job", 0);
}

const char *rig_job_state(struct rig *rig, int64_t job)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "job", job));
    assert_string_equal(rig_request(rig, "show", body), "OK");
    return gk_json_get_string(rig->reply, "state", "");
}

int64_t rig_count(struct rig *rig, const char *verb, const char *list, int64_t job)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(job == 0 || gk_json_set_int(body, "job", job));
    assert_string_equal(rig_request(rig, verb, body), "OK");
    return (int64_t)gk_json_count(gk_json_get(rig->reply, list));
}
