/* What people read beside a pick: the vendor's time and the ratio, or why there is none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "cli/listing.h"
#include "cli/winners.h"

static struct gk_json *parse(const char *text)
{
    struct gk_json *json = NULL;
    struct gk_err err = {0};
    if (gk_json_parse(text, strlen(text), "test", &json, &err) != GK_OK) {
        fail_msg("%s", err.text);
    }
    return json;
}

static void expect(const char *pick_text, const char *const *parts)
{
    struct gk_table table;
    struct gk_buf out = {0};
    struct gk_json *pick = parse(pick_text);
    gk_table_init(&table, ">vendor|>x of vendor");
    gk_cell_vendor(&table, pick);
    gk_table_render(&table, &out);
    for (; *parts; parts++) {
        if (!strstr(gk_buf_text(&out), *parts)) {
            fail_msg("'%s' is not in '%s'", *parts, gk_buf_text(&out));
        }
    }
    gk_buf_fini(&out);
    gk_table_fini(&table);
    gk_json_free(pick);
}

static void the_vendor_beside_a_pick(void **state)
{
    (void)state;
    static const char *const timed[] = {"12.50 us", "1.042x +-0.003", NULL};
    static const char *const missing[] = {"no vendor time: libcublasLt.so.13: not found", NULL};
    static const char *const cut[] = {"no vendor time: first", " ...", NULL};
    static const char *const none[] = {"-", NULL};
    expect("{\"vendor\":{\"template\":\"vendor:cublaslt\",\"time_ns\":12500.0,\"of_vendor\":1.0417,"
           "\"of_vendor_low\":1.0387,\"of_vendor_high\":1.0447}}",
           timed);
    expect("{\"vendor\":{\"template\":\"vendor:cublaslt\",\"reason\":\"libcublasLt.so.13: not "
           "found\"}}",
           missing);
    expect("{\"vendor\":{\"template\":\"v\",\"reason\":\"first\\nsecond\"}}", cut);
    expect("{}", none);
}

static void columns_of_a_gpu_appear_where_somebody_fills_them(void **state)
{
    (void)state;
    struct gk_cli cli = {0};
    struct gk_buf out = {0};
    static const char task[] = "[{\"task\":1,\"op\":\"gemm\",\"problem\":\"gemm{\\\"K\\\":1}\","
                               "\"arch\":\"sm_90a\",\"gpu\":\"h200-132sm\",\"state\":\"done\"}]";
    struct gk_winners winners = {
        .job = parse("{\"job\":1,\"rates\":{\"verified\":40,\"failed\":2,\"duplicates\":7,\"cold\":"
                     "42,\"warm\":0,\"search_s\":4.0,\"final_s\":3.0,\"verified_per_s\":10.0,"
                     "\"gpu_busy\":0.625,\"gpu_busy_verify\":0.125,\"gpu_busy_measure\":0.5}}"),
        .tasks = parse(task),
        .picks = parse("[{\"problem\":\"gemm{\\\"K\\\":1}\",\"arch\":\"sm_90a\",\"gpu\":"
                       "\"h200-132sm\",\"kind\":\"tuned\",\"time_ns\":1000.0,\"regime\":"
                       "\"sustained\",\"marks\":[\"near_floor\",\"l2_carried\"],\"vendor\":{"
                       "\"template\":\"v\",\"reason\":\"none here\"}}]")};
    gk_winners_rates(&winners, &out);
    assert_non_null(strstr(gk_buf_text(&out), "40 new in 4.0 s (10.00/s), 2 failed, 7 known"));
    assert_non_null(strstr(gk_buf_text(&out), "42 cold, 0 from the cache"));
    assert_non_null(strstr(gk_buf_text(&out),
                           "GPU busy: 62.5 % (verification 12.5 %, timing 50.0 %); in final "
                           "rounds unknown"));
    gk_buf_reset(&out);
    gk_winners_table(&cli, &winners, &out);
    assert_non_null(strstr(gk_buf_text(&out), "x of vendor"));
    assert_non_null(strstr(gk_buf_text(&out), "no vendor time: none here"));
    assert_non_null(strstr(gk_buf_text(&out), "sustained"));
    assert_non_null(strstr(gk_buf_text(&out), "near_floor, l2_carried"));
    assert_null(strstr(gk_buf_text(&out), "modelled"));
    gk_json_free(winners.picks);
    winners.picks = parse("[]");
    gk_buf_reset(&out);
    gk_winners_table(&cli, &winners, &out);
    assert_null(strstr(gk_buf_text(&out), "x of vendor"));
    assert_null(strstr(gk_buf_text(&out), "regime"));
    assert_null(strstr(gk_buf_text(&out), "marks"));
    gk_winners_fini(&winners);
    gk_buf_fini(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_vendor_beside_a_pick),
        cmocka_unit_test(columns_of_a_gpu_appear_where_somebody_fills_them),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
