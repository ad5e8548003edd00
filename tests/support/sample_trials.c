/* See sample_trials.h. */
#include "tests/support/sample_trials.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/config.h"
#include "core/record.h"

static void need(enum gk_status status, const struct gk_err *err)
{
    if (status != GK_OK) {
        (void)fprintf(stderr, "sample_trials: %s\n", err->text);
        abort();
    }
}

static struct gk_json *parse(const char *text)
{
    struct gk_json *json = NULL;
    struct gk_err err = {0};
    need(gk_json_parse(text, strlen(text), "a sample", &json, &err), &err);
    return json;
}

static int64_t draw(struct gk_prng *prng, int64_t low, int64_t high)
{
    return low + (int64_t)gk_prng_below(prng, (uint64_t)(high - low + 1));
}

static double spread(struct gk_prng *prng, double middle)
{
    return middle * exp(2 * (gk_prng_unit(prng) - 0.5));
}

static void add_rung(struct gk_record *record, const char *name, struct gk_prng *prng, bool exact)
{
    struct gk_rung *rung = &record->rungs[record->rung_count++];
    *rung = (struct gk_rung){.passed = true, .compared = 16777216};
    (void)snprintf(rung->name, sizeof rung->name, "%s", name);
    (void)snprintf(rung->tensor, sizeof rung->tensor, "C");
    rung->worst_got = exact ? (double)draw(prng, -30, 30) : (double)draw(prng, -4000, 4000) / 128;
    rung->worst_want = exact ? rung->worst_got : rung->worst_got + gk_prng_unit(prng) / 100;
    rung->worst_bound = exact ? 0 : 0.03 * gk_prng_unit(prng);
    rung->worst_index = exact ? 0 : draw(prng, 0, 16777215);
    rung->norm_error = exact ? 0 : 0.0016 + 0.0001 * gk_prng_unit(prng);
}

struct gk_json *sample_record(struct gk_prng *prng, uint32_t input_set)
{
    struct gk_record record;
    gk_record_init(&record);
    record.input_set = input_set;
    record.compile_ns = floor(spread(prng, 4e8));
    struct gk_kernel_resources *kernel = &record.kernels[record.kernel_count++];
    (void)snprintf(kernel->kernel, sizeof kernel->kernel, "gk_gemm_mma");
    kernel->regs = draw(prng, 40, 255);
    kernel->dynamic_smem = 4096 * draw(prng, 1, 55);
    kernel->blocks_per_sm = draw(prng, 1, 8);
    kernel->threads = 32 << draw(prng, 0, 4);
    if (gk_prng_below(prng, 7) == 0) {
        gk_record_fail(&record, GK_STAGE_LIMITS, GK_FAILURE_RESOURCES,
                       "constraint smem_fits: %" PRId64
                       " bytes of shared memory, 232448 are allowed",
                       draw(prng, 232449, 500000));
    } else {
        record.stage = GK_STAGE_DONE;
        record.time_ns = spread(prng, 5e5);
        for (int i = 0; i < 5; i++) {
            record.samples_ns[record.sample_count++] =
                record.time_ns * (1 + gk_prng_unit(prng) / 100);
        }
        record.verify_ns = floor(spread(prng, 2e7));
        record.measure_ns = floor(spread(prng, 3e7));
        record.gpu_verify_ns = floor(spread(prng, 2e6));
        record.gpu_measure_ns = floor(spread(prng, 2e7));
        record.environment =
            parse("{\"at_power_limit\":false,\"dropped\":0,\"memory_clock_khz\":3201000,"
                  "\"power_limit_mw\":700000,\"regime\":\"burst\",\"sets\":6,\"throttle\":0}");
        (void)(gk_json_set_int(record.environment, "power_mw", draw(prng, 200000, 690000)) &&
               gk_json_set_int(record.environment, "sm_clock_khz", draw(prng, 1400, 1980) * 1000) &&
               gk_json_set_int(record.environment, "temperature_c", draw(prng, 35, 70)) &&
               gk_json_set_int(record.environment, "launches", draw(prng, 50, 400)));
        add_rung(&record, "exact", prng, true);
        add_rung(&record, "reference", prng, false);
    }
    struct gk_json *json = gk_record_to_json(&record);
    gk_record_fini(&record);
    if (!json) {
        abort();
    }
    return json;
}

struct gk_json *sample_vendor_failure(void)
{
    struct gk_record record;
    gk_record_init(&record);
    gk_record_fail(&record, GK_STAGE_LOAD, GK_FAILURE_LOAD_ERROR, "libcublasLt.so: not found");
    struct gk_json *json = gk_record_to_json(&record);
    gk_record_fini(&record);
    if (!json) {
        abort();
    }
    return json;
}

static void config_of(struct gk_prng *prng, char text_out[256])
{
    (void)snprintf(text_out, 256,
                   "gemm_mma{\"BK\":%d,\"BM\":%d,\"BN\":%d,\"EPILOGUE\":\"%s\",\"GROUP\":%d,"
                   "\"LOAD_BYTES\":16,\"SPLITK\":%d,\"STAGES\":%d,\"STORE_BYTES\":16,\"WM\":%d,"
                   "\"WN\":%d}",
                   16 << draw(prng, 0, 3), 16 << draw(prng, 0, 4), 16 << draw(prng, 0, 4),
                   draw(prng, 0, 1) ? "direct" : "staged", 1 << draw(prng, 0, 4),
                   (int)draw(prng, 1, 8), (int)draw(prng, 2, 6), 1 << draw(prng, 0, 2),
                   1 << draw(prng, 0, 2));
}

static void add_trial(struct gk_db *db, struct gk_prng *prng, int64_t task, int64_t seq,
                      uint64_t *wall_ms)
{
    struct gk_err err = {0};
    struct gk_hash template_hash = gk_hash_text("gemm_mma"), id;
    char config[256], hex[GK_HASH_TEXT_SIZE], id_hex[GK_HASH_TEXT_SIZE];
    int64_t trial = 0, token = 0;
    config_of(prng, config);
    id = gk_config_id(&template_hash, config);
    gk_hash_hex(&template_hash, hex);
    gk_hash_hex(&id, id_hex);
    *wall_ms += (uint64_t)draw(prng, 20, 80);
    struct gk_json *row = gk_json_new_object();
    need(gk_db_take_tokens(db, 1, &token, &err), &err);
    bool ok = gk_json_set_int(row, "job", 1) && gk_json_set_int(row, "task", task) &&
              gk_json_set_int(row, "seq", seq) && gk_json_set_int(row, "batch", seq / 32) &&
              gk_json_set_string(row, "template", "gemm_mma") &&
              gk_json_set_string(row, "template_hash", hex) &&
              gk_json_set_string(row, "config", config) &&
              gk_json_set_string(row, "config_id", id_hex) &&
              gk_json_set_string(row, "state", "proposed") && gk_json_set_int(row, "attempt", 0) &&
              gk_json_set_int(row, "token", token) && gk_json_set_int(row, "worker", 1) &&
              gk_json_set_int(row, "input_set", seq % 4) &&
              gk_json_set_int(row, "leased_ms", (int64_t)*wall_ms - 900) &&
              gk_json_set_int(row, "created_ms", (int64_t)*wall_ms - 1000);
    need(ok ? gk_db_trial_insert(db, row, &trial, &err) : GK_NOMEM, &err);
    gk_json_free(row);
    row = sample_record(prng, (uint32_t)seq % 4);
    need(gk_db_trial_record(db, trial, token, *wall_ms, "recorded", row, &err), &err);
    bool failed = strcmp(gk_json_get_string(row, "failure", ""), "none") != 0;
    gk_json_free(row);
    struct gk_json *event = gk_json_new_object();
    int64_t number = 0;
    (void)(gk_json_set_int(event, "task", task) && gk_json_set_int(event, "trial", trial));
    need(gk_db_event_add(db, 1, *wall_ms, "recorded", event, &number, &err), &err);
    gk_json_free(event);
    need(gk_db_count(db, 1, task, 1, failed, 5e8, &err), &err);
}

/* A verdict as a final round of a GPU leaves it: some 20 entries with their intervals. */
static void add_verdict(struct gk_db *db, struct gk_prng *prng, int64_t task)
{
    struct gk_err err = {0};
    struct gk_json *changes = gk_json_new_object(), *verdict = gk_json_new_object(),
                   *entries = gk_json_new_array();
    for (int i = 0; i < 19; i++) {
        char config[256], hex[GK_HASH_TEXT_SIZE];
        struct gk_json *entry = parse("{\"role\":[\"finalist\"],\"template\":\"gemm_mma\",\"twin\":"
                                      "-1,\"tied\":false,\"dropped\":false,\"is_default\":false}");
        config_of(prng, config);
        struct gk_hash id = gk_hash_text(config);
        gk_hash_hex(&id, hex);
        double ns = spread(prng, 5e5);
        (void)(gk_json_set_int(entry, "trial", draw(prng, 1, 100000)) &&
               gk_json_set_string(entry, "config", config) &&
               gk_json_set_string(entry, "config_id", hex) &&
               gk_json_set_real(entry, "median_ns", ns) &&
               gk_json_set_real(entry, "ratio", 1 + gk_prng_unit(prng)) &&
               gk_json_set_real(entry, "low", 1 + gk_prng_unit(prng)) &&
               gk_json_set_real(entry, "high", 1 + gk_prng_unit(prng)));
        (void)gk_json_push(entries, entry); /* the sizes would show what is missing */
    }
    bool ok = gk_json_set(changes, "round", gk_json_copy(entries)) &&
              gk_json_set(verdict, "entries", entries) && gk_json_set(changes, "verdict", verdict);
    need(ok ? gk_db_task_update(db, task, changes, &err) : GK_NOMEM, &err);
    gk_json_free(changes);
}

void sample_trials(struct gk_db *db, int64_t count)
{
    struct gk_err err = {0};
    struct gk_prng prng;
    int64_t problem = 0, job = 0, task = 0, epoch = 0;
    uint64_t wall_ms = UINT64_C(1795972143166);
    gk_prng_init(&prng, 7, 0);
    need(gk_db_start(db, &epoch, &err), &err);
    struct gk_json *none = gk_json_new_object();
    need(gk_db_bundle_put(db, "b1", none, none, 1, &err), &err);
    gk_json_free(none);
    struct gk_json *row = parse(
        "{\"submit_id\":\"s\",\"spec_key\":\"k\",\"what\":\"gemm\",\"ops\":[\"gemm\"],\"bundle\":"
        "\"b1\",\"archs\":[],\"private_ok\":true,\"budget_trials\":200,\"budget_s\":0.0,"
        "\"strategy\":\"local\",\"seed\":1,\"priority\":0,\"policy\":\"cold-graph\",\"state\":"
        "\"done\",\"finishing\":false,\"created_ms\":1,\"ended_ms\":2,\"problems\":1,\"tasks\":1,"
        "\"done\":1,\"trials\":0,\"failed\":0}");
    need(gk_db_job_insert(db, row, &job, &err), &err);
    gk_json_free(row);
    for (int64_t i = 0; i < count; i++) {
        if (i % SAMPLE_TRIALS_A_TASK == 0) {
            char text[512];
            (void)snprintf(text, sizeof text, "gemm{\"K\":4096,\"M\":%" PRId64 ",\"N\":4096}",
                           i + 1);
            need(gk_db_problem_put(db, "gemm", text, &problem, &err), &err);
            (void)snprintf(text, sizeof text,
                           "{\"job\":1,\"problem\":%" PRId64 ",\"arch\":\"sm_90a\",\"gpu\":"
                           "\"h200-132sm\",\"nvrtc\":\"13.0\",\"state\":\"done\",\"trials\":0,"
                           "\"verified\":0,\"failed\":0,\"spent_ns\":0.0,\"attempt\":0}",
                           problem);
            row = parse(text);
            need(gk_db_task_insert(db, row, &task, &err), &err);
            gk_json_free(row);
            add_verdict(db, &prng, task);
            need(gk_db_commit(db, &err), &err);
            need(gk_db_checkpoint(db, false, &err), &err);
        }
        add_trial(db, &prng, task, i % SAMPLE_TRIALS_A_TASK, &wall_ms);
    }
    need(gk_db_commit(db, &err), &err);
}
