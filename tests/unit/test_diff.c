/*
 * gktune diff: verdicts as golden text, what is refused, and how often two runs of the same kernels
 * are called the same. GKTUNE_UPDATE_GOLDEN=1 writes the golden text anew.
 */
#include "cli/diff.h"
#include "core/hash.h"
#include "core/prng.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#define DATA GK_SOURCE_DIR "/tests/data/diff"

static void read_side(const char *path, struct gk_diff_side *side)
{
    struct gk_diag diag;
    gk_diag_init(&diag);
    *side = (struct gk_diff_side){.name = gk_strdup(strrchr(path, '/') + 1)};
    if (gk_diff_read(path, side, &diag) != GK_OK) {
        fail_msg("%s", diag.texts[0]);
    }
    gk_diag_fini(&diag);
}

static void check_golden(const char *name, const struct gk_buf *text)
{
    char path[512], *wanted = NULL;
    size_t size = 0;
    struct gk_err err = {0};
    (void)snprintf(path, sizeof path, DATA "/%s", name);
    if (getenv("GKTUNE_UPDATE_GOLDEN")) {
        assert_int_equal(gk_file_store(path, gk_buf_text(text), text->size, &err), GK_OK);
    }
    if (gk_file_load(path, 1 << 20, &wanted, &size, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    if (size != text->size || memcmp(wanted, gk_buf_text(text), size) != 0) {
        print_message("%s", gk_buf_text(text));
        fail_msg("differs from %s", path);
    }
    free(wanted);
}

static void test_golden(void **state)
{
    struct gk_cli cli = {.kernels_dir = (char *)(uintptr_t)(GK_SOURCE_DIR "/kernels")};
    struct gk_diff_side a, b;
    struct gk_diff diff;
    struct gk_buf text = {0}, md = {0}, pretty = {0};
    struct gk_err err = {0};
    (void)state;
    read_side(DATA "/before", &a);
    read_side(DATA "/now", &b);
    assert_int_equal(gk_diff_make(&a, &b, &diff, &err), GK_OK);
    gk_diff_table(&cli, &diff, &text);
    gk_diff_markdown(&cli, &diff, &a, &b, &md);
    struct gk_json *json = gk_diff_json(&diff, &a, &b);
    assert_int_equal(gk_json_pretty(json, &pretty, &err), GK_OK);
    gk_buf_putc(&pretty, '\n');
    check_golden("golden.txt", &text);
    check_golden("golden.md", &md);
    check_golden("golden.json", &pretty);
    assert_int_equal(diff.regressed, 3);
    gk_json_free(json);
    gk_diff_fini(&diff);
    /* The other way round nothing is lost either: what was new is gone. */
    assert_int_equal(gk_diff_make(&b, &a, &diff, &err), GK_OK);
    assert_int_equal(diff.counts[GK_DIFF_NEW], 1 + 5);
    assert_int_equal(diff.counts[GK_DIFF_GONE], 1);
    assert_int_equal(diff.counts[GK_DIFF_NOT_RUN], 0);
    gk_diff_fini(&diff);
    /* With itself everything is the same. */
    assert_int_equal(gk_diff_make(&a, &a, &diff, &err), GK_OK);
    assert_int_equal(diff.counts[GK_DIFF_SAME], diff.count);
    gk_diff_fini(&diff);
    gk_diff_side_fini(&a);
    gk_diff_side_fini(&b);
    gk_catalog_destroy(cli.owned_catalog);
    gk_buf_fini(&text);
    gk_buf_fini(&md);
    gk_buf_fini(&pretty);
}

/* ------------------------------------------------------------------ what is refused */

static const char ROW[] =
    "{\"op\":\"gemm\",\"problem\":\"gemm{\\\"M\\\":%d}\",\"arch\":\"sm_90a\",\"gpu\":\"h200\","
    "\"policy\":\"cold-graph\",\"template\":\"t\",\"template_hash\":\"%064d\",\"config\":"
    "\"t{\\\"B\\\":1}\",\"config_id\":\"%064d\",\"kind\":\"tuned\",\"time_ns\":%s,\"margin\":%s,"
    "\"noise_floor\":0.01,\"modelled\":false,\"nvrtc\":\"13.0\"%s}";
static const char FILE_HEAD[] = "{\"op\":\"gemm\",\"arch\":\"sm_90a\",\"target\":\"sm_90a\","
                                "\"policy\":\"cold-graph\",\"modelled\":false,\"store\":\"x\","
                                "\"rows\":[";

static enum gk_status evidence(const char *rows, struct gk_diff_side *side, struct gk_diag *diag)
{
    char *text = gk_asprintf("%s%s]}", FILE_HEAD, rows);
    gk_diag_init(diag);
    enum gk_status status = gk_diff_evidence(text, strlen(text), "e", side, diag);
    free(text);
    return status;
}

static void test_refused(void **state)
{
    static const struct {
        const char *time, *margin, *more, *wanted;
    } cases[] = {
        {"0", "0.01", "", "\"time_ns\" is 0; allowed is a time"},
        {"-1.0", "0.01", "", "\"time_ns\" is -1.0"},
        {"1e300", "0.01", "", "\"time_ns\" is 1e+300"},
        {"\"1\"", "0.01", "", "\"time_ns\" is \"1\""},
        {"true", "0.01", "", "\"time_ns\" is true"},
        {"1.0", "-0.5", "", "\"margin\" is -0.5"},
        {"1.0", "null", "", "\"margin\" is null"},
        {"1.0", "0.01", ",\"default_ns\":0", "\"default_ns\" is 0"},
        {"1.0", "0.01", ",\"regime\":\"calm\"", "\"regime\" is \"calm\"; allowed are burst"},
        {"1.0", "0.01", ",\"marks\":[\"green\"]", "mark \"green\" is not known"},
        {"1.0", "0.01", ",\"ties\":[{\"config\":\"x\"}]", "tie 0 is"},
        {"1.0", "0.01", ",\"conditions\":{\"sm_clock_khz\":[2,1]}", "\"conditions\" is no object"},
        {"1.0", "0.01", ",\"conditions\":[]", "\"conditions\" is no object"},
        {"1.0", "0.01", ",\"driver\":7", "\"driver\" is 7"},
    };
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_diff_side side = {0};
        struct gk_diag diag;
        char *row = gk_asprintf(ROW, 1, 0, 0, cases[i].time, cases[i].margin, cases[i].more);
        assert_int_equal(evidence(row, &side, &diag), GK_INPUT);
        if (diag.count != 1 || !strstr(diag.texts[0], cases[i].wanted) ||
            strncmp(diag.texts[0], "e: row 0: ", 10) != 0) {
            fail_msg("wanted '%s', it says '%s'", cases[i].wanted, diag.texts[0]);
        }
        assert_int_equal(side.count, 0);
        gk_diag_fini(&diag);
        gk_diff_side_fini(&side);
        free(row);
    }
}

static void test_refused_files(void **state)
{
    struct gk_diff_side side = {0};
    struct gk_diag diag;
    (void)state;
    char *good = gk_asprintf(ROW, 1, 0, 0, "1.0", "0.01", ""),
         *other = gk_asprintf(ROW, 2, 0, 0, "1.0", "0.01", ",\"stale\":true"),
         *twice = gk_asprintf("%s,%s,%s,{}", good, other, good);
    assert_int_equal(evidence(twice, &side, &diag), GK_INPUT);
    assert_int_equal(side.count, 2);
    assert_non_null(strstr(diag.texts[0], "row 2: problem gemm{\"M\":1} on gpu h200 stands twice"));
    assert_non_null(strstr(diag.texts[1], "row 3: \"problem\" is missing"));
    assert_true(diag.count > 10); /* all that is missing, at once */
    gk_diag_fini(&diag);
    /* Another store beside the first is no side. */
    gk_diag_init(&diag);
    static const char mixed[] =
        "{\"op\":\"norm\",\"arch\":\"a\",\"target\":\"a\",\"policy\":\"warm\","
        "\"modelled\":true,\"store\":\"y\",\"rows\":[]}";
    assert_int_equal(gk_diff_evidence(mixed, strlen(mixed), "m", &side, &diag), GK_INPUT);
    assert_non_null(strstr(diag.texts[0], "is of store 'y', the files beside it of 'x'"));
    gk_diag_fini(&diag);
    /* Rows of another op than their file's. */
    gk_diag_init(&diag);
    char *text = gk_asprintf("{\"op\":\"norm\",\"arch\":\"sm_90a\",\"target\":\"a\",\"policy\":"
                             "\"cold-graph\",\"modelled\":true,\"store\":\"x\",\"rows\":[%s]}",
                             good);
    assert_int_equal(gk_diff_evidence(text, strlen(text), "m", &side, &diag), GK_INPUT);
    assert_non_null(strstr(diag.texts[0], "\"op\" is \"gemm\", that of its file \"norm\""));
    gk_diag_fini(&diag);
    /* Half a file. */
    gk_diag_init(&diag);
    assert_int_not_equal(gk_diff_evidence(text, strlen(text) / 2, "half", &side, &diag), GK_OK);
    gk_diag_fini(&diag);
    static const char *const jobs[] = {
        "{}", "{\"version\":2,\"jobs\":[]}", "{\"version\":1,\"jobs\":[7]}",
        "{\"version\":1,\"jobs\":[{\"job\":1,\"policy\":\"warm\",\"tasks\":[{\"problem\":\"x{}\","
        "\"arch\":\"a\",\"state\":\"asleep\"}]}]}",
        "{\"version\":1,\"jobs\":[{\"job\":1,\"policy\":\"warm\",\"tasks\":[{\"problem\":\"x{}\","
        "\"arch\":\"a\",\"state\":\"failed\",\"not_run\":\"tired\"}]}]}"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(jobs); i++) {
        gk_diag_init(&diag);
        assert_int_equal(gk_diff_jobs(jobs[i], strlen(jobs[i]), "j", &side, &diag), GK_INPUT);
        gk_diag_fini(&diag);
    }
    gk_diff_side_fini(&side);
    free(text);
    free(good);
    free(other);
    free(twice);
}

static void put(const char *folder, const char *name, const char *text)
{
    char *path = gk_asprintf("%s/%s", folder, name);
    assert_int_equal(gk_file_store(path, text, strlen(text), NULL), GK_OK);
    free(path);
}

/* A folder whose checksums do not fit, or that has none, is no export. */
static void test_checksums(void **state)
{
    char folder[] = "/tmp/gk-test-diff-XXXXXX", hex[GK_HASH_TEXT_SIZE];
    static const char *const names[] = {"gk_x_a.evidence.json", "CHECKSUMS"};
    struct gk_diff_side side = {0};
    struct gk_diag diag;
    (void)state;
    assert_non_null(mkdtemp(folder));
    char *text = gk_asprintf("%s]}", FILE_HEAD);
    struct gk_hash hash = gk_hash_text(text);
    gk_hash_hex(&hash, hex);
    put(folder, names[0], text);
    gk_diag_init(&diag);
    assert_int_not_equal(gk_diff_read(folder, &side, &diag), GK_OK);
    assert_non_null(strstr(diag.texts[0], "an export ends with its CHECKSUMS"));
    gk_diag_fini(&diag);
    char *sums = gk_asprintf("%s  %s\n", hex, names[0]);
    put(folder, names[1], sums);
    gk_diag_init(&diag);
    if (gk_diff_read(folder, &side, &diag) != GK_OK) {
        fail_msg("%s", diag.texts[0]);
    }
    for (size_t i = 0; i < 3; i++) { /* a digit, the name, the file itself */
        size_t at = i == 1 ? 66 : 0;
        sums[at] ^= i < 2 ? 1 : 0;
        put(folder, names[1], sums);
        put(folder, names[0], i < 2 ? text : FILE_HEAD);
        assert_int_equal(gk_diff_read(folder, &side, &diag), GK_CORRUPT);
        sums[at] ^= i < 2 ? 1 : 0;
        put(folder, names[1], sums);
    }
    gk_diag_fini(&diag);
    gk_diff_side_fini(&side);
    free(sums);
    free(text);
    for (size_t i = 0; i < GK_ARRAY_COUNT(names); i++) {
        char *path = gk_asprintf("%s/%s", folder, names[i]);
        assert_int_equal(remove(path), 0);
        free(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

/* ------------------------------------------------------------------ how often it is right */

/* Standard normal, of twelve uniform numbers. */
static double normal(struct gk_prng *prng)
{
    double sum = -6;
    for (int i = 0; i < 12; i++) {
        sum += (double)gk_prng_below(prng, UINT64_C(1) << 52) / 4503599627370496.0;
    }
    return sum;
}

/* Rows whose true times are `ratio` apart, each night's time known to the margin that it states as
 * the half-width of its 95 % interval. */
static double part_called(enum gk_diff_verdict verdict, double ratio, double margin)
{
    struct gk_diff_side a = {0}, b = {0};
    struct gk_diff diff;
    struct gk_prng prng;
    const int rows = 4000;
    gk_prng_init(&prng, 7, 1);
    for (int i = 0; i < rows; i++) {
        char problem[64];
        (void)snprintf(problem, sizeof problem, "gemm{\"M\":%06d}", i);
        for (int night = 0; night < 2; night++) {
            double ns = 1000 * (night ? ratio : 1) * (1 + margin / 1.96 * normal(&prng));
            struct gk_json *pick = gk_json_new_object();
            assert_true(gk_json_set_real(pick, "time_ns", ns) &&
                        gk_json_set_real(pick, "margin", margin) &&
                        gk_json_set_real(pick, "noise_floor", margin));
            assert_int_equal(gk_diff_side_add(night ? &b : &a, problem, "sm_90a", "h200",
                                              "cold-graph", pick, NULL, NULL),
                             GK_OK);
        }
    }
    assert_int_equal(gk_diff_make(&a, &b, &diff, NULL), GK_OK);
    double part = (double)diff.counts[verdict] / rows;
    gk_diff_fini(&diff);
    gk_diff_side_fini(&a);
    gk_diff_side_fini(&b);
    return part;
}

static void test_how_often(void **state)
{
    static const double margins[] = {0.005, 0.01, 0.02};
    (void)state;
    for (size_t i = 0; i < GK_ARRAY_COUNT(margins); i++) {
        double margin = margins[i];
        /* Two runs of the same kernels: at least 99 of 100 rows (docs/DESIGN.md, section 8). */
        assert_true(part_called(GK_DIFF_SAME, 1, margin) >= 0.99);
        /* What is four margins slower is seen nearly always, and never called faster. */
        assert_true(part_called(GK_DIFF_SLOWER, 1 + 4 * margin, margin) >= 0.99);
        assert_true(part_called(GK_DIFF_FASTER, 1 - 4 * margin, margin) >= 0.99);
        assert_true(part_called(GK_DIFF_FASTER, 1 + 4 * margin, margin) <= 0);
    }
    /* Rounds that are too noisy to tell do not say that all is well. */
    assert_true(part_called(GK_DIFF_SAME, 1.08, 0.05) <= 0.3);
}

static int setup(void **state)
{
    (void)state;
    return gk_hash_setup(NULL) == GK_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_golden),        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_refused_files), cmocka_unit_test(test_checksums),
        cmocka_unit_test(test_how_often),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
