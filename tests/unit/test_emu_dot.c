/*
 * Sums of the tensor cores are those of an H200, bit for bit: random operands of all magnitudes,
 * subnormal numbers, zeros of both signs, infinities and NaN, the ends of the range
 * (tests/data/emu/dots.txt).
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/check.h"
#include "tests/unit/emu_dots.h"
#include "tests/unit/emu_for_tests.h"
#include "tests/unit/nvrtc_for_tests.h"

static uint32_t in[EMU_DOTS_BLOCKS * EMU_DOTS_IN], out[EMU_DOTS_BLOCKS * EMU_DOTS_OUT];

static void set_up(struct rig *rig, const char *instruction_set)
{
    const struct gk_emu_options options = {
        .target = "sm_90a", .instruction_set = instruction_set, .no_races = true};
    char *log = NULL, *ptx;
    const char *none[] = {NULL};

    ptx = nvrtc_for_tests_compile(emu_dots_source(), "dots.cu", "sm_90a", none, &log);
    if (!ptx) {
        fail_msg("NVRTC: %s", log ? log : "no log");
    }
    rig_init_with(rig, &options);
    rig_ptx(rig, ptx);
    rig->grid[0] = EMU_DOTS_BLOCKS;
    rig->block[0] = 128;
    free(ptx);
    free(log);
}

static void run(struct rig *rig, uint32_t index)
{
    uint64_t from, to;

    emu_dots_fill(index, in);
    memset(out, 0, sizeof(out));
    from = rig_upload(rig, "in", in, sizeof(in));
    to = rig_upload(rig, "out", out, sizeof(out));
    RIG_OK(rig, emu_dots_name(index), from, to);
    rig_download(rig, to, out, sizeof(out));
    assert_ok(gk_emu_free(rig->emu, from, &rig->err), rig->err);
    assert_ok(gk_emu_free(rig->emu, to, &rig->err), rig->err);
    if (getenv("GK_DOTS_RAW")) { /* what there is to look at when a line differs */
        FILE *raw = fopen(getenv("GK_DOTS_RAW"), "ab");

        assert_non_null(raw);
        (void)fwrite(out, 1, sizeof(out), raw);
        (void)fclose(raw);
    }
}

static void compare(const char *instruction_set)
{
    FILE *file = fopen(GK_SOURCE_DIR "/tests/data/emu/dots.txt", "r");
    char name[32];
    uint32_t kind, lines = 0, wrong = 0, index = UINT32_MAX;
    uint64_t hash;
    struct rig rig;

    assert_non_null(file);
    set_up(&rig, instruction_set);
    while (fscanf(file, "%31s %" SCNu32 " %" SCNx64, name, &kind, &hash) == 3) {
        if (index == UINT32_MAX || strcmp(emu_dots_name(index), name) != 0) {
            index = index == UINT32_MAX ? 0 : index + 1;
            assert_true(index < emu_dots_count());
            assert_string_equal(emu_dots_name(index), name);
            run(&rig, index);
        }
        lines++;
        if (emu_dots_hash(out, kind) != hash) {
            wrong++;
            print_error("%s of kind %u differs from the hardware\n", name, kind);
        }
    }
    (void)fclose(file);
    rig_fini(&rig);
    assert_int_equal(lines, emu_dots_count() * EMU_DOTS_KINDS);
    assert_int_equal(wrong, 0);
}

static void sums_are_those_of_the_hardware(void **state)
{
    (void)state;
    if (!nvrtc_for_tests_available()) {
        skip();
    }
    compare(NULL);
}

static void on_every_host(void **state)
{
    (void)state;
    if (!nvrtc_for_tests_available()) {
        skip();
    }
    compare("base");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sums_are_those_of_the_hardware),
        cmocka_unit_test(on_every_host),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
