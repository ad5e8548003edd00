/*
 * See twin.h.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "tests/support/check.h"
#include "tests/unit/nvrtc_for_tests.h"
#include "tests/unit/twin.h"

#define IN_WORDS   4096u
#define SOURCE_MAX (64u << 10)
#define LINE_SIZE  300u
#define WORK_LIMIT 2000000u /* warp instructions: a hundred times what any of them takes */
#define MEMORY_MAX (UINT64_C(8) << 30)

/* ------------------------------------------------------------------ directives */

static uint64_t number_of(const char *line, const char *key, uint64_t otherwise)
{
    const char *at = strstr(line, key);

    return at ? strtoull(at + strlen(key), NULL, 10) : otherwise;
}

static uint32_t list_of(const char *line, const char *key, uint64_t *to)
{
    const char *at = strstr(line, key);
    uint32_t count = 0;

    for (at = at ? at + strlen(key) : NULL; at && count < 5; at = *at == ',' ? at + 1 : NULL) {
        char *end = NULL;

        to[count++] = strtoull(at, &end, 10);
        at = end;
    }
    return count;
}

static void read_map(struct twin *twin, const char *line)
{
    struct gk_emu_map *map = &twin->maps[twin->map_count];
    uint64_t box[5] = {0}, bytes = strstr(line, " f32 ") ? 4 : 2;

    assert_true(twin->map_count < TWIN_MAPS_MAX);
    *map = (struct gk_emu_map){.element = bytes == 4 ? GK_EMU_ELEMENT_F32 : GK_EMU_ELEMENT_BF16};
    map->rank = list_of(line, " dims=", map->dims);
    (void)list_of(line, " box=", box);
    map->strides[0] = bytes;
    for (uint32_t i = 0; i < map->rank; i++) {
        map->box[i] = (uint32_t)box[i];
        map->element_strides[i] = 1;
        if (i) {
            map->strides[i] = (map->strides[i - 1] * map->dims[i - 1] + 15) / 16 * 16;
        }
    }
    map->swizzle = (uint32_t)number_of(line, " swizzle=", 0);
    twin->map_of_out[twin->map_count] = strstr(line, "map: out") != NULL;
    twin->map_offset[twin->map_count] = (uint32_t)number_of(line, " offset=", 0);
    twin->map_count++;
}

static void read_twin(struct twin *twin, const char *line)
{
    const char *target = strstr(line, " target=");

    assert_non_null(target);
    target += strlen(" target=");
    (void)snprintf(twin->target, sizeof(twin->target), "%.*s", (int)strcspn(target, " "), target);
    twin->grid = (uint32_t)number_of(line, " grid=", 1);
    twin->block = (uint32_t)number_of(line, " block=", 32);
    twin->cluster = (uint32_t)number_of(line, " cluster=", 1);
    twin->smem = (uint32_t)number_of(line, " smem=", 0);
    twin->out_words = (uint32_t)number_of(line, " out=", 32);
    twin->work_words = (uint32_t)number_of(line, " work=", 1);
    twin->launches = (uint32_t)number_of(line, " launches=", 1);
    twin->big_bytes = number_of(line, " big=", 0);
    assert_in_range(twin->out_words, 1, TWIN_OUT_MAX);
}

static void read_line(struct twin *twin, const char *line, uint32_t number)
{
    if (strncmp(line, "// twin:", 8) == 0) {
        read_twin(twin, line);
    } else if (strncmp(line, "// map:", 7) == 0) {
        read_map(twin, line);
    } else if (strncmp(line, "// wants: ", 10) == 0) {
        (void)snprintf(twin->wants, sizeof(twin->wants), "%.*s", (int)strcspn(line + 10, " "),
                       line + 10);
        twin->somewhere = strstr(line, " somewhere") != NULL;
    }
    if (strncmp(line, "// open: ", 9) == 0) {
        (void)snprintf(twin->open, sizeof(twin->open), "%.199s", line + 9);
    }
    if (strstr(line, "// (1)")) {
        twin->marks[0] = number;
    } else if (strstr(line, "// (2)")) {
        twin->marks[1] = number;
    }
}

void twin_load(struct twin *twin, const char *folder, const char *file)
{
    char path[600], line[LINE_SIZE];
    uint32_t number = 1;
    struct gk_err err = {0};
    size_t size = 0;

    *twin = (struct twin){0};
    (void)snprintf(twin->name, sizeof(twin->name), "%s", file);
    (void)snprintf(path, sizeof(path), "%.400s/%.100s", folder, file);
    assert_ok(gk_file_load(path, SOURCE_MAX, &twin->text, &size, &err), err);
    for (const char *at = twin->text; at; number++) {
        (void)snprintf(line, sizeof(line), "%.*s", (int)strcspn(at, "\n"), at);
        read_line(twin, line, number);
        at = strchr(at, '\n');
        at = at ? at + 1 : NULL;
    }
    if (!twin->target[0]) {
        fail_msg("%s: no line '// twin: target=...'", path);
    }
}

void twin_fini(struct twin *twin)
{
    free(twin->text);
    *twin = (struct twin){0};
}

/* ------------------------------------------------------------------ running */

char *twin_compile(const struct twin *twin, bool bad)
{
    const char *home = getenv("CUDA_HOME");
    char arch[40], libraries[600]; /* cuda::barrier, CUB and the like, where CUDA 13 has them */
    const char *options[] = {bad ? "-DBAD=1" : "-DBAD=0",           "-std=c++17", "-default-device",
                             "-I" GK_SOURCE_DIR "/kernels/include", libraries,    NULL};
    char *log = NULL, *ptx;

    (void)snprintf(libraries, sizeof(libraries), "-I%.500s/include/cccl",
                   home ? home : "/usr/local/cuda");
    /* PTX alone: ptxas takes most of the time, and crashes on some of what is broken here. */
    (void)snprintf(arch, sizeof(arch), "compute_%s", twin->target + strlen("sm_"));
    ptx = nvrtc_for_tests_compile(twin->text, twin->name, arch, options, &log);
    if (!ptx) {
        fail_msg("%s: %s", twin->name, log ? log : "no log");
    }
    free(log);
    return ptx;
}

static uint64_t mixed(struct rig *rig)
{
    static uint32_t words[IN_WORDS];

    for (uint32_t i = 0; i < IN_WORDS; i++) {
        uint32_t x = i * 2654435761u + 12345u;

        x ^= x >> 15;
        x *= 0x2c1b3c6du;
        words[i] = x ^ x >> 12;
    }
    return rig_upload(rig, "in", words, sizeof(words));
}

/* The parameter block: three addresses and the maps. */
static void parameters(struct rig *rig, const struct twin *twin, const uint64_t address[3],
                       const struct gk_emu_kernel_info *info, unsigned char *params)
{
    assert_int_equal(info->param_count, 3 + twin->map_count);
    for (uint32_t i = 0; i < 3; i++) {
        memcpy(params + info->params[i].offset, &address[i], 8);
    }
    for (uint32_t i = 0; i < twin->map_count; i++) {
        struct gk_emu_map map = twin->maps[i];

        map.address = address[twin->map_of_out[i]] + twin->map_offset[i];
        assert_ok(gk_emu_map_encode(rig->emu, &map, params + info->params[3 + i].offset, &rig->err),
                  rig->err);
    }
}

static void run_launches(struct rig *rig, const struct twin *twin, const uint64_t address[3],
                         struct twin_end *end)
{
    struct gk_emu_kernel *kernel = NULL;
    struct gk_emu_kernel_info info;
    unsigned char params[4096] = {0};
    struct gk_emu_launch launch = {.grid = {twin->grid, 1, 1},
                                   .block = {twin->block, 1, 1},
                                   .cluster = {twin->cluster, 1, 1},
                                   .dynamic_smem_bytes = twin->smem,
                                   .params = params,
                                   .registers_per_thread = twin->block > 512   ? 32
                                                           : twin->block > 256 ? 168
                                                                               : 64};

    assert_ok(gk_emu_kernel_find(rig->module, "k", &kernel, &rig->err), rig->err);
    gk_emu_kernel_info(kernel, &info);
    parameters(rig, twin, address, &info, params);
    launch.params_size = info.params_size;
    for (uint32_t i = 0; i < twin->launches; i++) {
        enum gk_status status;

        memset(&rig->report, 0, sizeof(rig->report));
        status = gk_emu_launch(rig->emu, kernel, &launch, &rig->report, &rig->err);
        if (status != GK_OK) {
            if (status != GK_TRIAL) {
                fail_msg("%s: not launched: %s", twin->name, rig->err.text);
            }
            end->fault = rig->report.kind;
            (void)snprintf(end->why, sizeof(end->why), "%s", rig->report.text);
            return;
        }
    }
}

void twin_run(const struct twin *twin, const char *ptx, enum gk_emu_schedule schedule,
              uint64_t seed, struct twin_end *end)
{
    struct gk_emu_options options = {.target = twin->target,
                                     .seed = seed,
                                     .schedule = schedule,
                                     .work_limit_warp_instructions = WORK_LIMIT,
                                     .memory_limit_bytes = MEMORY_MAX};
    struct rig rig = {0};
    uint64_t address[3], bytes = (uint64_t)twin->out_words * 4, unwritten = 0;

    *end = (struct twin_end){0};
    assert_ok(gk_emu_create(&options, &rig.emu, &rig.err), rig.err);
    rig_ptx(&rig, ptx);
    address[0] = mixed(&rig);
    address[1] = rig_alloc(&rig, "out", bytes);
    address[2] =
        rig_alloc(&rig, "work", twin->big_bytes ? twin->big_bytes : (uint64_t)twin->work_words * 4);
    if (!twin->big_bytes) {
        assert_ok(gk_emu_fill(rig.emu, address[2], (uint64_t)twin->work_words * 4, "", 1, &rig.err),
                  rig.err);
    }
    run_launches(&rig, twin, address, end);
    assert_ok(gk_emu_unwritten(rig.emu, address[1], bytes, &unwritten, &rig.err), rig.err);
    assert_ok(gk_emu_read(rig.emu, address[1], end->out, bytes, &rig.err), rig.err);
    end->unwritten = (uint32_t)unwritten;
    rig_fini(&rig);
}
