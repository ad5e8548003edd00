/*
 * gk_conformance [--device DEV] [--cases DIR] [--include DIR] [--out FILE] [--against FILE]
 *                [--table FILE | --same-table FILE] [CASE]...
 *
 * Runs one small kernel an instruction family on a device and writes what it left in memory, a line
 * a case: name, "ok" or how it failed, a hash and all words. Two such files, one of the emulated
 * device and one of a GPU, are compared with --against: each case is equal, differs within what it
 * says that it may, or the first differing word and the number of them are shown; one that is not
 * in the other file is counted. --table writes the outcome as Markdown, --same-table demands that a
 * file says exactly that. Exits with 1 when a case failed, differs, or the table is another.
 *
 * A case is a file NAME.cu whose first lines are directives:
 *   // case: target=90 grid=1 block=128 cluster=1 smem=0 out=1024      target: the least sm; out:
 * words
 *   // map: in|out TYPE dims=a,b box=c,d [steps=1,2] [swizzle=128] [nan] [offset=BYTES]
 *   // differs: [ulps=N] [abs=X] [halves=WORDS] REASON
 * The last one allows for differences: of the first WORDS words each half is a 16-bit float, the
 * rest are fp32, and each value may be N units of its last place off, or X. `// refused` says that
 * the emulated device refuses the case by the name of an instruction. The other lines of comment
 * say what the case is about.
 * The kernel is k(const unsigned *in, unsigned *out, map ...). `in` holds 16384 mixed words,
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

#define IN_WORDS       16384u
#define OUT_MAX        4096u
#define CASES_MAX      256u
#define HEADERS_MAX    64u
#define SOURCE_MAX     (256u << 10)
#define TABLE_TEXT_MAX 120 /* of an outcome; what is longer are paths of this machine */
#define TABLE_MAX      (256u << 10)
#define LINE_MAX_      (OUT_MAX * 8u + 4096u)

struct options {
    const char *device, *cases, *include, *out, *against, *table, *same_table;
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
    uint32_t ulps, halves; /* of differences that are allowed */
    double abs;
    bool refused;     /* by the emulated device */
    char reason[400]; /* of them; empty: none is */
    char about[600];
    char *text;
};

struct bench {
    struct gk_device *device;
    struct gk_compiler *compiler;
    struct gk_compiler_header headers[HEADERS_MAX];
    uint32_t header_count;
    uint64_t in, out;
    FILE *file, *against;
    bool emulated;
    uint32_t failed, differ, within, equal, unrecorded;
    struct gk_buf rows; /* of the table */
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

/* Allowed differences: "ulps=2 abs=1e-5 halves=384 why". */
static void read_differs(struct test_case *one, const char *line)
{
    const char *abs = strstr(line, " abs="), *why = line + strlen("// differs:");

    one->ulps = number_of(line, " ulps=", 0);
    one->halves = number_of(line, " halves=", 0);
    one->abs = abs ? strtod(abs + strlen(" abs="), NULL) : 0;
    for (;;) { /* the reason begins at the first word that is none of these */
        why += strspn(why, " ");
        if (strncmp(why, "ulps=", 5) != 0 && strncmp(why, "abs=", 4) != 0 &&
            strncmp(why, "halves=", 7) != 0) {
            break;
        }
        why += strcspn(why, " ");
    }
    (void)snprintf(one->reason, sizeof(one->reason), "%s", why);
}

static void add_about(struct test_case *one, const char *line)
{
    size_t used = strlen(one->about);

    line += strspn(line, "/ ");
    (void)snprintf(one->about + used, sizeof(one->about) - used, "%s%.299s", used ? " " : "", line);
}

static void read_directives(struct test_case *one)
{
    for (const char *line = one->text; line; line = strchr(line, '\n')) {
        char copy[400];

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
        } else if (strncmp(copy, "// differs:", 11) == 0) {
            read_differs(one, copy);
        } else if (strcmp(copy, "// refused") == 0) {
            one->refused = true;
        } else if (strncmp(copy, "//", 2) == 0) {
            add_about(one, copy);
        } else {
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

/* Places of a float among all of its type, in order. */
static int64_t place_of(uint32_t bits, uint32_t sign)
{
    return bits & sign ? -(int64_t)(bits & (sign - 1)) : (int64_t)bits;
}

static bool near(int64_t a, int64_t b, uint32_t ulps)
{
    return (a > b ? a - b : b - a) <= ulps;
}

/* Whether two words may stand for one another. */
static bool allowed(const struct test_case *one, uint32_t index, uint32_t x, uint32_t y)
{
    float a, b;

    if (!one->reason[0]) {
        return false;
    }
    if (index < one->halves) {
        return near(place_of(x & 0xffff, 0x8000), place_of(y & 0xffff, 0x8000), one->ulps) &&
               near(place_of(x >> 16, 0x8000), place_of(y >> 16, 0x8000), one->ulps);
    }
    memcpy(&a, &x, sizeof(a));
    memcpy(&b, &y, sizeof(b));
    return near(place_of(x, 0x80000000u), place_of(y, 0x80000000u), one->ulps) ||
           (double)(a > b ? a - b : b - a) <= one->abs;
}

/* A row of the table and a line for people. */
static void say(struct bench *bench, const struct test_case *one, const char *outcome,
                const char *more)
{
    (void)printf("%-20s %s%s%s\n", one->name, outcome, *more ? ": " : "", more);
    gk_buf_printf(&bench->rows, "| `%s` | %s | %u | %s%s%.*s |\n", one->name, one->about,
                  one->out_words, outcome, *more ? ": " : "", TABLE_TEXT_MAX, more);
}

/* The words of this case in the other file; false if they are not there. */
static bool other_words(struct bench *bench, const struct test_case *one, uint32_t *out)
{
    char *line = malloc(LINE_MAX_);
    const char *other = line ? other_line(bench, one->name, line) : NULL;
    const char *hex = other ? strrchr(other, ' ') : NULL;
    bool found = hex && strlen(hex) >= 1 + one->out_words * 8u;

    for (uint32_t i = 0; found && i < one->out_words; i++) {
        char word[9] = {0};

        memcpy(word, hex + 1 + i * 8u, 8);
        out[i] = (uint32_t)strtoul(word, NULL, 16);
    }
    free(line);
    return found;
}

static void compare(struct bench *bench, const struct test_case *one, const uint32_t *words)
{
    static uint32_t theirs[OUT_MAX];
    uint32_t differ = 0, forbidden = 0, first = 0;
    char text[500];

    if (!other_words(bench, one, theirs)) {
        bench->unrecorded++;
        say(bench, one, "not recorded", "");
        return;
    }
    for (uint32_t i = 0; i < one->out_words; i++) {
        bool bad = words[i] != theirs[i] && !allowed(one, i, words[i], theirs[i]);

        differ += words[i] != theirs[i];
        first = bad && !forbidden ? i : first;
        forbidden += bad;
    }
    if (forbidden) {
        (void)snprintf(text, sizeof(text), "%u words, first word %u: %08x here, %08x there",
                       forbidden, first, words[first], theirs[first]);
        bench->differ++;
        say(bench, one, "DIFFERS", text);
    } else if (differ) {
        (void)snprintf(text, sizeof(text), "%u words: %s", differ, one->reason);
        bench->within++;
        say(bench, one, "explained", text);
    } else {
        bench->equal++;
        say(bench, one, "equal", "");
    }
}

static void show(struct bench *bench, const struct test_case *one, enum gk_status status,
                 const uint32_t *words, const struct gk_err *err)
{
    uint64_t hash = 14695981039346656037ull;

    if (one->refused && bench->emulated && status == GK_UNSUPPORTED) {
        bench->within++;
        say(bench, one, "explained", "refused by the name of an instruction");
        return;
    }
    if (one->refused && bench->emulated) {
        bench->failed++;
        say(bench, one, "FAILED", "no longer refused: take that line out");
        return;
    }
    if (status != GK_OK) {
        bench->failed++;
        say(bench, one, "FAILED", err->text);
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
        (void)printf("%-20s ok %016" PRIx64 "\n", one->name, hash);
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
            (void)printf("%-20s skipped: needs sm_%u\n", one.name, one.target);
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

static void write_table(const struct bench *bench, struct gk_buf *out)
{
    gk_buf_puts(
        out,
        "# The emulated device beside a GPU\n\n"
        "One small kernel an instruction family (`tests/conformance`), run on the emulated "
        "`sm_90a` "
        "and on an H200, all\n"
        "words of output compared bit for bit. The GPU's are in `tests/conformance/recorded.txt`, "
        "written there by\n"
        "`gk_conformance --device cuda:0 --out recorded.txt`; the test `conformance` compares with "
        "them in every run, and\n"
        "fails if this table is not what it found. It is written by\n"
        "`gk_conformance --against tests/conformance/recorded.txt --table "
        "docs/results/emu-conformance.md`.\n\n");
    gk_buf_printf(out,
                  "%u cases are equal, %u differ for a reason given here, %u differ or failed "
                  "without one, %u wait for a recording.\n\n"
                  "| case | what it does | words | outcome |\n| --- | --- | --- | --- |\n",
                  bench->equal, bench->within, bench->differ + bench->failed, bench->unrecorded);
    gk_buf_puts(out, gk_buf_text(&bench->rows));
}

/* Writes the table, or compares it with the file that should hold it. */
static enum gk_status tables(const struct bench *bench, const struct options *options,
                             struct gk_err *err)
{
    struct gk_buf text = {0};
    char *kept = NULL;
    size_t size = 0;
    enum gk_status status = GK_OK;

    write_table(bench, &text);
    if (options->table) {
        FILE *file = fopen(options->table, "wb");

        if (!file || fputs(gk_buf_text(&text), file) < 0) {
            status = gk_fail(err, GK_IO, "'%s' cannot be written", options->table);
        }
        if (file && fclose(file) != 0 && status == GK_OK) {
            status = gk_fail(err, GK_IO, "'%s' is not written", options->table);
        }
    }
    if (options->same_table) {
        status = gk_file_load(options->same_table, TABLE_MAX, &kept, &size, err);
        if (status == GK_OK && strcmp(kept, gk_buf_text(&text)) != 0) {
            status = gk_fail(err, GK_INPUT,
                             "'%s' is not what this run found: write it anew with "
                             "--table",
                             options->same_table);
        }
    }
    free(kept);
    gk_buf_fini(&text);
    return status;
}

static enum gk_status prepare(struct bench *bench, const struct options *options,
                              struct gk_err *err)
{
    struct gk_compiler_places places = {getenv("GKTUNE_NVRTC"), getenv("CUDA_HOME"),
                                        getenv("VIRTUAL_ENV"), getenv("HOME")};
    enum gk_status status = gk_device_open(options->device, &bench->device, err);

    bench->emulated = strncmp(options->device, "emu", 3) == 0;

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
    gk_buf_fini(&bench->rows);
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
        const char **to = strcmp(argv[i], "--device") == 0       ? &options.device
                          : strcmp(argv[i], "--cases") == 0      ? &options.cases
                          : strcmp(argv[i], "--include") == 0    ? &options.include
                          : strcmp(argv[i], "--out") == 0        ? &options.out
                          : strcmp(argv[i], "--against") == 0    ? &options.against
                          : strcmp(argv[i], "--table") == 0      ? &options.table
                          : strcmp(argv[i], "--same-table") == 0 ? &options.same_table
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
                          "--against, --table, --same-table with a value, then names of cases\n",
                          argv[i]);
            return 2;
        }
    }
    status = prepare(&bench, &options, &err);
    status = status == GK_OK ? run_all(&bench, &options, &err) : status;
    status = status == GK_OK ? tables(&bench, &options, &err) : status;
    if (status != GK_OK) {
        (void)fprintf(stderr, "gk_conformance: %s\n", err.text);
    } else if (bench.against) {
        (void)printf("conformance: %u equal, %u explained, %u differ, %u failed, %u not recorded\n",
                     bench.equal, bench.within, bench.differ, bench.failed, bench.unrecorded);
    }
    finish(&bench);
    return status == GK_MISSING || status == GK_UNSUPPORTED       ? 77
           : status != GK_OK || bench.failed || bench.differ != 0 ? 1
                                                                  : 0;
}
