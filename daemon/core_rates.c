/*
 * What a job does in which time, as docs/DESIGN.md section 8 (end) defines it.
 *
 * A verified config is one that was not measured before in this store; what the store answers is a
 * duplicate and costs no time. The clock of a job runs from its first lease to its last result
 * while this daemon lives: each result takes what has passed since the one before. That stretch is
 * of the final round if nothing but a final round of the job was out, else of the search; so a
 * pause, or a night between two calls, counts nowhere, and a daemon that is killed loses one
 * stretch at most.
 */
#include "daemon/core_internal.h"

void rates_granted(const struct gk_core *core, struct job *job, int64_t worker, uint32_t device)
{
    int64_t key = worker * DEVICES_MAX + (int64_t)device;
    job->mark_ns = job->mark_ns ? job->mark_ns : core->now_ns;
    for (uint32_t i = 0; i < job->device_count; i++) {
        if (job->device_keys[i] == key) {
            return;
        }
    }
    if (job->device_count < GK_ARRAY_COUNT(job->device_keys)) {
        job->device_keys[job->device_count++] = key;
    }
}

static bool trials_are_out(const struct gk_core *core, const struct job *job)
{
    for (uint32_t i = 0; i < core->lease_count; i++) {
        if (core->leases[i].job == job && !core->leases[i].is_final) {
            return true;
        }
    }
    return false;
}

enum gk_status rates_clock(struct gk_core *core, const struct lease *lease, double gpu_ns,
                           struct gk_err *err)
{
    struct job *job = lease->job;
    struct gk_db_rates delta = {0};
    double ns = job->mark_ns ? (double)(core->now_ns - job->mark_ns) : 0;
    if (job->mark_ns) { /* not of a job that pauses: what is still out ends outside its clock */
        job->mark_ns = core->now_ns;
    }
    if (lease->is_final && !trials_are_out(core, job)) {
        delta.final_ns = ns;
    } else {
        delta.search_ns = ns;
        delta.device_ns = ns * (job->device_count ? job->device_count : 1);
    }
    if (lease->is_final && gpu_ns >= 0) {
        delta.gpu_final_ns = gpu_ns;
        delta.final_told = 1;
    }
    return gk_db_rates_add(core->db, job->id, &delta, err);
}

enum gk_status rates_recorded(struct gk_core *core, const struct job *job,
                              const struct gk_record *record, bool ok, bool reused,
                              struct gk_err *err)
{
    struct gk_db_rates delta = {0};
    double verify = record->gpu_verify_ns, measure = record->gpu_measure_ns;
    if (reused) {
        delta.duplicates = 1;
        return gk_db_rates_add(core->db, job->id, &delta, err);
    }
    delta.verified = ok;
    delta.failed = !ok;
    delta.warm = record->compile_cached;
    delta.cold = !delta.warm && record->compile_ns > 0;
    delta.told = verify >= 0 || measure >= 0;
    delta.gpu_verify_ns = verify > 0 ? verify : 0;
    delta.gpu_measure_ns = measure > 0 ? measure : 0;
    return gk_db_rates_add(core->db, job->id, &delta, err);
}

static bool set_share(struct gk_json *out, const char *key, double part, double whole)
{
    return !(whole > 0) || gk_json_set_real(out, key, part / whole);
}

enum gk_status rates_json(struct gk_core *core, int64_t job, struct gk_json **json_out,
                          struct gk_err *err)
{
    static const char *const counts[] = {"verified", "failed", "duplicates", "cold", "warm"};
    struct gk_json *row = NULL, *out = gk_json_new_object();
    enum gk_status status = gk_db_rates(core->db, job, &row, err);
    bool ok = out != NULL;
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(counts); i++) {
        ok = gk_json_set_int(out, counts[i], gk_json_get_int(row, counts[i], 0));
    }
    double search = gk_json_get_real(row, "search_ns", 0),
           final = gk_json_get_real(row, "final_ns", 0),
           device = gk_json_get_real(row, "device_ns", 0),
           verify = gk_json_get_real(row, "gpu_verify_ns", 0),
           measure = gk_json_get_real(row, "gpu_measure_ns", 0);
    ok =
        ok && gk_json_set_real(out, "search_s", search / 1e9) &&
        gk_json_set_real(out, "final_s", final / 1e9) &&
        set_share(out, "verified_per_s", 1e9 * (double)gk_json_get_int(row, "verified", 0), search);
    if (gk_json_get_int(row, "told", 0) > 0) {
        ok = ok && set_share(out, "gpu_busy", verify + measure, device) &&
             set_share(out, "gpu_busy_verify", verify, device) &&
             set_share(out, "gpu_busy_measure", measure, device);
    }
    if (gk_json_get_int(row, "final_told", 0) > 0) {
        ok =
            ok && set_share(out, "gpu_busy_final", gk_json_get_real(row, "gpu_final_ns", 0), final);
    }
    gk_json_free(row);
    if (status != GK_OK || !ok) {
        gk_json_free(out);
        return status != GK_OK ? status : gk_fail(err, GK_NOMEM, "out of memory for rates");
    }
    *json_out = out;
    return GK_OK;
}

/* ------------------------------------------------------------------ conditions of a round */

/* Lowest and highest of a number over passes of a regime; nothing if no pass says it. */
static bool set_range(struct gk_json *out, const struct gk_json *passes, const char *regime,
                      const char *key)
{
    int64_t low = INT64_MAX, high = INT64_MIN;
    for (size_t i = 0; i < gk_json_count(passes); i++) {
        const struct gk_json *pass = gk_json_at(passes, i),
                             *value = gk_json_get(gk_json_get(pass, "environment"), key);
        if (strcmp(pass_regime(pass), regime) == 0 && gk_json_is(value, GK_JSON_INT)) {
            int64_t number = gk_json_int(value, 0);
            low = number < low ? number : low;
            high = number > high ? number : high;
        }
    }
    if (low > high) {
        return true;
    }
    struct gk_json *range = gk_json_new_array();
    bool ok =
        gk_json_push(range, gk_json_new_int(low)) && gk_json_push(range, gk_json_new_int(high));
    return gk_json_set(out, key, range) && ok;
}

struct gk_json *round_conditions(const struct gk_json *passes, const char *regime)
{
    static const char *const ranges[] = {"sm_clock_khz", "power_mw", "power_limit_mw",
                                         "temperature_c"};
    struct gk_json *out = gk_json_new_object(), *throttle = gk_json_new_array();
    int64_t dropped = 0;
    bool ok = out && throttle;
    for (size_t i = 0; ok && i < GK_ARRAY_COUNT(ranges); i++) {
        ok = set_range(out, passes, regime, ranges[i]);
    }
    for (size_t i = 0; ok && i < gk_json_count(passes); i++) {
        const struct gk_json *pass = gk_json_at(passes, i),
                             *environment = gk_json_get(pass, "environment"),
                             *reason = gk_json_get(environment, "throttle");
        bool known = !reason || strcmp(pass_regime(pass), regime) != 0;
        dropped +=
            strcmp(pass_regime(pass), regime) == 0 ? gk_json_get_int(environment, "dropped", 0) : 0;
        for (size_t k = 0; !known && k < gk_json_count(throttle); k++) {
            known = gk_json_equal(gk_json_at(throttle, k), reason);
        }
        ok = known || gk_json_count(throttle) >= 8 || gk_json_push(throttle, gk_json_copy(reason));
    }
    ok = gk_json_set(out, "throttle", throttle) && ok && gk_json_set_int(out, "dropped", dropped);
    if (!ok) {
        gk_json_free(out);
        return NULL;
    }
    return out;
}
