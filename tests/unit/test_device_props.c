/* core/device_props: built-in devices, JSON, dev.* slots, occupancy. Writes test_device_props.json,
 * which another case validates against schemas/device.schema.json. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "core/device_props.h"
#include "tests/support/check.h"

static const char *const all[] = {"emu",        "emu:sm_80",  "emu:sm_86", "emu:sm_89",
                                  "emu:sm_90",  "emu:sm_90a", "mock",      "mock:sm_90a",
                                  "emu-sm_90a", "mock-sm_80"};

static struct gk_device_props builtin(const char *device)
{
    struct gk_device_props props;
    struct gk_err err;
    assert_ok(gk_device_props_builtin(device, &props, &err), err);
    return props;
}

static void names(void **state)
{
    (void)state;
    struct gk_device_props props = builtin("emu");
    assert_string_equal(props.device, "emu:sm_80");
    assert_string_equal(props.arch, "emu-sm_80");
    assert_string_equal(props.target, "sm_80");
    assert_string_equal(props.gpu, "emu-8sm");
    assert_string_equal(props.uuid, "");
    assert_true(props.modelled);
    assert_int_equal(props.sms, 8);
    assert_int_equal(props.sm, 80);
    assert_int_equal(props.smem_block_max, 166912);
    assert_int_equal(props.cluster_max, 1);
    assert_int_equal(props.l2_bytes, 4 << 20);
    assert_true(props.work_limit == INT64_C(64000000000));
    props = builtin("mock");
    assert_string_equal(props.device, "mock:sm_80");
    assert_string_equal(props.arch, "mock-sm_80"); /* never passes for another arch */
    assert_string_equal(props.gpu, "mock-8sm");
    assert_true(props.work_limit == INT64_MAX);
    props = builtin("emu-sm_90a"); /* by arch */
    assert_string_equal(props.device, "emu:sm_90a");
    assert_int_equal(props.sm, 90);
    assert_int_equal(props.smem_block_max, 232448);
    assert_int_equal(props.cluster_max, 8);
    assert_int_equal(builtin("emu:sm_86").threads_sm, 1536);
    assert_int_equal(builtin("emu:sm_89").blocks_sm, 24);
}

/* Several of a host: names of their own, the same key. */
static void instances(void **state)
{
    (void)state;
    struct gk_device_props props = builtin("emu:sm_80#12");
    assert_string_equal(props.device, "emu:sm_80#12");
    assert_string_equal(props.arch, "emu-sm_80");
    assert_string_equal(props.gpu, "emu-8sm");
    props = builtin("mock:sm_90a#1@1.03");
    assert_string_equal(props.device, "mock:sm_90a#1@1.03");
    assert_string_equal(props.gpu, builtin("mock:sm_90a").gpu);
    assert_true(gk_device_skew(props.device) == 1.03);
    assert_true(gk_device_skew("mock:sm_90a#1") == 1 && gk_device_skew("cuda:0") == 1);
    assert_true(gk_device_skew("mock:sm_90a@x") == 1);
}

static void unknown_devices_list_the_targets(void **state)
{
    (void)state;
    static const char *const bad[] = {"emu:sm_70",
                                      "emu:",
                                      "cuda:0",
                                      "emulator",
                                      "",
                                      "mock:sm_90b",
                                      "sm_80",
                                      "emu:sm_80#",
                                      "emu:sm_80#1234",
                                      "emu:sm_80#1x",
                                      "emu#1",
                                      "emu-sm_80#1",
                                      "emu:sm_80#1@1.1",
                                      "mock:sm_80#1@",
                                      "mock:sm_80#1@9",
                                      "mock:sm_80#1@1.0.0x",
                                      "mock:#1",
                                      "mock:sm_80sm_80sm_80sm_80sm_80sm_80sm_80"};
    for (size_t i = 0; i < GK_ARRAY_COUNT(bad); i++) {
        struct gk_device_props props = {.sms = 77};
        struct gk_err err;
        assert_status(gk_device_props_builtin(bad[i], &props, &err), GK_UNSUPPORTED, err);
        assert_contains(err.text, "sm_80, sm_86, sm_89, sm_90, sm_90a");
        assert_contains(err.text, bad[i]);
        assert_int_equal(props.sms, 77);
    }
}

static void json_is_exact(void **state)
{
    (void)state;
    struct gk_buf lines = {0};
    struct gk_err err;
    for (size_t i = 0; i < GK_ARRAY_COUNT(all); i++) {
        struct gk_device_props props = builtin(all[i]), back;
        memset(&back, 0xAA, sizeof back);
        struct gk_json *json = gk_device_props_to_json(&props);
        assert_ok(gk_device_props_from_json(json, &back, &err), err);
        struct gk_json *again = gk_device_props_to_json(&back);
        assert_true(gk_json_equal(json, again));
        assert_string_equal(back.name, props.name);
        assert_int_equal(back.work_limit, props.work_limit);
        assert_ok(gk_json_canonical(json, &lines, &err), err);
        gk_buf_putc(&lines, '\n');
        gk_json_free(json);
        gk_json_free(again);
    }
    assert_ok(gk_file_store("test_device_props.jsonl", lines.data, lines.size, &err), err);
    gk_buf_fini(&lines);
}

static void bad_members_are_named(void **state)
{
    (void)state;
    struct gk_device_props props = builtin("emu"), back = {.sms = 77};
    struct gk_json *json = gk_device_props_to_json(&props);
    struct gk_err err;
    assert_true(gk_json_set_int(json, "sms", 0));
    assert_status(gk_device_props_from_json(json, &back, &err), GK_INPUT, err);
    assert_contains(err.text, "device: \"sms\" is 0; 1 to 9223372036854775807 is allowed");
    assert_true(gk_json_set_int(json, "sms", 8));
    assert_true(gk_json_set_string(json, "arch", ""));
    assert_status(gk_device_props_from_json(json, &back, &err), GK_INPUT, err);
    assert_string_equal(err.text, "device: \"arch\" is empty");
    assert_true(gk_json_set_string(json, "arch", "a_name_that_is_too_long_for_an_arch"));
    assert_status(gk_device_props_from_json(json, &back, &err), GK_LIMIT, err);
    assert_contains(err.text, "at most 31 are allowed");
    assert_true(gk_json_set_string(json, "arch", "sm_80"));
    assert_true(gk_json_set_int(json, "modelled", 1));
    assert_status(gk_device_props_from_json(json, &back, &err), GK_INPUT, err);
    assert_string_equal(err.text, "device: \"modelled\" is 1; true or false is needed");
    assert_status(gk_device_props_from_json(NULL, &back, &err), GK_INPUT, err);
    assert_int_equal(back.sms, 77);
    gk_json_free(json);
}

static void slots_follow_the_scope(void **state)
{
    (void)state;
    struct gk_device_props props = builtin("emu:sm_90a");
    struct gk_scope *scope = gk_scope_create();
    union gk_value slots[64] = {{0}};
    struct gk_err err;
    uint32_t first = 0;
    assert_ok(gk_scope_add(scope, "M", GK_VALUE_INT, NULL, 0, NULL, &err), err);
    assert_ok(gk_device_props_scope(scope, &first, &err), err);
    assert_int_equal(first, 1);
    gk_device_props_fill(&props, slots + first);
    assert_int_equal(slots[gk_scope_find(scope, "dev.sm")->slot].i, 90);
    assert_int_equal(slots[gk_scope_find(scope, "dev.sms")->slot].i, 8);
    assert_int_equal(slots[gk_scope_find(scope, "dev.smem_block_max")->slot].i, 232448);
    assert_int_equal(slots[gk_scope_find(scope, "dev.work_limit")->slot].i, props.work_limit);
    assert_status(gk_device_props_scope(scope, &first, &err), GK_EXISTS, err);
    gk_scope_destroy(scope);
}

/* Against the vendor's occupancy tables for compute capability 8.0. */
static void occupancy(void **state)
{
    (void)state;
    struct gk_device_props a100 = builtin("emu:sm_80");
    static const struct {
        int64_t threads, regs, smem, want;
    } cases[] = {
        {128, 32, 0, 16},     {256, 32, 0, 8},  {1024, 32, 0, 2},    {1024, 64, 0, 1},
        {1024, 65, 0, 0},     {256, 255, 0, 1}, {128, 255, 0, 2},    {128, 168, 49152, 3},
        {128, 128, 0, 4},     {32, 16, 0, 32},  {128, 32, 40960, 4}, {128, 32, 166912, 1},
        {128, 32, 166913, 0}, {1025, 32, 0, 0}, {0, 32, 0, 0},       {128, 256, 0, 0},
        {33, 32, 0, 32},      {128, 0, 0, 16},  {128, 32, -1, 0},    {384, 40, 0, 4},
    };
    for (size_t i = 0; i < GK_ARRAY_COUNT(cases); i++) {
        int64_t got =
            gk_device_blocks_per_sm(&a100, cases[i].threads, cases[i].regs, cases[i].smem);
        if (got != cases[i].want) {
            fail_msg("%d threads, %d registers, %d bytes: %d blocks, wanted %d",
                     (int)cases[i].threads, (int)cases[i].regs, (int)cases[i].smem, (int)got,
                     (int)cases[i].want);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(names),
        cmocka_unit_test(instances),
        cmocka_unit_test(unknown_devices_list_the_targets),
        cmocka_unit_test(json_is_exact),
        cmocka_unit_test(bad_members_are_named),
        cmocka_unit_test(slots_follow_the_scope),
        cmocka_unit_test(occupancy),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
