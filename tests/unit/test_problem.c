/* core/problem: fields, defaults, rules, series, canonical text and its stability, labels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/prng.h"
#include "core/problem.h"
#include "tests/support/check.h"
#include "tests/support/sample_op.h"

static struct sample_ops ops;

static struct gk_json *json_of(const char *text)
{
    struct gk_json *json = NULL;
    struct gk_err err;
    assert_ok(gk_json_parse(text, strlen(text), "test", &json, &err), err);
    return json;
}

static struct gk_problem read(const struct gk_op_fields *op, const char *text)
{
    struct gk_json *json = json_of(text);
    struct gk_problem problem = {0};
    struct gk_diag diag;
    gk_diag_init(&diag);
    if (gk_problem_from_json(op, json, "row 1", &problem, &diag) != GK_OK) {
        fail_msg("%s: %s", text, diag.texts[0]);
    }
    gk_diag_fini(&diag);
    gk_json_free(json);
    return problem;
}

static void assert_canonical(const struct gk_op_fields *op, const char *text, const char *want)
{
    struct gk_problem problem = read(op, text), again = {0};
    struct gk_err err;
    assert_string_equal(problem.canonical, want);
    struct gk_hash id = gk_hash_text(want);
    assert_true(gk_hash_equal(&problem.id, &id));
    assert_ok(gk_problem_from_text(op, want, &again, &err), err);
    assert_string_equal(again.canonical, want);
    gk_problem_fini(&problem);
    gk_problem_fini(&again);
}

/* All messages of a row, joined by '|'. */
static void assert_refused(const struct gk_op_fields *op, const char *text, const char *want)
{
    struct gk_json *json = json_of(text);
    struct gk_problem problem = {0};
    struct gk_diag diag;
    struct gk_buf all = {0};
    gk_diag_init(&diag);
    assert_int_not_equal(gk_problem_from_json(op, json, "f: row 3", &problem, &diag), GK_OK);
    assert_null(problem.slots);
    for (uint32_t i = 0; i < diag.kept; i++) {
        gk_buf_printf(&all, "%s%s", i ? "|" : "", diag.texts[i]);
    }
    assert_string_equal(gk_buf_text(&all), want);
    gk_buf_fini(&all);
    gk_diag_fini(&diag);
    gk_json_free(json);
}

static void canonical_leaves_defaults_out(void **state)
{
    (void)state;
    assert_canonical(&ops.gemm, "{\"N\":4096,\"M\":16,\"K\":512}",
                     "gemm{\"K\":512,\"M\":16,\"N\":4096}");
    assert_canonical(
        &ops.gemm,
        "{\"M\":16,\"N\":64,\"K\":512,\"batch\":1,\"dtype\":\"bf16\",\"dtype_out\":\"bf16\","
        "\"ldc\":64,\"alpha\":1,\"bias\":false,\"act\":\"none\"}",
        "gemm{\"K\":512,\"M\":16,\"N\":64}");
    /* A default that is computed is compared as computed. */
    assert_canonical(
        &ops.gemm, "{\"M\":1,\"N\":64,\"K\":1,\"dtype\":\"f16\",\"dtype_out\":\"f16\",\"ldc\":80}",
        "gemm{\"K\":1,\"M\":1,\"N\":64,\"dtype\":\"f16\",\"ldc\":80}");
    assert_canonical(&ops.gemm,
                     "{\"M\":1,\"N\":64,\"K\":1,\"dtype\":\"f16\",\"dtype_out\":\"bf16\"}",
                     "gemm{\"K\":1,\"M\":1,\"N\":64,\"dtype\":\"f16\",\"dtype_out\":\"bf16\"}");
    assert_canonical(&ops.gemm,
                     "{\"M\":1,\"N\":1,\"K\":1,\"alpha\":2,\"bias\":true,\"act\":\"gelu\"}",
                     "gemm{\"K\":1,\"M\":1,\"N\":1,\"act\":\"gelu\",\"alpha\":2.0,\"bias\":true}");
    assert_canonical(&ops.gemm, "{\"M\":1,\"N\":1,\"K\":1,\"alpha\":2.0}",
                     "gemm{\"K\":1,\"M\":1,\"N\":1,\"alpha\":2.0}");
    assert_canonical(&ops.gemm, "{\"M\":1,\"N\":1,\"K\":1,\"alpha\":-0.0}",
                     "gemm{\"K\":1,\"M\":1,\"N\":1,\"alpha\":0.0}");
    assert_canonical(&ops.gemm, "{\"M\":1,\"N\":1,\"K\":1,\"alpha\":0.1}",
                     "gemm{\"K\":1,\"M\":1,\"N\":1,\"alpha\":0.1}");
}

static void slots_are_filled(void **state)
{
    (void)state;
    struct gk_problem p =
        read(&ops.gemm, "{\"M\":3,\"N\":5,\"K\":7,\"batch\":2,\"dtype\":\"f16\"}");
    const struct gk_scope *scope = ops.gemm.scope;
    assert_int_equal(p.slot_count, gk_scope_count(scope));
    assert_int_equal(p.slots[gk_scope_find(scope, "M")->slot].i, 3);
    assert_int_equal(p.slots[gk_scope_find(scope, "dtype")->slot].i, 1);
    assert_int_equal(p.slots[gk_scope_find(scope, "dtype_out")->slot].i, 1);
    assert_int_equal(p.slots[gk_scope_find(scope, "ldc")->slot].i, 5);
    assert_true(p.slots[gk_scope_find(scope, "alpha")->slot].r == 1.0);
    assert_int_equal(p.slots[gk_scope_find(scope, "elements")->slot].i, 2 * 3 * 5);
    gk_problem_fini(&p);
    gk_problem_fini(&p);
    gk_problem_fini(NULL);
}

static void each_mistake_is_told_once(void **state)
{
    (void)state;
    assert_refused(&ops.gemm, "[1]",
                   "f: row 3: [1] where an object of the fields of gemm is needed");
    assert_refused(
        &ops.gemm, "{\"M\":1,\"N\":1,\"K\":1,\"m\":2}",
        "f: row 3: gemm has no field 'm'; its fields: M, N, K, batch, dtype, dtype_out, ldc, "
        "alpha, bias, act");
    /* ldc's default needs N and so stays silent; so does everything after it. */
    assert_refused(&ops.gemm, "{\"M\":0,\"N\":\"x\"}",
                   "f: row 3: field M is 0; allowed: an integer from 1 to 1099511627776|"
                   "f: row 3: field N is \"x\"; allowed: an integer from 1 to 1099511627776|"
                   "f: row 3: field K is missing; allowed: an integer from 1 to 1099511627776");
    assert_refused(
        &ops.gemm,
        "{\"M\":1.0,\"N\":1,\"K\":true,\"dtype\":\"bf17\",\"alpha\":\"1\",\"bias\":1,\"act\":null}",
        "f: row 3: field M is 1.0; allowed: an integer from 1 to 1099511627776|"
        "f: row 3: field K is true; allowed: an integer from 1 to 1099511627776|"
        "f: row 3: field dtype is \"bf17\"; allowed: one of \"bf16\", \"f16\", \"e4m3\", \"f32\"|"
        "f: row 3: field alpha is \"1\"; allowed: a number from -1e+30 to 1e+30|"
        "f: row 3: field bias is 1; allowed: true or false|"
        "f: row 3: field act is null; allowed: one of \"none\", \"gelu\", \"silu\"");
    assert_refused(&ops.gemm, "{\"M\":1,\"N\":1,\"K\":1,\"alpha\":1e31}",
                   "f: row 3: field alpha is 1e+31; allowed: a number from -1e+30 to 1e+30");
    assert_refused(&ops.gemm, "{\"M\":[1,2],\"N\":1,\"K\":1}",
                   "f: row 3: field M is [1,2]; allowed: an integer from 1 to 1099511627776");
}

static void rules_name_themselves(void **state)
{
    (void)state;
    assert_refused(
        &ops.gemm, "{\"M\":4,\"N\":64,\"K\":1,\"ldc\":63}",
        "f: row 3: breaks 'ldc_covers': ldc >= N (ldc = 63, N = 64): a row of C must fit between "
        "two rows");
    assert_refused(
        &ops.gemm, "{\"M\":1099511627776,\"N\":2,\"K\":1,\"ldc\":1}",
        "f: row 3: breaks 'ldc_covers': ldc >= N (ldc = 1, N = 2): a row of C must fit between "
        "two rows");
    assert_refused(&ops.gemm, "{\"M\":1099511627776,\"N\":2,\"K\":1}",
                   "f: row 3: breaks 'fits': elements <= 1 << 40 (elements = 2199023255552)");
    /* A derived name that overflows is told, and the constraint over it stays silent. */
    assert_refused(
        &ops.gemm, "{\"M\":1099511627776,\"N\":1099511627776,\"K\":1}",
        "f: row 3: elements: expression 'batch * M * ldc': integer overflow (64 bits) (batch = 1, "
        "M = 1099511627776, ldc = 1099511627776)");
}

static void series_forms(void **state)
{
    (void)state;
    assert_canonical(&ops.attn, "{\"batch\":2,\"kv_len\":[17,4096]}",
                     "attn{\"batch\":2,\"kv_len\":{\"each\":[17,4096]}}");
    assert_canonical(&ops.attn, "{\"batch\":2,\"kv_len\":{\"each\":[17,4096]}}",
                     "attn{\"batch\":2,\"kv_len\":{\"each\":[17,4096]}}");
    /* The default of a list is one value for every entry, and counts as the default however
     * written. */
    assert_canonical(&ops.attn, "{\"batch\":2}", "attn{\"batch\":2}");
    assert_canonical(&ops.attn, "{\"batch\":2,\"kv_len\":[128,128],\"window\":128,\"marks\":[]}",
                     "attn{\"batch\":2}");
    assert_canonical(&ops.attn, "{\"batch\":2,\"marks\":[1]}",
                     "attn{\"batch\":2,\"marks\":{\"each\":[1]}}");
    assert_canonical(
        &ops.attn, "{\"batch\":2,\"kv_len\":{\"seed\":5,\"min\":0,\"draw\":\"uniform\",\"max\":9}}",
        "attn{\"batch\":2,\"kv_len\":{\"draw\":\"uniform\",\"max\":9,\"min\":0,\"seed\":5}}");
    struct gk_problem p = read(&ops.attn, "{\"batch\":3,\"kv_len\":[5,0,9]}");
    assert_int_equal(p.series[1].count, 3);
    assert_int_equal(p.series[1].values[2], 9);
    assert_int_equal(p.slots[gk_scope_find(ops.attn.scope, "window")->slot].i, 9);
    gk_problem_fini(&p);
    p = read(&ops.attn, "{\"batch\":3}");
    assert_int_equal(p.series[1].count, 3);
    assert_int_equal(p.series[1].values[1], 128);
    assert_int_equal(p.series[2].count, 0);
    gk_problem_fini(&p);
}

static void draws_are_the_same_everywhere(void **state)
{
    (void)state;
    const char *text =
        "{\"batch\":1000,\"kv_len\":{\"draw\":\"uniform\",\"min\":10,\"max\":19,\"seed\":1}}";
    struct gk_problem a = read(&ops.attn, text), b = read(&ops.attn, text), c;
    assert_memory_equal(a.series[1].values, b.series[1].values, 1000 * sizeof(int64_t));
    int counts[10] = {0};
    for (int i = 0; i < 1000; i++) {
        assert_in_range(a.series[1].values[i], 10, 19);
        counts[a.series[1].values[i] - 10]++;
    }
    for (int i = 0; i < 10; i++) {
        assert_in_range(counts[i], 50, 150);
    }
    /* These values are an identity: a release that draws others would make stored problems lie. */
    static const int64_t first[] = {15, 14, 11, 10, 11, 14};
    for (size_t i = 0; i < GK_ARRAY_COUNT(first); i++) {
        assert_int_equal(a.series[1].values[i], first[i]);
    }
    c = read(&ops.attn,
             "{\"batch\":1000,\"kv_len\":{\"draw\":\"uniform\",\"min\":10,\"max\":19,\"seed\":2}}");
    assert_memory_not_equal(a.series[1].values, c.series[1].values, 1000 * sizeof(int64_t));
    gk_problem_fini(&a);
    gk_problem_fini(&b);
    gk_problem_fini(&c);
}

static void series_mistakes(void **state)
{
    (void)state;
    const char *forms =
        "{\"each\": [..]} with integers from 0 to 65536, or {\"draw\": \"uniform\", \"min\": .., "
        "\"max\": .., \"seed\": ..}";
    char want[512];
    assert_refused(&ops.attn, "{\"batch\":2,\"kv_len\":[1]}",
                   "f: row 3: field kv_len has 1 entries; 2 (batch) are needed");
    assert_refused(&ops.attn, "{\"batch\":2,\"kv_len\":[1,-1]}",
                   "f: row 3: field kv_len, entry 1 is -1; allowed: an integer from 0 to 65536");
    assert_refused(&ops.attn, "{\"batch\":1,\"kv_len\":{\"each\":[1.5]}}",
                   "f: row 3: field kv_len, entry 0 is 1.5; allowed: an integer from 0 to 65536");
    static const char *const odd[] = {
        "17",
        "{\"each\":[1],\"x\":1}",
        "{\"each\":1}",
        "{}",
        "{\"draw\":\"normal\"}",
        "{\"draw\":\"uniform\",\"max\":1,\"min\":1,\"seed\":1,\"std\":2}"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(odd); i++) {
        char text[128];
        snprintf(text, sizeof text, "{\"batch\":1,\"kv_len\":%s}", odd[i]);
        struct gk_json *json = json_of(odd[i]);
        char shown[GK_JSON_SHOW_SIZE];
        gk_json_show(json, shown);
        gk_json_free(json);
        snprintf(want, sizeof want, "f: row 3: field kv_len is %s; allowed: %s", shown, forms);
        assert_refused(&ops.attn, text, want);
    }
    assert_refused(&ops.attn,
                   "{\"batch\":1,\"kv_len\":{\"draw\":\"uniform\",\"min\":5,\"max\":4,\"seed\":1}}",
                   "f: row 3: field kv_len: draw: \"max\" is 4; 5 to 65536 is allowed");
    assert_refused(&ops.attn, "{\"batch\":1,\"kv_len\":{\"draw\":\"uniform\",\"min\":0,\"max\":4}}",
                   "f: row 3: field kv_len: draw: \"seed\" is missing; an integer is needed");
    assert_refused(&ops.attn,
                   "{\"batch\":1,\"marks\":{\"draw\":\"uniform\",\"min\":1,\"max\":4,\"seed\":1}}",
                   "f: row 3: field marks: a draw needs a number of entries, and the field "
                   "declares none: give "
                   "{\"each\": [..]}");
    assert_refused(&ops.attn, "{\"batch\":1,\"scale\":\"x\"}",
                   "f: row 3: field scale is \"x\"; allowed: a number");
    /* batch is wrong: nothing is said of what depends on it. */
    assert_refused(&ops.attn, "{\"batch\":0,\"kv_len\":[1]}",
                   "f: row 3: field batch is 0; allowed: an integer from 1 to 1024");
}

static void texts_of_others_are_refused(void **state)
{
    (void)state;
    struct gk_problem p = {0};
    struct gk_err err;
    char op[GK_NAME_MAX];
    assert_status(gk_problem_from_text(&ops.gemm, "attn{\"batch\":1}", &p, &err), GK_INPUT, err);
    assert_string_equal(err.text, "problem 'attn{\"batch\":1}' is of op attn, not of gemm");
    assert_status(gk_problem_from_text(&ops.gemm, "gemm{\"M\":", &p, &err), GK_INPUT, err);
    assert_contains(err.text, "line 1");
    assert_int_equal(err.status, GK_INPUT);
    assert_status(gk_problem_from_text(&ops.gemm, "gemm{\"M\":1}", &p, &err), GK_INPUT, err);
    assert_contains(err.text, "problem: field N is missing");
    assert_contains(err.text, "problem: field K is missing");
    assert_status(gk_problem_op_of("{\"M\":1}", op, &err), GK_INPUT, err);
    assert_status(gk_problem_op_of("gemm", op, &err), GK_INPUT, err);
    assert_status(gk_problem_op_of("ge mm{}", op, &err), GK_INPUT, err);
    assert_status(gk_problem_op_of("../x{}", op, &err), GK_INPUT, err);
    assert_status(gk_problem_op_of("a.b{}", op, &err), GK_INPUT, err);
    assert_ok(gk_problem_op_of("gemm{\"M\":1}", op, &err), err);
    assert_string_equal(op, "gemm");
    assert_null(p.slots);
}

static void all_fields_as_json(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "{\"batch\":2}", "{\"batch\":2,\"kv_len\":[1,2],\"scale\":0.5}",
        "{\"batch\":2,\"kv_len\":{\"draw\":\"uniform\",\"max\":9,\"min\":0,\"seed\":5}}"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(texts); i++) {
        struct gk_problem p = read(&ops.attn, texts[i]), again = {0};
        struct gk_json *json = gk_problem_to_json(&p);
        struct gk_diag diag;
        gk_diag_init(&diag);
        assert_int_equal(gk_json_count(json), ops.attn.field_count);
        assert_int_equal(gk_problem_from_json(&ops.attn, json, "x", &again, &diag), GK_OK);
        assert_string_equal(again.canonical, p.canonical);
        gk_json_free(json);
        gk_problem_fini(&p);
        gk_problem_fini(&again);
        gk_diag_fini(&diag);
    }
    struct gk_problem p = read(&ops.gemm, "{\"M\":1,\"N\":2,\"K\":3}");
    struct gk_json *json = gk_problem_to_json(&p);
    char *text = gk_json_text(json);
    assert_string_equal(
        text, "{\"K\":3,\"M\":1,\"N\":2,\"act\":\"none\",\"alpha\":1.0,\"batch\":1,\"bias\":false,"
              "\"dtype\":\"bf16\",\"dtype_out\":\"bf16\",\"ldc\":2}");
    free(text);
    gk_json_free(json);
    gk_problem_fini(&p);
}

static void labels(void **state)
{
    (void)state;
    char label[64], tiny[12];
    struct gk_problem p =
        read(&ops.gemm, "{\"M\":16,\"N\":4096,\"K\":512,\"dtype\":\"f16\",\"act\":\"gelu\","
                        "\"bias\":true,\"alpha\":0.5}");
    gk_problem_label(&p, label, sizeof label);
    assert_string_equal(label, "M=16 N=4096 K=512 f16 alpha=0.5 bias act=gelu");
    gk_problem_label(&p, tiny, sizeof tiny);
    assert_string_equal(tiny, "M=16 N=4...");
    gk_problem_fini(&p);
    p = read(&ops.attn, "{\"batch\":2,\"kv_len\":[5,9]}");
    gk_problem_label(&p, label, sizeof label);
    assert_string_equal(label, "batch=2 kv_len=2x[5..9]");
    gk_problem_fini(&p);
}

/* Property: order of members and explicit defaults never matter; different values always do. */
static void identity_is_by_value(void **state)
{
    (void)state;
    static const char *const order[] = {"M", "N", "K", "batch", "ldc"};
    struct gk_prng prng;
    gk_prng_init(&prng, 3, 0);
    for (int round = 0; round < 500; round++) {
        int64_t values[5];
        for (int i = 0; i < 5; i++) {
            values[i] = 1 + (int64_t)gk_prng_below(&prng, 3);
        }
        values[4] += values[1];
        struct gk_buf forward = {0}, backward = {0};
        for (int i = 0; i < 5; i++) {
            gk_buf_printf(&forward, "%s\"%s\":%" PRId64, i ? "," : "{", order[i], values[i]);
            gk_buf_printf(&backward, "%s\"%s\":%" PRId64, i ? "," : "{", order[4 - i],
                          values[4 - i]);
        }
        gk_buf_putc(&forward, '}');
        gk_buf_puts(&backward, ",\"dtype\":\"bf16\"}");
        struct gk_problem a = read(&ops.gemm, forward.data), b = read(&ops.gemm, backward.data);
        assert_true(gk_hash_equal(&a.id, &b.id));
        struct gk_json *json = json_of(forward.data);
        assert_true(gk_json_set_int(json, "K", values[2] + 7));
        struct gk_problem c = {0};
        struct gk_diag diag;
        gk_diag_init(&diag);
        assert_int_equal(gk_problem_from_json(&ops.gemm, json, "x", &c, &diag), GK_OK);
        assert_false(gk_hash_equal(&a.id, &c.id));
        gk_json_free(json);
        gk_problem_fini(&a);
        gk_problem_fini(&b);
        gk_problem_fini(&c);
        gk_buf_fini(&forward);
        gk_buf_fini(&backward);
    }
}

static int setup(void **state)
{
    (void)state;
    sample_ops_init(&ops);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    sample_ops_fini(&ops);
    gk_op_fields_fini(NULL);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(canonical_leaves_defaults_out),
        cmocka_unit_test(slots_are_filled),
        cmocka_unit_test(each_mistake_is_told_once),
        cmocka_unit_test(rules_name_themselves),
        cmocka_unit_test(series_forms),
        cmocka_unit_test(draws_are_the_same_everywhere),
        cmocka_unit_test(series_mistakes),
        cmocka_unit_test(texts_of_others_are_refused),
        cmocka_unit_test(all_fields_as_json),
        cmocka_unit_test(labels),
        cmocka_unit_test(identity_is_by_value),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
