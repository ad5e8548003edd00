/* core/shapes: expansion and its limit, ops of rows, merging, CSV, and every message. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>

#include "core/shapes.h"
#include "tests/support/check.h"
#include "tests/support/sample_op.h"

static struct sample_ops ops;

/* Canonical texts joined by ' ', or the messages joined by '|' behind "! ". */
static char *outcome(const char *text, size_t size, bool is_csv, const char *wanted,
                     uint32_t *duplicates_out)
{
    struct gk_shapes shapes = {0};
    struct gk_diag diag;
    struct gk_buf buf = {0};
    gk_diag_init(&diag);
    enum gk_status status =
        gk_shapes_parse(text, size, is_csv, "f", wanted, &ops.lookup, &shapes, &diag);
    if (status != GK_OK) {
        assert_null(shapes.problems);
        assert_true(diag.count > 0);
        gk_buf_puts(&buf, "! ");
        for (uint32_t i = 0; i < diag.kept; i++) {
            gk_buf_printf(&buf, "%s%s", i ? "|" : "", diag.texts[i]);
        }
    }
    for (uint32_t i = 0; i < shapes.count; i++) {
        gk_buf_printf(&buf, "%s%s", i ? " " : "", shapes.problems[i].canonical);
    }
    if (duplicates_out) {
        *duplicates_out = shapes.duplicates;
    }
    gk_shapes_fini(&shapes);
    gk_diag_fini(&diag);
    return gk_buf_detach(&buf);
}

static void assert_outcome(const char *text, bool is_csv, const char *wanted, const char *want)
{
    char *got = outcome(text, strlen(text), is_csv, wanted, NULL);
    assert_string_equal(got, want);
    free(got);
}

#define JSON(text, wanted, want) assert_outcome(text, false, wanted, want)
#define CSV(text, wanted, want)  assert_outcome(text, true, wanted, want)

static void rows_and_products(void **state)
{
    (void)state;
    JSON("{\"op\":\"gemm\",\"shapes\":[{\"M\":1,\"N\":2,\"K\":3}]}", "gemm",
         "gemm{\"K\":3,\"M\":1,\"N\":2}");
    JSON("[{\"M\":1,\"N\":2,\"K\":3}]", "gemm", "gemm{\"K\":3,\"M\":1,\"N\":2}");
    /* The first list of a row, as written, varies slowest. */
    JSON("[{\"N\":[5,6],\"M\":[1,2],\"K\":3}]", "gemm",
         "gemm{\"K\":3,\"M\":1,\"N\":5} gemm{\"K\":3,\"M\":2,\"N\":5} "
         "gemm{\"K\":3,\"M\":1,\"N\":6} gemm{\"K\":3,\"M\":2,\"N\":6}");
    JSON("[{\"M\":1,\"N\":1,\"K\":1,\"bias\":[true,false],\"alpha\":[1,0.5]}]", "gemm",
         "gemm{\"K\":1,\"M\":1,\"N\":1,\"bias\":true} "
         "gemm{\"K\":1,\"M\":1,\"N\":1,\"alpha\":0.5,\"bias\":true} "
         "gemm{\"K\":1,\"M\":1,\"N\":1} gemm{\"K\":1,\"M\":1,\"N\":1,\"alpha\":0.5}");
    /* The list of a per-request field is its value. */
    JSON("[{\"batch\":2,\"kv_len\":[1,2],\"scale\":[1,2]}]", "attn",
         "attn{\"batch\":2,\"kv_len\":{\"each\":[1,2]},\"scale\":1.0} "
         "attn{\"batch\":2,\"kv_len\":{\"each\":[1,2]},\"scale\":2.0}");
}

static void ops_of_rows(void **state)
{
    (void)state;
    JSON("{\"op\":\"attn\",\"shapes\":[{\"batch\":1},{\"op\":\"attn_decode\",\"batch\":2}]}",
         "attention", "attn{\"batch\":1} attn_decode{\"batch\":2}");
    JSON("{\"shapes\":[{\"op\":\"gemm\",\"M\":1,\"N\":1,\"K\":1}]}", NULL,
         "gemm{\"K\":1,\"M\":1,\"N\":1}");
    JSON("{\"shapes\":[{\"batch\":1}]}", NULL,
         "! f: row 1: no op is named; ops: gemm, attn, attn_decode");
    JSON(
        "{\"shapes\":[{\"batch\":1}]}", "attention",
        "! f: row 1: 'attention' is not an op: name one with \"op\"; ops: gemm, attn, attn_decode");
    JSON("{\"op\":\"gem\",\"shapes\":[{},{}]}", "gemm",
         "! f: there is no op 'gem'; ops: gemm, attn, attn_decode");
    JSON("{\"op\":\"gemm\",\"shapes\":[{\"M\":1}]}", "attn",
         "! f: op gemm is not what was asked for, which is attn");
    JSON("[{\"op\":\"attn\",\"batch\":1},{\"op\":\"gemm\",\"M\":1},{\"op\":\"attn_decode\","
         "\"batch\":1}]",
         "attn",
         "! f: row 2: op gemm is not what was asked for, which is attn|"
         "f: row 3: op attn_decode is not what was asked for, which is attn");
    JSON("[{\"op\":1,\"batch\":1}]", "attn", "! f: row 1: \"op\" is 1; a name is needed");
}

static void tops(void **state)
{
    (void)state;
    JSON("{\"op\":\"gemm\",\"shapes\":[{\"M\":1,\"N\":1,\"K\":1}],\"shape\":[],\"x\":1}", "gemm",
         "! f: \"shape\" is not a member of a shapes file; allowed: op, shapes|"
         "f: \"x\" is not a member of a shapes file; allowed: op, shapes");
    JSON("{\"op\":\"gemm\"}", "gemm", "! f: \"shapes\" is missing; a list of rows is needed");
    JSON("{\"op\":7,\"shapes\":{}}", "gemm",
         "! f: \"op\" is 7; a name is needed|f: \"shapes\" is {}; a list of rows is needed");
    JSON("[]", "gemm", "! f: the list of shapes is empty");
    JSON("7", "gemm", "! f: 7 where {\"op\": .., \"shapes\": [..]} or a list of rows is needed");
    JSON("[7,null]", "gemm",
         "! f: row 1: 7 where an object of fields is needed|f: row 2: null where an object of "
         "fields is needed");
    JSON("[{\"M\":1,]", "gemm", "! f: line 1, column 9: string or '}' expected near ']'");
    char *got = outcome("[\xff]", 3, false, "gemm", NULL);
    assert_string_equal(got, "! f: not UTF-8: byte 0xFF at offset 1");
    free(got);
}

static void all_errors_in_one_pass(void **state)
{
    (void)state;
    JSON("[{\"M\":0,\"N\":1,\"K\":1},{\"M\":1,\"N\":1,\"K\":1},{\"M\":1,\"N\":1,\"K\":1,\"dtype\":"
         "\"x\",\"q\":1}]",
         "gemm",
         "! f: row 1: field M is 0; allowed: an integer from 1 to 1099511627776|"
         "f: row 3: gemm has no field 'q'; its fields: M, N, K, batch, dtype, dtype_out, ldc, "
         "alpha, bias, act|"
         "f: row 3: field dtype is \"x\"; allowed: one of \"bf16\", \"f16\", \"e4m3\", \"f32\"");
    /* One wrong value in a product is one message. */
    JSON("[{\"M\":[0,1],\"N\":[1,2,3],\"K\":[1,2]}]", "gemm",
         "! f: row 1: field M is 0; allowed: an integer from 1 to 1099511627776");
    JSON("[{\"M\":[],\"N\":1,\"K\":1}]", "gemm",
         "! f: row 1: field M is an empty list: no value, no problem");
    JSON("[{\"M\":[[1]],\"N\":1,\"K\":1}]", "gemm",
         "! f: row 1: field M is [1]; allowed: an integer from 1 to 1099511627776");
}

static void list_of(struct gk_buf *buf, int count)
{
    for (int i = 1; i <= count; i++) {
        gk_buf_printf(buf, "%s%d", i > 1 ? "," : "[", i);
    }
    gk_buf_putc(buf, ']');
}

static char *grid(int m, int n, int k, int rows)
{
    struct gk_buf buf = {0};
    for (int row = 0; row < rows; row++) {
        gk_buf_puts(&buf, row ? ",{\"M\":" : "[{\"M\":");
        list_of(&buf, m);
        gk_buf_puts(&buf, ",\"N\":");
        list_of(&buf, n);
        gk_buf_puts(&buf, ",\"K\":");
        list_of(&buf, k);
        gk_buf_putc(&buf, '}');
    }
    gk_buf_putc(&buf, ']');
    return gk_buf_detach(&buf);
}

static void too_many_are_refused_before_they_are_made(void **state)
{
    (void)state;
    char *text = grid(100, 100, 100, 1);
    JSON(text, "gemm", "! f: row 1: expands to 1,000,000 problems; at most 10,000 are allowed");
    free(text);
    text = grid(100, 60, 1, 2);
    JSON(text, "gemm",
         "! f: row 2: its 6,000 problems come after 6,000; at most 10,000 are allowed in one file");
    free(text);
    /* 2000^6 is over 64 bits. */
    struct gk_buf buf = {0};
    static const char *const fields[] = {"M", "N", "K", "batch", "ldc", "alpha", "bias"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(fields); i++) {
        gk_buf_printf(&buf, "%s\"%s\":", i ? "," : "[{", fields[i]);
        list_of(&buf, 2000);
    }
    gk_buf_puts(&buf, "}]");
    JSON(gk_buf_text(&buf), "gemm",
         "! f: row 1: expands to more than 18,446,744,073,709,551,615 problems; at most 10,000 are "
         "allowed");
    gk_buf_reset(&buf);
    for (int i = 0; i <= GK_PROBLEMS_MAX; i++) {
        gk_buf_puts(&buf, i ? ",{}" : "[{}");
    }
    gk_buf_putc(&buf, ']');
    JSON(gk_buf_text(&buf), "gemm", "! f: 10001 rows; at most 10000 problems are allowed");
    gk_buf_fini(&buf);
}

static void equal_problems_merge(void **state)
{
    (void)state;
    uint32_t duplicates = 0;
    const char *text =
        "[{\"M\":[1,2,1],\"N\":1,\"K\":1},{\"M\":2,\"N\":1,\"K\":1,\"dtype\":\"bf16\",\"ldc\":1},"
        "{\"M\":3,\"N\":1,\"K\":1}]";
    char *got = outcome(text, strlen(text), false, "gemm", &duplicates);
    assert_string_equal(got, "gemm{\"K\":1,\"M\":1,\"N\":1} gemm{\"K\":1,\"M\":2,\"N\":1} "
                             "gemm{\"K\":1,\"M\":3,\"N\":1}");
    assert_int_equal(duplicates, 2);
    free(got);
    /* The most there may be, all different, then twice. */
    struct gk_shapes shapes;
    struct gk_diag diag;
    gk_diag_init(&diag);
    char *most = grid(100, 100, 1, 1);
    assert_int_equal(
        gk_shapes_parse(most, strlen(most), false, "f", "gemm", &ops.lookup, &shapes, &diag),
        GK_OK);
    assert_int_equal(shapes.count, 10000);
    assert_int_equal(shapes.duplicates, 0);
    gk_shapes_fini(&shapes);
    free(most);
    most = grid(50, 50, 1, 4);
    assert_int_equal(
        gk_shapes_parse(most, strlen(most), false, "f", "gemm", &ops.lookup, &shapes, &diag),
        GK_OK);
    assert_int_equal(shapes.count, 2500);
    assert_int_equal(shapes.duplicates, 7500);
    gk_shapes_fini(&shapes);
    gk_shapes_fini(NULL);
    free(most);
    gk_diag_fini(&diag);
}

static void csv_lines(void **state)
{
    (void)state;
    CSV("M,N,K\n1,2,3\n4,5,6\n", "gemm",
        "gemm{\"K\":3,\"M\":1,\"N\":2} gemm{\"K\":6,\"M\":4,\"N\":5}");
    CSV("\xEF\xBB\xBFM, N,K ,dtype,bias,alpha\r\n1,2, 3 ,f16,true,0.5\r\n\r\n1,2,3,,,", "gemm",
        "gemm{\"K\":3,\"M\":1,\"N\":2,\"alpha\":0.5,\"bias\":true,\"dtype\":\"f16\"} "
        "gemm{\"K\":3,\"M\":1,\"N\":2}");
    CSV("op,batch,kv_len\nattn,2,\"{\"\"each\"\": [1,\n2]}\"\nattn_decode,1,[7]\n,3,\n", "attn",
        "! f: line 4: op attn_decode is not what was asked for, which is attn");
    CSV("op,batch,kv_len\nattn,2,\"{\"\"each\"\": [1,\n2]}\"\n,3,\n", "attn",
        "attn{\"batch\":2,\"kv_len\":{\"each\":[1,2]}} attn{\"batch\":3}");
    CSV("\"M\",\"N\",\"K\"\n\"1\",\"2\",\"3\"", "gemm", "gemm{\"K\":3,\"M\":1,\"N\":2}");
    CSV("M,N,K\n1,2,3\n1,2,3\n", "gemm", "gemm{\"K\":3,\"M\":1,\"N\":2}");
}

static void csv_mistakes(void **state)
{
    (void)state;
    CSV("", "gemm", "! f: a header line of field names is needed");
    CSV("\n\n", "gemm", "! f: a header line of field names is needed");
    CSV("M,N,K\n", "gemm", "! f: there is a header line and no problem after it");
    CSV("M,N,,M\n1,2,3,4\n", "gemm",
        "! f: line 1: column 3 is '', not a field name|f: line 1: column M is there twice");
    CSV("M,N,k\n1,2,3\n", "gemm",
        "! f: line 1: gemm has no field 'k'; its fields: M, N, K, batch, dtype, dtype_out, ldc, "
        "alpha, bias, act");
    CSV("M,N,K\n1,2\n1,2,3,4\nx,2,3\n1.5,[1],3\n", "gemm",
        "! f: line 2: 2 cells where the header has 3 columns|f: line 3: 4 cells where the header "
        "has 3 columns|"
        "f: line 4: field M is \"x\"; allowed: an integer from 1 to 1099511627776|"
        "f: line 5: field M is 1.5; allowed: an integer from 1 to 1099511627776|"
        "f: line 5: field N is [1]; allowed: an integer from 1 to 1099511627776");
    CSV("M,N,K\n\"1\n,2,3\n", "gemm", "! f: line 2: the closing quote of a cell is missing");
    CSV("M,N,K\n\"1\"x,2,3\n", "gemm",
        "! f: line 2: text after a closing quote; a comma is needed");
    CSV("M,N,K\n1\",2,3\n", "gemm",
        "! f: line 2: a quote inside a cell that does not begin with one");
    CSV("M,N,K\n1,2,3\n", "attention",
        "! f: 'attention' is not an op: name one with \"op\"; ops: gemm, attn, attn_decode");
    char *got = outcome("M\0N", 3, true, "gemm", NULL);
    assert_string_equal(got, "! f: a NUL byte at offset 1");
    free(got);
    CSV("M,\xC3N", "gemm", "! f: not UTF-8: byte 0xC3 at offset 2");
    struct gk_buf buf = {0};
    for (int i = 0; i <= GK_FIELDS_MAX + 1; i++) {
        gk_buf_printf(&buf, "%sc%d", i ? "," : "", i);
    }
    CSV(gk_buf_text(&buf), "gemm", "! f: line 1: more cells than an op has fields");
    gk_buf_reset(&buf);
    gk_buf_puts(&buf, "M,N,K\n");
    for (int i = 0; i <= GK_PROBLEMS_MAX; i++) {
        gk_buf_puts(&buf, "1,1,1\n");
    }
    CSV(gk_buf_text(&buf), "gemm", "! f: more than 10000 problems");
    gk_buf_fini(&buf);
}

static void assert_load(const char *path, const char *want)
{
    struct gk_shapes shapes = {0};
    struct gk_diag diag;
    gk_diag_init(&diag);
    assert_int_not_equal(gk_shapes_load(path, "gemm", &ops.lookup, &shapes, &diag), GK_OK);
    assert_int_equal(diag.count, 1);
    assert_string_equal(diag.texts[0], want);
    gk_diag_fini(&diag);
}

static void files(void **state)
{
    (void)state;
    struct gk_err err;
    struct gk_shapes shapes;
    struct gk_diag diag;
    gk_diag_init(&diag);
    assert_load("none.json", "none.json: no such file");
    assert_load(".", ".: is a directory, a regular file is needed");
    assert_int_equal(mkfifo("test_shapes.fifo", 0600), 0);
    assert_load("test_shapes.fifo", "test_shapes.fifo: is a FIFO, a regular file is needed");
    unlink("test_shapes.fifo");
    assert_int_equal(close(creat("test_shapes.big", 0600)), 0);
    assert_int_equal(truncate("test_shapes.big", 1 << 30), 0);
    assert_load("test_shapes.big",
                "test_shapes.big: has 1073741824 bytes, at most 16777216 are read");
    unlink("test_shapes.big");
    char deep[200];
    memset(deep, '[', sizeof deep);
    assert_ok(gk_file_store("test_shapes.json", deep, sizeof deep, &err), err);
    assert_load("test_shapes.json",
                "test_shapes.json: line 1, column 65: nested deeper than 64 levels");
    unlink("test_shapes.json");
    assert_ok(gk_file_store("test_shapes.CSV", "M,N,K\n1,1,1\n", 12, &err), err);
    assert_int_equal(gk_shapes_load("test_shapes.CSV", "gemm", &ops.lookup, &shapes, &diag), GK_OK);
    assert_int_equal(shapes.count, 1);
    gk_shapes_fini(&shapes);
    unlink("test_shapes.CSV");
    gk_diag_fini(&diag);
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
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_products),
        cmocka_unit_test(ops_of_rows),
        cmocka_unit_test(tops),
        cmocka_unit_test(all_errors_in_one_pass),
        cmocka_unit_test(too_many_are_refused_before_they_are_made),
        cmocka_unit_test(equal_problems_merge),
        cmocka_unit_test(csv_lines),
        cmocka_unit_test(csv_mistakes),
        cmocka_unit_test(files),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
