/*
 * gk_conformance [--device DEV] [--cases DIR] [--include DIR] [--out FILE] [--against FILE]
 * [CASE]...
 *
 * Runs one small kernel an instruction family on a device and writes what it left in memory, a line
 * a case: name, "ok" or how it failed, a hash and all words. Two such files, one of the emulated
 * device and one of a GPU, are compared with --against: each case is equal, or the first differing
 * word and the number of them are shown. Exits with 1 when a case failed or differs.
 *
 * A case is a file NAME.cu whose first lines are directives:
 *   // case: target=90 grid=1 block=128 cluster=1 smem=0 out=1024      target: the least sm; out:
 * words
 *   // map: in|out TYPE dims=a,b box=c,d [steps=1,2] [swizzle=128] [nan] [offset=BYTES]
 * and whose kernel is k(const unsigned *in, unsigned *out, map ...). `in` holds 16384 mixed words,
 * `out` zeros. Maps are packed: each stride is the extent before it, rounded up to 16 bytes.
 */
#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/buf.h"
#include "worker/compiler.h"
#include "worker/device.h"

#define IN_WORDS    16384u
#define OUT_MAX     4096u
#define CASES_MAX   256u
#define HEADERS_MAX 64u
#define SOURCE_MAX  (256u << 10)
#define LINE_MAX_   (OUT_MAX * 8u + 4096u)

struct options {
    const char *device, *cases, *include, *out, *against;
    char **names;
    int name_count;
};

struct test_case {
    char name[64];
    uint32_t target, grid, block, cluster, smem, out_words;
    struct gk_device_map maps[4];
    bool map_of_out[4];
    uint32_t map_offset[4];
    uint32_t map_count;
    char *text;
};

struct bench {
    struct gk_device *device;
    struct gk_compiler *compiler;
    struct gk_compiler_header headers[HEADERS_MAX];
    uint32_t header_count;
    uint64_t in, out;
    FILE *file, *against;
    uint32_t failed, differ, equal;
};

/* ------------------------------------------------------------------ cases */

static uint32_t number_of(const char *line, const char *key, uint32_t otherwise)
{
    const char *at = strstr(line, key);

    return at ? (uint32_t)strtoul(at + strlen(key), NULL, 10) : otherwise;
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

static void read_map(struct test_case *one, const char *line)
{
    struct gk_device_map *map = &one->maps[one->map_count];
    uint64_t box[5] = {0}, steps[5] = {1, 1, 1, 1, 1}, bytes;

    if (one->map_count == GK_ARRAY_COUNT(one->maps)) {
        return;
    }
    *map = (struct gk_device_map){.dtype = strstr(line, " f32 ")   ? GK_F32
                                           : strstr(line, " f16 ") ? GK_F16
                                           : strstr(line, " u32 ") ? GK_U32
                                                                   : GK_BF16};
    bytes = gk_dtype_bytes(map->dtype);
    map->rank = list_of(line, "dims=", map->dims);
    (void)list_of(line, "box=", box);
    (void)list_of(line, "steps=", steps);
    map->strides[0] = bytes;
    for (uint32_t i = 0; i < map->rank; i++) {
        map->box[i] = (uint32_t)box[i];
        map->element_strides[i] = (uint32_t)steps[i];
        if (i) {
            map->strides[i] = (map->strides[i - 1] * map->dims[i - 1] + 15) / 16 * 16;
        }
    }
    map->swizzle = number_of(line, "swizzle=", 0);
    map->fill_nan = strstr(line, " nan") != NULL;
    one->map_of_out[one->map_count] = strstr(line, "map: out") != NULL;
    one->map_offset[one->map_count] = number_of(line, "offset=", 0);
    one->map_count++;
}

static void read_directives(struct test_case *one)
{
    for (const char *line = one->text; line; line = strchr(line, '\n')) {
        char copy[300];

        line += *line == '\n';
        (void)snprintf(copy, sizeof(copy), "%.*s", (int)strcspn(line, "\n"), line);
        if (strncmp(copy, "// case:", 8) == 0) {
            one->target = number_of(copy, "target=", 80);
            one->grid = number_of(copy, "grid=", 1);
            one->block = number_of(copy, "block=", 32);
            one->cluster = number_of(copy, "cluster=", 1);
            one->smem = number_of(copy, "smem=", 0);
            one->out_words = number_of(copy, " out=", 32);
        } else if (strncmp(copy, "// map:", 7) == 0) {
            read_map(one, copy);
        } else if (strncmp(copy, "//", 2) != 0) {
            return;
        }
    }
}

/* The .cuh files of a folder, under the names that sources include: "gk/" before those of kernels.
 */
static enum gk_status load_headers(struct bench *bench, const char *folder, const char *prefix,
                                   struct gk_err *err)
{
    DIR *dir = opendir(folder);
    enum gk_status status = GK_OK;

    if (!dir) {
        return gk_fail(err, GK_NOT_FOUND, "folder '%s' of headers cannot be read", folder);
    }
    for (struct dirent *entry = readdir(dir); entry && status == GK_OK; entry = readdir(dir)) {
        char path[1200], name[300];
        size_t size = 0;

        if (!strstr(entry->d_name, ".cuh")) {
            continue;
        }
        if (bench->header_count == HEADERS_MAX) {
            status = gk_fail(err, GK_LIMIT, "more than %u headers", HEADERS_MAX);
            break;
        }
        (void)snprintf(path, sizeof(path), "%.900s/%.200s", folder, entry->d_name);
        (void)snprintf(name, sizeof(name), "%s%.200s", prefix, entry->d_name);
        status = gk_file_load(path, SOURCE_MAX, (char **)&bench->headers[bench->header_count].text,
                              &size, err);
        bench->headers[bench->header_count].name = gk_strdup(name);
        bench->header_count++;
    }
    (void)closedir(dir);
    return status;
}

/* ------------------------------------------------------------------ one case */

static void add_arg(struct gk_device_launch *launch, const void *bytes, uint32_t size)
{
    launch->args[launch->arg_count].size = size;
    memcpy(launch->args[launch->arg_count++].bytes, bytes, size);
}

static enum gk_status fill_memory(struct bench *bench, struct gk_err *err)
{
    static uint32_t words[IN_WORDS];
    const struct gk_device_ops *ops = bench->device->ops;
    enum gk_status status;

    for (uint32_t i = 0; i < IN_WORDS; i++) {
        uint32_t x = i * 2654435761u + 12345u;

        x ^= x >> 15;
        x *= 0x2c1b3c6du;
        words[i] = x ^ x >> 12;
    }
    status = ops->write(bench->device, bench->in, words, sizeof(words), err);
    memset(words, 0, sizeof(words));
    return status == GK_OK ? ops->write(bench->device, bench->out, words, OUT_MAX * 4, err)
                           : status;
}

static enum gk_status run_code(struct bench *bench, struct test_case *one,
                               const struct gk_compile_output *code, uint32_t *words,
                               struct gk_err *err)
{
    const struct gk_device_ops *ops = bench->device->ops;
    struct gk_device_code text = {code->ptx, code->ptx_size, code->cubin, code->cubin_size};
    struct gk_device_module *module = NULL;
    struct gk_device_kernel *kernel = NULL;
    struct gk_device_report *report = calloc(1, sizeof(*report));
    struct gk_device_launch launch = {.grid = {one->grid, 1, 1},
                                      .block = {one->block, 1, 1},
                                      .cluster = {one->cluster, 1, 1},
                                      .smem_bytes = one->smem,
                                      .carveout = -1};
    enum gk_status status = report ? fill_memory(bench, err) : gk_fail(err, GK_NOMEM, "a report");

    add_arg(&launch, &bench->in, 8);
    add_arg(&launch, &bench->out, 8);
    for (uint32_t i = 0; status == GK_OK && i < one->map_count; i++) {
        unsigned char bytes[128];

        one->maps[i].address = (one->map_of_out[i] ? bench->out : bench->in) + one->map_offset[i];
        status = ops->encode ? ops->encode(bench->device, &one->maps[i], bytes, err)
                             : gk_fail(err, GK_UNSUPPORTED, "the device has no tensor maps");
        add_arg(&launch, bytes, 128);
    }
    status = status == GK_OK ? ops->load(bench->device, &text, &module, err) : status;
    status = status == GK_OK ? ops->find(bench->device, module, "k", &kernel, err) : status;
    status = status == GK_OK ? ops->launch(bench->device, kernel, &launch, report, err) : status;
    if (status == GK_OK && report->failure != GK_FAILURE_NONE) {
        status = GK_TRIAL;
    }
    if (status == GK_TRIAL && report) {
        (void)gk_fail(err, GK_TRIAL, "%.900s", report->text);
    }
    status = status == GK_OK ? ops->read(bench->device, bench->out, words, one->out_words * 4, err)
                             : status;
    if (module) {
        ops->unload(bench->device, module);
    }
    free(report);
    return status;
}

/* The line of this case in the other file; NULL if there is none. */
static const char *other_line(struct bench *bench, const char *name, char *line)
{
    rewind(bench->against);
    while (fgets(line, (int)LINE_MAX_, bench->against)) {
        size_t size = strlen(name);

        if (strncmp(line, name, size) == 0 && line[size] == ' ') {
            return line;
        }
    }
    return NULL;
}

static void compare(struct bench *bench, const struct test_case *one, const uint32_t *words)
{
    char *line = malloc(LINE_MAX_);
    const char *other = line ? other_line(bench, one->name, line) : NULL;
    uint32_t differ = 0, first = 0, theirs = 0;
    const char *hex = other ? strrchr(other, ' ') : NULL;

    if (!hex || strlen(hex) < 1 + one->out_words * 8u) {
        (void)printf("%-16s not in the other file\n", one->name);
        bench->differ++;
        free(line);
        return;
    }
    for (uint32_t i = 0; i < one->out_words; i++) {
        char word[9] = {0};
        uint32_t value;

        memcpy(word, hex + 1 + i * 8u, 8);
        value = (uint32_t)strtoul(word, NULL, 16);
        if (value != words[i]) {
            first = differ ? first : i;
            theirs = differ ? theirs : value;
            differ++;
        }
    }
    if (differ) {
        (void)printf("%-16s DIFFERS in %u of %u words, first word %u: %08x here, %08x there\n",
                     one->name, differ, one->out_words, first, words[first], theirs);
        bench->differ++;
    } else {
        (void)printf("%-16s equal (%u words)\n", one->name, one->out_words);
        bench->equal++;
    }
    free(line);
}

static void show(struct bench *bench, const struct test_case *one, enum gk_status status,
                 const uint32_t *words, const struct gk_err *err)
{
    uint64_t hash = 14695981039346656037ull;

    if (status != GK_OK) {
        bench->failed++;
        (void)printf("%-16s FAILED: %s\n", one->name, err->text);
        (void)fprintf(bench->file, "%s failed %.600s\n", one->name, err->text);
        return;
    }
    for (uint32_t i = 0; i < one->out_words; i++) {
        hash = (hash ^ words[i]) * 1099511628211ull;
    }
    (void)fprintf(bench->file, "%s ok %016" PRIx64 " ", one->name, hash);
    for (uint32_t i = 0; i < one->out_words; i++) {
        (void)fprintf(bench->file, "%08x", words[i]);
    }
    (void)fputc('\n', bench->file);
    if (bench->against) {
        compare(bench, one, words);
    } else {
        (void)printf("%-16s ok %016" PRIx64 "\n", one->name, hash);
    }
}

static void run_case(struct bench *bench, const char *folder, const char *file)
{
    static uint32_t words[OUT_MAX];
    struct test_case one = {0};
    struct gk_compile_output output = {0};
    struct gk_err err = {0};
    char path[1200];
    size_t size = 0;
    enum gk_status status;

    (void)snprintf(one.name, sizeof(one.name), "%.*s", (int)(strlen(file) - 3), file);
    (void)snprintf(path, sizeof(path), "%.900s/%.200s", folder, file);
    status = gk_file_load(path, SOURCE_MAX, &one.text, &size, &err);
    if (status == GK_OK) {
        read_directives(&one);
        if (one.target > (uint32_t)bench->device->props.sm) {
            (void)printf("%-16s skipped: needs sm_%u\n", one.name, one.target);
            free(one.text);
            return;
        }
        if (!one.out_words || one.out_words > OUT_MAX) {
            status = gk_fail(&err, GK_INPUT, "%u words of output, 1 to %u are possible",
                             one.out_words, OUT_MAX);
        }
    }
    if (status == GK_OK) {
        struct gk_compile_input input = {.name = file,
                                         .text = one.text,
                                         .headers = bench->headers,
                                         .header_count = bench->header_count,
                                         .target = bench->device->props.target};

        status = gk_compiler_run(bench->compiler, &input, &output, &err);
        if (status == GK_OK && !output.compiled) {
            status = gk_fail(&err, GK_INPUT, "%.900s", output.log);
        }
    }
    status = status == GK_OK ? run_code(bench, &one, &output, words, &err) : status;
    show(bench, &one, status, words, &err);
    gk_compile_output_fini(&output);
    free(one.text);
}

/* ------------------------------------------------------------------ all of them */

static int by_name(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool wanted(const struct options *options, const char *file)
{
    for (int i = 0; i < options->name_count; i++) {
        size_t size = strlen(file) - 3;

        if (strncmp(options->names[i], file, size) == 0 && !options->names[i][size]) {
            return true;
        }
    }
    return options->name_count == 0;
}

static enum gk_status run_all(struct bench *bench, const struct options *options,
                              struct gk_err *err)
{
    char *files[CASES_MAX];
    uint32_t count = 0;
    enum gk_status status = GK_OK;
    DIR *dir = opendir(options->cases);

    if (!dir) {
        return gk_fail(err, GK_NOT_FOUND, "folder '%s' cannot be read", options->cases);
    }
    for (struct dirent *entry = readdir(dir); entry; entry = readdir(dir)) {
        size_t size = strlen(entry->d_name);

        if (size <= 3 || strcmp(entry->d_name + size - 3, ".cu") != 0 ||
            !wanted(options, entry->d_name)) {
            continue;
        }
        files[count] = count < CASES_MAX - 1 ? gk_strdup(entry->d_name) : NULL;
        if (!files[count]) { /* a case that is silently left out would count as passed */
            status = gk_fail(err, GK_LIMIT, "more than %u cases, or out of memory", CASES_MAX - 1);
            break;
        }
        count++;
    }
    (void)closedir(dir);
    qsort(files, count, sizeof(files[0]), by_name);
    for (uint32_t i = 0; i < count; i++) {
        if (status == GK_OK) {
            run_case(bench, options->cases, files[i]);
            (void)fflush(stdout);
        }
        free(files[i]);
    }
    return status;
}

static enum gk_status prepare(struct bench *bench, const struct options *options,
                              struct gk_err *err)
{
    struct gk_compiler_places places = {getenv("GKTUNE_NVRTC"), getenv("CUDA_HOME"),
                                        getenv("VIRTUAL_ENV"), getenv("HOME")};
    enum gk_status status = gk_device_open(options->device, &bench->device, err);

    status = status == GK_OK ? gk_compiler_open(&places, &bench->compiler, err) : status;
    status = status == GK_OK ? load_headers(bench, options->include, "gk/", err) : status;
    status = status == GK_OK ? load_headers(bench, options->cases, "", err) : status;
    status = status == GK_OK ? bench->device->ops->alloc(bench->device, "in", IN_WORDS * 4, 256,
                                                         &bench->in, err)
                             : status;
    status = status == GK_OK ? bench->device->ops->alloc(bench->device, "out", OUT_MAX * 4, 256,
                                                         &bench->out, err)
                             : status;
    bench->file = fopen(options->out, "wb");
    if (status == GK_OK && !bench->file) {
        status = gk_fail(err, GK_IO, "'%s' cannot be written", options->out);
    }
    bench->against = options->against ? fopen(options->against, "rb") : NULL;
    if (status == GK_OK && options->against && !bench->against) {
        status = gk_fail(err, GK_NOT_FOUND, "'%s' cannot be read", options->against);
    }
    return status;
}

static void finish(struct bench *bench)
{
    if (bench->file) {
        (void)fclose(bench->file);
    }
    if (bench->against) {
        (void)fclose(bench->against);
    }
    gk_compiler_close(bench->compiler);
    gk_device_close(bench->device);
    for (uint32_t i = 0; i < bench->header_count; i++) {
        free((char *)(uintptr_t)bench->headers[i].text);
        free((char *)(uintptr_t)bench->headers[i].name);
    }
}

int main(int argc, char **argv)
{
    struct options options = {.device = "emu:sm_90a",
                              .cases = GK_SOURCE_DIR "/tests/conformance",
                              .include = GK_SOURCE_DIR "/kernels/include/gk",
                              .out = "/dev/null"};
    struct bench bench = {0};
    struct gk_err err = {0};
    enum gk_status status;

    for (int i = 1; i < argc; i++) {
        const char **to = strcmp(argv[i], "--device") == 0    ? &options.device
                          : strcmp(argv[i], "--cases") == 0   ? &options.cases
                          : strcmp(argv[i], "--include") == 0 ? &options.include
                          : strcmp(argv[i], "--out") == 0     ? &options.out
                          : strcmp(argv[i], "--against") == 0 ? &options.against
                                                              : NULL;

        if (to && i + 1 < argc) {
            *to = argv[++i];
        } else if (argv[i][0] != '-') {
            options.names = argv + i;
            options.name_count = argc - i;
            break;
        } else {
            (void)fprintf(stderr,
                          "gk_conformance: '%s': --device, --cases, --include, --out, "
                          "--against with a value, then names of cases\n",
                          argv[i]);
            return 2;
        }
    }
    status = prepare(&bench, &options, &err);
    status = status == GK_OK ? run_all(&bench, &options, &err) : status;
    if (status != GK_OK) {
        (void)fprintf(stderr, "gk_conformance: %s\n", err.text);
    } else if (bench.against) {
        (void)printf("%u equal, %u differ, %u failed\n", bench.equal, bench.differ, bench.failed);
    }
    finish(&bench);
    return status == GK_MISSING || status == GK_UNSUPPORTED       ? 77
           : status != GK_OK || bench.failed || bench.differ != 0 ? 1
                                                                  : 0;
}
