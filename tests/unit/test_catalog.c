/*
 * The catalog over fixtures: good folders, broken files against golden messages, identity, bundles,
 * targets.
 *
 * GK_UPDATE_GOLDEN=1 in the environment rewrites the expected messages; read the difference before
 * it is committed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>
#include <dirent.h>
#include <ftw.h>
#include <sys/stat.h>
#include <unistd.h>

#include "kernels/catalog.h"
#include "tests/support/check.h"

#define DATA GK_SOURCE_DIR "/tests/data/kernels/"

static struct gk_catalog *load(const char *root, const char *what)
{
    struct gk_catalog *catalog = NULL;
    struct gk_diag diag;
    gk_diag_init(&diag);
    enum gk_status status = what ? gk_catalog_load_for(root, what, &catalog, &diag)
                                 : gk_catalog_load(root, &catalog, &diag);
    for (uint32_t i = 0; i < diag.kept; i++) {
        print_error("%s\n", diag.texts[i]);
    }
    assert_int_equal(status, GK_OK);
    assert_int_equal(diag.count, 0);
    gk_diag_fini(&diag);
    return catalog;
}

/* ------------------------------------------------------------------ broken files */

/* The messages, one a line, without the folder of this machine. */
static char *messages_of(const char *root, const char *what)
{
    struct gk_catalog *catalog = NULL;
    struct gk_diag diag;
    struct gk_buf buf = {0};
    gk_diag_init(&diag);
    enum gk_status status = gk_catalog_load_for(root, what, &catalog, &diag);
    assert_null(catalog);
    assert_int_not_equal(status, GK_OK);
    for (uint32_t i = 0; i < diag.kept; i++) {
        for (const char *at = diag.texts[i]; *at;) {
            if (strncmp(at, DATA, strlen(DATA)) == 0) {
                at += strlen(DATA);
            } else {
                gk_buf_putc(&buf, *at++);
            }
        }
        gk_buf_putc(&buf, '\n');
    }
    assert_int_equal(gk_buf_status(&buf, NULL), GK_OK);
    gk_diag_fini(&diag);
    char *text = gk_buf_detach(&buf);
    assert_non_null(text);
    return text;
}

static uint32_t check_golden(const char *what, const char *expected_path)
{
    char *got = messages_of(DATA "toy", what), *want = NULL;
    size_t size = 0;
    struct gk_err err = {0};
    uint32_t bad = 0;
    if (getenv("GK_UPDATE_GOLDEN")) {
        assert_ok(gk_file_store(expected_path, got, strlen(got), &err), err);
    }
    assert_ok(gk_file_load(expected_path, 1 << 20, &want, &size, &err), err);
    if (strcmp(got, want) != 0) {
        print_error("%s: got\n%s\nwanted\n%s\n", what, got, want);
        bad = 1;
    }
    free(got);
    free(want);
    return bad;
}

static void broken_files_tell_all_their_mistakes(void **state)
{
    (void)state;
    DIR *dir = opendir(DATA "broken");
    assert_non_null(dir);
    uint32_t cases = 0, bad = 0;
    for (struct dirent *entry = NULL; (entry = readdir(dir));) {
        char what[512], expected[512];
        struct stat info;
        static const char suffix[] = ".kernel.json";
        size_t size = strlen(entry->d_name), tail = sizeof suffix - 1;
        (void)snprintf(what, sizeof what, "%sbroken/%.200s", DATA, entry->d_name);
        assert_int_equal(stat(what, &info), 0);
        if (S_ISDIR(info.st_mode) && entry->d_name[0] != '.') {
            (void)snprintf(expected, sizeof expected, "%sbroken/%.200s/expected.txt", DATA,
                           entry->d_name);
            (void)snprintf(what, sizeof what, "%sbroken/%.200s/scale_plain.kernel.json", DATA,
                           entry->d_name);
        } else if (size > tail && strcmp(entry->d_name + size - tail, suffix) == 0) {
            (void)snprintf(expected, sizeof expected, "%sbroken/%.*s.expected.txt", DATA,
                           (int)(size - tail), entry->d_name);
        } else {
            continue;
        }
        cases++;
        bad += check_golden(what, expected);
    }
    closedir(dir);
    assert_true(cases > 25);
    assert_int_equal(bad, 0);
}

static void unknown_ops_are_named(void **state)
{
    (void)state;
    char *text = messages_of(DATA "toy", "gemmm");
    assert_contains(text,
                    "\"gemmm\" is no op, no family and no *.kernel.json file; ops of toy: scale");
    free(text);
    text = messages_of(DATA "nowhere", "gemm");
    assert_contains(text, "nowhere");
    free(text);
    text = messages_of(DATA "toy", DATA "nowhere.kernel.json");
    assert_contains(text, "nowhere.kernel.json");
    free(text);
}

/* ------------------------------------------------------------------ good folders */

static void families_and_users_load(void **state)
{
    (void)state;
    struct gk_catalog *catalog = load(DATA "ops", "attention");
    const struct gk_op *op = gk_catalog_find(catalog, "attention_decode");
    assert_non_null(op);
    assert_string_equal(op->fields.family, "attention");
    assert_null(gk_catalog_find(catalog, "attention"));
    assert_int_equal(op->default_count, 1); /* the other template is listed and absent */
    struct gk_op_lookup lookup = gk_catalog_lookup(catalog);
    assert_ptr_equal(lookup.find(lookup.context, "attention_decode"), &op->fields);
    assert_null(lookup.find(lookup.context, "gemm"));
    assert_string_equal(lookup.names(lookup.context), "attention_decode");
    gk_catalog_destroy(catalog);

    catalog = load(GK_SOURCE_DIR "/kernels", DATA "hopper_gemm/gemm_tma.kernel.json");
    op = gk_catalog_find(catalog, "gemm");
    assert_non_null(op);
    assert_int_equal(op->template_count, 1);
    assert_string_equal(op->templates[0].name, "gemm_tma");
    gk_catalog_destroy(catalog);
}

/* The first page of "bring your kernel" must always load. */
static void the_example_loads(void **state)
{
    (void)state;
    struct gk_catalog *catalog =
        load(GK_SOURCE_DIR "/kernels", GK_SOURCE_DIR "/examples/vector_add/vector_add.kernel.json");
    assert_non_null(gk_catalog_find(catalog, "vector_add"));
    gk_catalog_destroy(catalog);
}

static void targets_match(void **state)
{
    (void)state;
    char *newer[] = {(char *)(uintptr_t) "sm_80+"}, *exact[] = {(char *)(uintptr_t) "sm_90a"};
    struct gk_template t = {.archs = newer, .arch_count = 1};
    assert_true(gk_template_runs_on(&t, "sm_80"));
    assert_true(gk_template_runs_on(&t, "sm_90a"));
    assert_true(gk_template_runs_on(&t, "sm_120"));
    assert_false(gk_template_runs_on(&t, "sm_75"));
    assert_false(gk_template_runs_on(&t, "nonsense"));
    t.archs = exact;
    assert_true(gk_template_runs_on(&t, "sm_90a"));
    assert_false(gk_template_runs_on(&t, "sm_90"));
    assert_false(gk_template_runs_on(&t, "sm_100a"));
}

static int remove_one(const char *path, const struct stat *info, int kind, struct FTW *place)
{
    (void)info, (void)kind, (void)place;
    return remove(path);
}

static void remove_folder(const char *path)
{
    assert_int_equal(nftw(path, remove_one, 8, FTW_DEPTH | FTW_PHYS), 0);
}

/* ------------------------------------------------------------------ bundles */

static void make_folders(char *path)
{
    for (char *slash = strchr(path + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
        *slash = '\0';
        (void)mkdir(path, 0700); /* there already: fine */
        *slash = '/';
    }
}

static void unpack(const struct gk_catalog *catalog, const struct gk_bundle *bundle,
                   const char *folder)
{
    for (uint32_t i = 0; i < bundle->count; i++) {
        char path[1024], *text = NULL;
        size_t size = 0;
        struct gk_err err = {0};
        (void)snprintf(path, sizeof path, "%s/%s", folder, bundle->files[i].path);
        make_folders(path);
        assert_ok(gk_catalog_file(catalog, bundle->files[i].path, &text, &size, &err), err);
        assert_int_equal(size, bundle->files[i].size);
        struct gk_hash hash = gk_hash_bytes(text, size);
        assert_true(gk_hash_equal(&hash, &bundle->files[i].hash));
        assert_ok(gk_file_store(path, text, size, &err), err);
        free(text);
    }
}

static void check_unpacked(const char *root, const char *what, const char *op, const char *folder)
{
    struct gk_catalog *catalog = load(root, what);
    struct gk_bundle bundle = {0}, again = {0}, read = {0};
    struct gk_err err = {0};
    assert_ok(gk_catalog_bundle(catalog, &bundle, &err), err);
    unpack(catalog, &bundle, folder);
    struct gk_catalog *copy = load(folder, NULL);
    assert_ok(gk_catalog_bundle(copy, &again, &err), err);
    assert_int_equal(again.count, bundle.count);
    assert_true(gk_hash_equal(&again.id, &bundle.id));
    const struct gk_op *x = gk_catalog_find(catalog, op), *y = gk_catalog_find(copy, op);
    assert_non_null(x);
    assert_non_null(y);
    assert_int_equal(x->template_count, y->template_count);
    for (uint32_t i = 0; i < x->template_count; i++) {
        assert_string_equal(x->templates[i].name, y->templates[i].name);
        assert_true(gk_hash_equal(&x->templates[i].hash, &y->templates[i].hash));
        assert_string_equal(x->templates[i].launches[0].source, y->templates[i].launches[0].source);
    }
    struct gk_json *json = gk_bundle_to_json(&bundle);
    assert_ok(gk_bundle_from_json(json, &read, &err), err);
    assert_true(gk_hash_equal(&read.id, &bundle.id));
    gk_json_free(json);
    gk_bundle_fini(&read);
    gk_bundle_fini(&again);
    gk_bundle_fini(&bundle);
    gk_catalog_destroy(copy);
    gk_catalog_destroy(catalog);
}

static void unpacked_bundles_load_to_the_same(void **state)
{
    (void)state;
    char folder[] = "catalog_bundle_XXXXXX", path[64];
    assert_non_null(mkdtemp(folder));
    (void)snprintf(path, sizeof path, "%s/family", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    check_unpacked(DATA "ops", "attention", "attention_decode", path);
    (void)snprintf(path, sizeof path, "%s/user", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    check_unpacked(DATA "toy", DATA "toy/scale/scale_plain.kernel.json", "scale", path);
    (void)snprintf(path, sizeof path, "%s/whole", folder);
    assert_int_equal(mkdir(path, 0700), 0);
    check_unpacked(GK_SOURCE_DIR "/kernels", NULL, "gemm", path);
    remove_folder(folder);
}

static void hostile_bundles_are_refused(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{}", "\"files\" is missing"},
        {"{\"files\":[],\"id\":\"\"}", "0 files; 1 to"},
        {"{\"files\":[{\"path\":\"../x\",\"hash\":\"0\",\"size\":1}],\"id\":\"\"}",
         "\"../x\" is no path"},
        {"{\"files\":[{\"path\":\"/x\",\"hash\":\"0\",\"size\":1}],\"id\":\"\"}",
         "\"/x\" is no path"},
        {"{\"files\":[{\"path\":\"a//x\",\"hash\":\"0\",\"size\":1}],\"id\":\"\"}", "is no path"},
        {"{\"files\":[{\"path\":\"x\",\"hash\":\"0\",\"size\":1}],\"id\":\"\"}",
         "\"0\" is no hash"},
        {"{\"files\":[{\"path\":\"x\",\"hash\":\"0\",\"size\":-1}],\"id\":\"\"}", "\"size\" is -1"},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_json *json = NULL;
        struct gk_bundle bundle = {0};
        struct gk_err err = {0};
        assert_ok(gk_json_parse(cases[i].text, strlen(cases[i].text), "bundle", &json, &err), err);
        assert_int_not_equal(gk_bundle_from_json(json, &bundle, &err), GK_OK);
        assert_contains(err.text, cases[i].message);
        assert_null(bundle.files);
        gk_json_free(json);
    }
}

/* ------------------------------------------------------------------ identity */

/* The hash of the toy template with one file of its folder changed. */
static struct gk_hash hash_with(const char *folder, const char *file, const char *from,
                                const char *to)
{
    static const char *const files[] = {"op.json", "scale_plain.kernel.json", "scale.cu",
                                        "deep/element.cuh", "reference.cu"};
    struct gk_err err = {0};
    for (size_t i = 0; i < GK_ARRAY_COUNT(files); i++) {
        char path[512], *text = NULL;
        size_t size = 0;
        struct gk_buf buf = {0};
        (void)snprintf(path, sizeof path, DATA "toy/scale/%s", files[i]);
        assert_ok(gk_file_load(path, 1 << 20, &text, &size, &err), err);
        const char *found = strcmp(files[i], file) == 0 ? strstr(text, from) : NULL;
        assert_true(found || strcmp(files[i], file) != 0);
        gk_buf_add(&buf, text, found ? (size_t)(found - text) : size);
        gk_buf_puts(&buf, found ? to : "");
        gk_buf_puts(&buf, found ? found + strlen(from) : "");
        (void)snprintf(path, sizeof path, "%s/scale/%s", folder, files[i]);
        make_folders(path);
        assert_ok(gk_file_store(path, buf.data, buf.size, &err), err);
        gk_buf_fini(&buf);
        free(text);
    }
    struct gk_catalog *catalog = load(folder, NULL);
    struct gk_hash hash = gk_catalog_op(catalog, 0)->templates[0].hash;
    gk_catalog_destroy(catalog);
    return hash;
}

static void identity_is_what_the_page_says(void **state)
{
    (void)state;
    static const struct {
        const char *file, *from, *to;
        bool same;
    } cases[] = {
        {"scale.cu", "// y = a * x", "/* another\n word */\n", true},
        {"scale.cu", "i < n", "i\n<\tn", true},
        {"scale.cu", "i < n", "i \\\n < n", true},
        {"scale.cu", "i < n", "i <= n", false},
        {"scale.cu", "i < n", "i + + 1 < n", false},
        {"deep/element.cuh", "a * x", "x * a", false},
        {"deep/element.cuh", "#pragma once", "// one\n#pragma once", true},
        {"deep/element.cuh", "#pragma once", "#pragma once\n#define A 1\n", false},
        {"reference.cu", "a * x", "x * a", false}, /* "verified" meant something else */
        {"reference.cu", "a * x", "a /* twice */ * x", true},
        {"op.json", "elements: moves", "elements, moves", true},
        {"op.json", "\"op\"", "\"small\": [{\"N\": \"min(N, 5)\"}], \"op\"", true},
        {"scale_plain.kernel.json", "64,", "32, 64,", true},
        {"scale_plain.kernel.json", "less than one block of work", "no work", true},
        {"scale_plain.kernel.json", "\"archs\"", "\"prior\": {\"seconds\": 1.0}, \"archs\"", true},
        {"scale_plain.kernel.json", "N >= each", "N > each", true},
        {"scale_plain.kernel.json", "\"kernel\": \"scale_plain\"",
         "\"doc\": \"x\", \"kernel\": \"scale_plain\"", true},
        {"scale_plain.kernel.json", "THREADS * UNROLL", "UNROLL * THREADS", false},
        {"scale_plain.kernel.json", "\"type\": \"i64\"", "\"type\": \"i32\"", false},
        {"scale_plain.kernel.json", "\"name\": \"KIND\"", "\"name\": \"KIND\", \"macro\": \"KIND\"",
         false},
        {"scale_plain.kernel.json", "\"archs\"", "\"options\": [\"-use_fast_math\"], \"archs\"",
         false},
    };
    char folder[] = "catalog_hash_XXXXXX";
    assert_non_null(mkdtemp(folder));
    struct gk_hash plain = hash_with(folder, "op.json", "", "");
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        struct gk_hash hash = hash_with(folder, cases[i].file, cases[i].from, cases[i].to);
        if (gk_hash_equal(&hash, &plain) != cases[i].same) {
            fail_msg("%s: \"%s\" -> \"%s\": wanted %s", cases[i].file, cases[i].from, cases[i].to,
                     cases[i].same ? "the same hash" : "another hash");
        }
    }
    remove_folder(folder);
}

/* The built-in gemm with and without its "vendor": other bytes travel, nothing is another thing. */
static void a_vendor_changes_no_identity(void **state)
{
    (void)state;
    char folder[] = "catalog_vendor_XXXXXX", path[64], *text = NULL;
    size_t size = 0;
    struct gk_bundle bundle = {0}, other = {0};
    struct gk_err err = {0};
    struct gk_buf buf = {0};
    assert_non_null(mkdtemp(folder));
    struct gk_catalog *catalog = load(GK_SOURCE_DIR "/kernels", "gemm");
    assert_ok(gk_catalog_bundle(catalog, &bundle, &err), err);
    unpack(catalog, &bundle, folder);
    (void)snprintf(path, sizeof path, "%s/gemm/op.json", folder);
    assert_ok(gk_file_load(path, 1 << 20, &text, &size, &err), err);
    const char *from = strstr(text, "\"vendor\""), *to = strstr(text, "\"templates\"");
    assert_true(from && to && from < to);
    gk_buf_add(&buf, text, (size_t)(from - text));
    gk_buf_puts(&buf, to);
    assert_ok(gk_file_store(path, buf.data, buf.size, &err), err);

    struct gk_catalog *bare = load(folder, NULL);
    const struct gk_op *x = gk_catalog_find(catalog, "gemm"), *y = gk_catalog_find(bare, "gemm");
    assert_true(x->vendor.present);
    assert_false(y->vendor.present);
    assert_true(gk_hash_equal(&x->meaning, &y->meaning));
    assert_int_equal(x->template_count, y->template_count);
    for (uint32_t i = 0; i < x->template_count; i++) {
        assert_string_equal(x->templates[i].name, y->templates[i].name);
        assert_true(gk_hash_equal(&x->templates[i].hash, &y->templates[i].hash));
    }
    assert_ok(gk_catalog_bundle(bare, &other, &err), err);
    assert_false(gk_hash_equal(&bundle.id, &other.id));
    gk_bundle_fini(&bundle);
    gk_bundle_fini(&other);
    gk_catalog_destroy(bare);
    gk_catalog_destroy(catalog);
    gk_buf_fini(&buf);
    free(text);
    remove_folder(folder);
}

static int setup(void **state)
{
    (void)state;
    return gk_hash_setup(NULL) == GK_OK ? 0 : -1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(broken_files_tell_all_their_mistakes),
        cmocka_unit_test(unknown_ops_are_named),
        cmocka_unit_test(families_and_users_load),
        cmocka_unit_test(the_example_loads),
        cmocka_unit_test(targets_match),
        cmocka_unit_test(unpacked_bundles_load_to_the_same),
        cmocka_unit_test(hostile_bundles_are_refused),
        cmocka_unit_test(identity_is_what_the_page_says),
        cmocka_unit_test(a_vendor_changes_no_identity),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
