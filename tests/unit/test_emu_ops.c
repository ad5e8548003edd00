/*
 * Every operation of emu_ops.c on the emulated device, against what an H200 gave for the same
 * inputs (tests/data/emu/ops.txt: a hash of the 256 results and the instruction, a line each).
 *
 *   GK_EMU_OPS_RAW=file test_emu_ops    also compares with raw results, and shows the first
 * difference
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
#include "tests/unit/emu_ops.h"
#include "worker/emu/emu.h"

static char *read_file(const char *path, size_t *size_out)
{
    FILE *file = fopen(path, "rb");
    char *text = NULL;
    long size;

    if (!file) {
        return NULL;
    }
    if (fseek(file, 0, SEEK_END) == 0 && (size = ftell(file)) >= 0) {
        rewind(file);
        text = calloc(1, (size_t)size + 1);
        *size_out = text ? fread(text, 1, (size_t)size, file) : 0;
    }
    (void)fclose(file);
    return text;
}

/* Units in the last place between two results of an approximation; huge for other differences. */
static uint64_t distance(uint64_t x, uint64_t y, char kind)
{
    unsigned drop = kind == 'D' ? 32 : kind == 'f' ? 0 : 64;

    if (drop == 64) {
        return x != y;
    }
    return (x > y ? x - y : y - x) >> drop;
}

/* Prints the first results that differ from the raw file's. */
static void show_difference(uint32_t index, const uint64_t *results)
{
    const char *path = getenv("GK_EMU_OPS_RAW");
    size_t size = 0, at = (size_t)index * EMU_OPS_THREADS * 8;
    char *raw = path ? read_file(path, &size) : NULL;
    unsigned shown = 0;

    for (unsigned i = 0; raw && at + EMU_OPS_THREADS * 8 <= size && i < EMU_OPS_THREADS; i++) {
        uint64_t want;

        memcpy(&want, raw + at + i * 8, sizeof(want));
        if (want == results[i] || (strchr(emu_ops_at(index)->kinds, '~') &&
                                   distance(want, results[i], emu_ops_at(index)->kinds[0]) <= 4)) {
            continue;
        }
        if (shown++ == 0) {
            print_message("    %s\n", emu_ops_at(index)->text);
        }
        if (shown < 8) {
            print_message("    thread %u: %016" PRIx64 ", the GPU gave %016" PRIx64 "\n", i,
                          results[i], want);
        }
    }
    free(raw);
}

static void match_the_gpu(const char *instruction_set)
{
    struct gk_emu_options options = {.target = "sm_90", .instruction_set = instruction_set};
    struct gk_emu *emu = NULL;
    struct gk_emu_module *module = NULL;
    struct gk_err err;
    uint64_t params[2], results[EMU_OPS_THREADS];
    unsigned char *input = calloc(1, EMU_OPS_INPUT_BYTES);
    char *ptx = emu_ops_ptx("sm_90"), *golden;
    size_t golden_size = 0;
    const char *line;
    uint32_t wrong = 0;

    golden = read_file(GK_SOURCE_DIR "/tests/data/emu/ops.txt", &golden_size);
    assert_non_null(golden);
    assert_non_null(ptx);
    if (gk_emu_create(&options, &emu, &err) != GK_OK) {
        print_message("%s\n", err.text); /* a host without it */
        free(input);
        free(ptx);
        free(golden);
        skip();
    }
    assert_ok(gk_emu_module_load(emu, ptx, strlen(ptx), &module, &err), err);
    emu_ops_inputs(input);
    assert_ok(gk_emu_alloc(emu, "input", EMU_OPS_INPUT_BYTES, 0, &params[0], &err), err);
    assert_ok(gk_emu_alloc(emu, "output", sizeof(results), 0, &params[1], &err), err);
    assert_ok(gk_emu_write(emu, params[0], input, EMU_OPS_INPUT_BYTES, &err), err);
    line = golden;
    for (uint32_t i = 0; i < emu_ops_count(); i++) {
        struct gk_emu_launch launch = {.grid = {1, 1, 1},
                                       .block = {EMU_OPS_THREADS, 1, 1},
                                       .params = params,
                                       .params_size = sizeof(params),
                                       .registers_per_thread = 32};
        struct gk_emu_kernel *kernel = NULL;
        struct gk_emu_report report;
        char name[32];
        const char *text = emu_ops_at(i)->text;

        (void)snprintf(name, sizeof(name), "op_%u", i);
        assert_ok(gk_emu_kernel_find(module, name, &kernel, &err), err);
        assert_ok(gk_emu_launch(emu, kernel, &launch, &report, &err), err);
        assert_ok(gk_emu_read(emu, params[1], results, sizeof(results), &err), err);
        assert_int_equal(strncmp(line + 17, text, strlen(text)), 0);
        if (strchr(emu_ops_at(i)->kinds, '~')) {
            show_difference(i, results); /* not the hardware's last bits: only shown */
        } else if (strtoull(line, NULL, 16) != emu_ops_hash(results)) {
            wrong++;
            print_message("  differs: %s\n", text);
            show_difference(i, results);
        }
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    gk_emu_module_unload(module);
    gk_emu_destroy(emu);
    free(input);
    free(ptx);
    free(golden);
    assert_int_equal(wrong, 0);
}

static void with_base_instructions(void **state)
{
    (void)state;
    match_the_gpu("base");
}

static void with_avx2(void **state)
{
    (void)state;
    match_the_gpu("avx2");
}

static void with_avx512(void **state)
{
    (void)state;
    match_the_gpu("avx512");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(with_base_instructions),
        cmocka_unit_test(with_avx2),
        cmocka_unit_test(with_avx512),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
