/*
 * What people see of recorded reports of the emulated device, against golden texts; and configs as
 * people write them.
 *
 * GK_UPDATE_GOLDEN=1 in the environment rewrites the texts; read the difference before it is kept.
 * The reports themselves are what `gktune emu ... --json` printed (tests/e2e/emu_tool.sh looks at
 * live ones).
 */
#include "cli/config_option.h"
#include "cli/emu_args.h"
#include "cli/emu_cost.h"
#include "cli/emu_listing.h"
#include "cli/emu_render.h"
#include "cli/shape_option.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/check.h"
#include "tests/support/parsed.h"

#define REPORTS GK_SOURCE_DIR "/tests/data/emu/reports/"

static struct gk_json *load(const char *name)
{
    char path[512];
    struct gk_json *json = NULL;
    struct gk_err err = {0};
    (void)snprintf(path, sizeof path, REPORTS "%s.json", name);
    assert_ok(gk_json_load(path, 1 << 20, &json, &err), err);
    return json;
}

static void check_golden(const char *name, const char *golden, const struct gk_emu_look *look)
{
    char path[512], *want = NULL;
    size_t size = 0;
    struct gk_err err = {0};
    struct gk_buf got = {0};
    struct gk_json *report = load(name);
    gk_emu_render(report, look, &got);
    assert_ok(gk_buf_status(&got, &err), err);
    (void)snprintf(path, sizeof path, REPORTS "%s.txt", golden);
    if (getenv("GK_UPDATE_GOLDEN")) {
        assert_ok(gk_file_store(path, got.data, got.size, &err), err);
    }
    assert_ok(gk_file_load(path, 1 << 20, &want, &size, &err), err);
    assert_string_equal(gk_buf_text(&got), want);
    free(want);
    gk_buf_fini(&got);
    gk_json_free(report);
}

static void tables(void **state)
{
    const struct gk_emu_look table = {.top = 12}, whole = {0}, source = {.source = true};
    const struct gk_emu_look colored = {.top = 4, .color = true};
    (void)state;
    check_golden("gemm_mma", "gemm_mma", &table);
    check_golden("gemm_wgmma", "gemm_wgmma", &table);
    check_golden("race", "race", &whole);
    check_golden("race", "race_source", &source);
    check_golden("gemm_mma", "gemm_mma_color", &colored);
}

/* The lines of a recorded launch add up to its counts: what JSON leaves out is zero. */
static void lines_add_up(void **state)
{
    static const char *const names[] = {"gemm_mma", "gemm_wgmma", "race"};
    (void)state;
    for (size_t n = 0; n < GK_ARRAY_COUNT(names); n++) {
        struct gk_json *report = load(names[n]);
        const struct gk_json *launch = gk_json_at(gk_json_get(report, "launches"), 0);
        const struct gk_json *counts = gk_json_get(launch, "counts"), *value;
        void *cursor = NULL;
        const char *key = NULL;
        uint32_t seen = 0;
        while ((value = gk_json_next(counts, &cursor, &key)) != NULL) {
            int64_t sum = 0;
            const struct gk_json *lines = gk_json_get(launch, "lines");
            for (size_t i = 0; i < gk_json_count(lines); i++) {
                sum += gk_json_get_int(gk_json_get(gk_json_at(lines, i), "counts"), key, 0);
            }
            assert_int_equal(sum, gk_json_int(value, -1));
            seen += sum > 0;
        }
        assert_true(seen >= 4);
        gk_json_free(report);
    }
}

/* 100 of 400 wavefronts of a launch whose tensor term is twice its shared one. */
static void costs(void **state)
{
    struct gk_json *launch =
        parsed("{\"counts\": {\"shared_wavefronts\": 400, \"tensor_flops\": 1000, "
               "\"warp_instructions\": 50}, \"model\": {\"shared_ns\": 50.0, \"tensor_ns\": 100.0, "
               "\"issue_ns\": 5.0, \"latency_ns\": 9000.0}}");
    struct gk_json *line =
        parsed("{\"counts\": {\"shared_wavefronts\": 100, \"tensor_flops\": 100, "
               "\"warp_instructions\": 50}}");
    struct gk_emu_cost cost = gk_emu_cost_of(launch, line);
    struct gk_json *fallen = parsed("{\"counts\": {\"warp_instructions\": 200}}");
    (void)state;
    assert_string_equal(cost.term, "shared");
    assert_true(cost.ns == 12.5); /* tensor work: 10 */
    assert_true(cost.share == 0.125);
    cost = gk_emu_cost_of(fallen, line); /* no model: it did not run to its end */
    assert_string_equal(cost.term, "issue");
    assert_true(cost.share == 0.25);
    gk_json_free(launch);
    gk_json_free(line);
    gk_json_free(fallen);
}

static void words(void **state)
{
    static const struct {
        double value;
        const char *text;
    } counts[] = {{0, "0"},         {9999, "9999"},    {10000, "10.0k"},   {99949, "99.9k"},
                  {999499, "999k"}, {999500, "1.00M"}, {4194304, "4.19M"}, {1.5e15, "1.50P"}};
    static const struct {
        const char *arch, *device;
    } archs[] = {{"sm_90a", "emu:sm_90a"},
                 {"emu-sm_80", "emu:sm_80"},
                 {"emu:sm_80", "emu:sm_80"},
                 {"emu", "emu:sm_80"},
                 {"h100", "h100"}};
    char text[64];
    struct gk_buf out = {0};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(counts); i++) {
        gk_emu_count_text(counts[i].value, text);
        assert_string_equal(text, counts[i].text);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(archs); i++) {
        gk_emu_device_name(archs[i].arch, text);
        assert_string_equal(text, archs[i].device);
    }
    gk_emu_bar(0.001, text); /* what costs something is seen */
    assert_string_equal(text, "#         ");
    gk_emu_bar(0, text);
    assert_string_equal(text, "          ");
    gk_emu_bar(1.0, text);
    assert_string_equal(text, "##########");
    gk_emu_color_bars("####  x # y\nz\n", &out);
    assert_string_equal(gk_buf_text(&out), "\033[33m####\033[0m  x # y\nz\n");
    gk_buf_fini(&out);
}

static void arguments(void **state)
{
    static const struct {
        const char *text, *json; /* NULL: refused */
    } cases[] = {
        {"f32[1024]=normal", "{\"dtype\":\"f32\",\"elements\":1024,\"fill\":\"normal\"}"},
        {"bf16[1]", "{\"dtype\":\"bf16\",\"elements\":1,\"fill\":\"none\"}"},
        {"f32[8]=-1.5", "{\"dtype\":\"f32\",\"elements\":8,\"fill\":\"-1.5\"}"},
        {"i32=-5", "{\"dtype\":\"i32\",\"value\":-5.0}"},
        {"f32[0]=1", NULL},
        {"f32[-4]=1", NULL},
        {"f32[4=1", NULL},
        {"f32[4]1", NULL},
        {"f32[4]=nan", NULL},
        {"f32[4]=", NULL},
        {"i32", NULL},
        {"i32=", NULL},
        {"i32=5x", NULL},
        {"i64=9007199254740991", "{\"dtype\":\"i64\",\"value\":9007199254740991.0}"},
        {"i64=9007199254740992", NULL}, /* the next whole number could have become this one */
        {"i64=1e300", NULL},
        {"i32=2147483648", NULL},
        {"i32=2.5", NULL},
        {"u8=-1", NULL},
        {"u8[4]=256", NULL},
        {"i8[4]=-128", "{\"dtype\":\"i8\",\"elements\":4,\"fill\":\"-128\"}"},
        {"half[4]=1", NULL},
        {"", NULL},
    };
    static const struct {
        const char *text, *json;
    } triples[] = {{"4", "[4,1,1]"}, {"4,2", "[4,2,1]"},    {"4,2,3", "[4,2,3]"},
                   {"0", NULL},      {"4,2,3,1", NULL},     {"x", NULL},
                   {"4 2", NULL},    {"99999999999", NULL}, {"-1", NULL},
                   {"4,", NULL},     {",4", NULL}};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases) + GK_ARRAY_COUNT(triples); i++) {
        bool is_arg = i < GK_ARRAY_COUNT(cases);
        size_t at = is_arg ? i : i - GK_ARRAY_COUNT(cases);
        const char *want = is_arg ? cases[at].json : triples[at].json;
        struct gk_json *json = NULL;
        struct gk_err err = {0};
        enum gk_status status = is_arg ? gk_emu_argument(cases[at].text, &json, &err)
                                       : gk_emu_triple(triples[at].text, "grid", &json, &err);
        if (!want) {
            assert_int_equal(status, GK_USAGE);
            assert_null(json);
            continue;
        }
        assert_ok(status, err);
        char *text = gk_json_text(json);
        assert_string_equal(text, want);
        free(text);
        gk_json_free(json);
    }
}

/* ------------------------------------------------------------------ configs */

struct rig {
    struct gk_catalog *catalog;
    const struct gk_op *op;
    struct gk_problem problem;
    struct gk_space_def def;
};

static void rig_init(struct rig *rig, const char *device)
{
    struct gk_device_props props;
    struct gk_diag diag;
    struct gk_err err = {0};
    gk_diag_init(&diag);
    assert_int_equal(gk_catalog_load_for(GK_SOURCE_DIR "/kernels", "gemm", &rig->catalog, &diag),
                     GK_OK);
    gk_diag_fini(&diag);
    rig->op = gk_catalog_find(rig->catalog, "gemm");
    assert_ok(gk_problem_from_text(&rig->op->fields, "gemm{\"K\":128,\"M\":64,\"N\":64}",
                                   &rig->problem, &err),
              err);
    assert_ok(gk_device_props_builtin(device, &props, &err), err);
    assert_ok(gk_catalog_space(rig->op, &rig->problem, &props, &rig->def, &err), err);
}

static void rig_fini(struct rig *rig)
{
    gk_space_def_fini(&rig->def);
    gk_problem_fini(&rig->problem);
    gk_catalog_destroy(rig->catalog);
}

static char *choose(struct rig *rig, const char *text, char note[256])
{
    char *config = NULL;
    struct gk_buf said = {0};
    struct gk_err err = {0};
    assert_ok(gk_config_choose(rig->op, &rig->problem, &rig->def, text, &config, &said, &err), err);
    (void)snprintf(note, 256, "%s", gk_buf_text(&said));
    gk_buf_fini(&said);
    return config;
}

static void configs(void **state)
{
    char note[256], *config, *other;
    struct rig rig = {0};
    (void)state;
    rig_init(&rig, "emu:sm_80");
    config = choose(&rig, NULL, note);
    assert_contains(config, "gemm_mma{");
    assert_string_equal(note, "");
    other = choose(&rig, config, note); /* whole, as it is printed */
    assert_string_equal(other, config);
    free(other);
    other = choose(&rig, "gemm_mma{\"STAGES\":2}", note);
    assert_contains(other, "\"STAGES\":2");
    assert_string_equal(note, "");
    free(other);
    other = choose(&rig, "BN=16,STAGES=2", note); /* the default's warps do not fit */
    assert_contains(other, "\"BN\":16");
    assert_contains(other, "\"STAGES\":2");
    assert_contains(note, "changed with it: WN=");
    free(other);
    free(config);
    rig_fini(&rig);
}

static void mistakes(void **state)
{
    static const struct {
        const char *text;
        const char *parts[4];
    } bad[] = {
        {"BMM=3,STAGES=77,EPILOGUE=foo",
         {"no parameter 'BMM'; did you mean 'BM'", "STAGES = 77: gemm_mma has 2, 3, 4, 5",
          "EPILOGUE = \"foo\": gemm_mma has direct, staged"}},
        {"ZZZZZZ=1", {"no parameter 'ZZZZZZ'; it has LOAD_BYTES, "}},
        {"BM=192", {"no legal config of gemm_mma has these values", "tile_m_used"}},
        {"gemm_nope{\"BM\":16}", {"no template 'gemm_nope'", "gemm_mma"}},
        {"gemm_mma{\"BM\":", {"line 1"}},
        {"BM", {"'BM' is not FIELD=VALUE"}},
        {"BM=16,BM=32", {"'BM' is given twice"}},
    };
    struct rig rig = {0};
    (void)state;
    rig_init(&rig, "emu:sm_80");
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        char *config = NULL;
        struct gk_buf note = {0};
        struct gk_err err = {0};
        enum gk_status status =
            gk_config_choose(rig.op, &rig.problem, &rig.def, bad[i].text, &config, &note, &err);
        assert_int_equal(gk_status_exit(status), 2);
        for (size_t p = 0; p < 4 && bad[i].parts[p]; p++) {
            assert_contains(err.text, bad[i].parts[p]);
        }
        assert_null(config);
        gk_buf_fini(&note);
    }
    rig_fini(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tables),   cmocka_unit_test(lines_add_up), cmocka_unit_test(costs),
        cmocka_unit_test(words),    cmocka_unit_test(arguments),    cmocka_unit_test(configs),
        cmocka_unit_test(mistakes),
    };
    return gk_hash_setup(NULL) == GK_OK ? cmocka_run_group_tests(tests, NULL, NULL) : 1;
}
