/* A plain kernel on the emulated device: see emu_plain.h. */
#include "worker/emu_plain.h"

#include <dirent.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "core/buf.h"
#include "core/hash.h"
#include "core/prng.h"
#include "worker/buffers.h"
#include "worker/compile_log.h"
#include "worker/emu_report_lines.h"
#include "worker/generate.h"
#include "worker/numeric.h"

#define SOURCE_BYTES_MAX  (4u << 20)
#define BUFFER_BYTES_MAX  (UINT64_C(1) << 30)
#define OPTIONS_MAX_PLAIN 32
#define SHOWN_ELEMENTS    8
#define REGS_UNKNOWN      32

struct argument {
    enum gk_dtype dtype;
    bool is_buffer;
    int64_t elements;
    const char *fill; /* lent by the request */
    double value;
    struct gk_buffer buffer;
    struct gk_hash first; /* content after the first schedule */
};

struct plain {
    const struct gk_json *request;
    struct gk_compiler *compiler;
    struct gk_device *device;
    struct gk_emu_sources sources;
    struct gk_compile_output code;
    struct gk_device_module *module;
    struct gk_device_kernel *kernel;
    char *entry; /* as the PTX names it */
    struct gk_device_launch launch;
    struct argument args[GK_LAUNCH_ARGS_MAX];
    struct gk_json *launched; /* the last run */
    struct gk_compile_facts facts;
    bool innermost, failed, same;
    struct gk_json *json;
};

static void plain_fini(struct plain *plain)
{
    for (uint32_t i = 0; plain->device && i < GK_LAUNCH_ARGS_MAX; i++) {
        gk_buffer_free(plain->device, &plain->args[i].buffer);
    }
    if (plain->module) {
        plain->device->ops->unload(plain->device, plain->module);
    }
    gk_compile_output_fini(&plain->code);
    gk_emu_sources_fini(&plain->sources);
    gk_device_close(plain->device);
    gk_json_free(plain->launched);
    gk_json_free(plain->json);
    free(plain->entry);
    free(plain);
}

static void watch_launched(void *context, const struct gk_emu_launched *launched)
{
    struct plain *plain = context;
    gk_json_free(plain->launched);
    plain->launched = gk_emu_launch_to_json(&plain->sources, launched, plain->innermost);
    plain->failed = plain->failed || !plain->launched;
}

/* ------------------------------------------------------------------ sources */

static bool is_header(const char *name)
{
    static const char *const ends[] = {".cuh", ".h", ".hpp", ".hh", ".inl"};
    size_t size = strlen(name);
    for (size_t i = 0; i < GK_ARRAY_COUNT(ends); i++) {
        size_t tail = strlen(ends[i]);
        if (size > tail && strcmp(name + size - tail, ends[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Headers of a folder under prefix + name. A folder that is not there has none; what is no file (a
 * folder of that name, an editor's lock that points nowhere) is none. */
static enum gk_status add_folder(struct plain *plain, const char *folder, const char *prefix,
                                 struct gk_err *err)
{
    enum gk_status status = GK_OK;
    DIR *dir = opendir(folder);
    struct dirent *entry = NULL;
    while (dir && status == GK_OK && (entry = readdir(dir)) != NULL) {
        char *text = NULL, *path = NULL, *name = NULL;
        size_t size = 0;
        struct stat info;
        if (!is_header(entry->d_name) || fstatat(dirfd(dir), entry->d_name, &info, 0) != 0 ||
            !S_ISREG(info.st_mode)) {
            continue;
        }
        path = gk_asprintf("%s/%s", folder, entry->d_name);
        name = gk_asprintf("%s%s", prefix, entry->d_name);
        status = path && name ? gk_file_load(path, SOURCE_BYTES_MAX, &text, &size, err)
                              : gk_fail(err, GK_NOMEM, "out of memory");
        if (status == GK_OK) {
            status = gk_emu_sources_add(&plain->sources, name, text, err);
        }
        free(text);
        free(path);
        free(name);
    }
    if (dir) {
        (void)closedir(dir);
    }
    return status;
}

static enum gk_status gather_sources(struct plain *plain, struct gk_err *err)
{
    const char *path = gk_json_get_string(plain->request, "what", "");
    const char *slash = strrchr(path, '/');
    char *text = NULL, *folder = slash ? gk_strndup(path, (size_t)(slash - path)) : gk_strdup(".");
    char *gk = gk_asprintf("%s/include/gk", gk_json_get_string(plain->request, "kernels", "."));
    size_t size = 0;
    enum gk_status status = folder && gk ? gk_file_load(path, SOURCE_BYTES_MAX, &text, &size, err)
                                         : gk_fail(err, GK_NOMEM, "out of memory");
    if (status == GK_OK) { /* first: what is compiled */
        status = gk_emu_sources_add(&plain->sources, slash ? slash + 1 : path, text, err);
    }
    status = status == GK_OK ? add_folder(plain, folder, "", err) : status;
    status = status == GK_OK ? add_folder(plain, gk, "gk/", err) : status;
    free(text);
    free(folder);
    free(gk);
    return status;
}

static enum gk_status compile(struct plain *plain, struct gk_err *err)
{
    struct gk_compiler_header *headers = calloc(GK_EMU_SOURCES_MAX, sizeof *headers);
    const char *options[OPTIONS_MAX_PLAIN];
    const struct gk_json *list = gk_json_get(plain->request, "options");
    struct gk_compile_input input = {
        .name = plain->sources.files[0].name,
        .text = plain->sources.files[0].text,
        .headers = headers,
        .options = options,
        .target = plain->device->props.target,
    };
    if (gk_json_count(list) > OPTIONS_MAX_PLAIN) {
        free(headers);
        return gk_fail(err, GK_LIMIT, "--option: more than %d", OPTIONS_MAX_PLAIN);
    }
    if (!headers) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    for (uint32_t i = 1; i < plain->sources.count; i++) {
        headers[input.header_count].name = plain->sources.files[i].name;
        headers[input.header_count++].text = plain->sources.files[i].text;
    }
    for (size_t i = 0; i < gk_json_count(list); i++) {
        options[input.option_count++] = gk_json_string(gk_json_at(list, i), "");
    }
    enum gk_status status = gk_compiler_run(plain->compiler, &input, &plain->code, err);
    free(headers);
    return status;
}

/* True for a name as it is, and for one mangled by C++: "_Z4saxpyifPKfPf" is saxpy. */
static bool is_entry(const char *name, size_t size, const char *wanted)
{
    char mangled[32];
    size_t length = strlen(wanted);
    if (size == length && memcmp(name, wanted, size) == 0) {
        return true;
    }
    int prefix = snprintf(mangled, sizeof mangled, "_Z%zu", length);
    return size > (size_t)prefix + length && memcmp(name, mangled, (size_t)prefix) == 0 &&
           memcmp(name + prefix, wanted, length) == 0;
}

static enum gk_status find_entry(struct plain *plain, struct gk_err *err)
{
    static const char word[] = ".entry ";
    const char *wanted = gk_json_get_string(plain->request, "entry", NULL);
    struct gk_buf names = {0};
    uint32_t count = 0, fits = 0;
    for (const char *at = plain->code.ptx; (at = strstr(at, word)) != NULL;) {
        at += sizeof word - 1;
        size_t size = strcspn(at, "( \t\n");
        gk_buf_printf(&names, "%s%.*s", count++ ? ", " : "", (int)size, at);
        if (!wanted || is_entry(at, size, wanted)) {
            free(plain->entry);
            plain->entry = gk_strndup(at, size);
            fits++;
        }
    }
    enum gk_status status = GK_OK;
    if (fits == 0) {
        status =
            wanted ? gk_fail(err, GK_INPUT, "--entry %s: there is no such kernel; the file has %s",
                             wanted, count ? gk_buf_text(&names) : "none")
                   : gk_fail(err, GK_INPUT, "%s: there is no __global__ function in it",
                             gk_json_get_string(plain->request, "what", "?"));
    } else if (fits > 1) {
        status = gk_fail(err, GK_INPUT, "--entry %s: several kernels are meant; the file has %s",
                         wanted ? wanted : "NAME is missing", gk_buf_text(&names));
    } else if (!plain->entry) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    gk_buf_fini(&names);
    return status;
}

/* ------------------------------------------------------------------ arguments */

static void store_scalar(const struct argument *arg, unsigned char bytes[128])
{
    if (arg->dtype == GK_I64) { /* gk_element_store rounds through a double: whole up to 2^53 */
        int64_t whole = (int64_t)arg->value;
        memcpy(bytes, &whole, sizeof whole);
    } else {
        gk_element_store(arg->dtype, bytes, arg->value);
    }
}

static enum gk_status read_argument(struct plain *plain, uint32_t index, const struct gk_json *json,
                                    struct gk_err *err)
{
    struct argument *arg = &plain->args[index];
    const char *dtype = gk_json_get_string(json, "dtype", "");
    if (!gk_dtype_from_name(dtype, &arg->dtype)) {
        return gk_fail(err, GK_USAGE, "argument %" PRIu32 ": no type '%s'", index, dtype);
    }
    arg->elements = gk_json_get_int(json, "elements", 0);
    arg->is_buffer = gk_json_get(json, "elements") != NULL;
    arg->fill = gk_json_get_string(json, "fill", "none");
    arg->value = gk_json_get_real(json, "value", 0);
    plain->launch.args[index].size = arg->is_buffer ? 8 : gk_dtype_bytes(arg->dtype);
    if (!arg->is_buffer) {
        store_scalar(arg, plain->launch.args[index].bytes);
        return GK_OK;
    }
    char name[32];
    if (arg->elements < 1 || /* a product could wrap */
        (uint64_t)arg->elements > BUFFER_BYTES_MAX / gk_dtype_bytes(arg->dtype)) {
        return gk_fail(err, GK_LIMIT, "argument %" PRIu32 ": %" PRId64 " elements; 1 byte to 1 GiB",
                       index, arg->elements);
    }
    uint64_t bytes = (uint64_t)arg->elements * gk_dtype_bytes(arg->dtype);
    (void)snprintf(name, sizeof name, "argument %" PRIu32, index);
    enum gk_status status = gk_buffer_make(plain->device, name, bytes, 256, &arg->buffer, err);
    memcpy(plain->launch.args[index].bytes, &arg->buffer.address, 8);
    return status;
}

static void read_triple(const struct gk_json *list, uint32_t values[3])
{
    for (size_t i = 0; i < 3; i++) {
        int64_t value = gk_json_int(gk_json_at(list, i), 1);
        values[i] = value < 0 || value > UINT32_MAX ? 0 : (uint32_t)value;
    }
}

static enum gk_status read_launch(struct plain *plain, struct gk_err *err)
{
    const struct gk_json *args = gk_json_get(plain->request, "args");
    read_triple(gk_json_get(plain->request, "grid"), plain->launch.grid);
    read_triple(gk_json_get(plain->request, "block"), plain->launch.block);
    read_triple(gk_json_get(plain->request, "cluster"), plain->launch.cluster);
    plain->launch.smem_bytes = (uint32_t)gk_json_get_int(plain->request, "smem", 0);
    plain->launch.carveout = -1;
    gk_compile_log_read(plain->code.log, plain->entry, &plain->facts);
    plain->launch.regs = plain->facts.regs > 0 ? (uint32_t)plain->facts.regs : REGS_UNKNOWN;
    if (gk_json_count(args) > GK_LAUNCH_ARGS_MAX) {
        return gk_fail(err, GK_LIMIT, "more than %d arguments", GK_LAUNCH_ARGS_MAX);
    }
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < gk_json_count(args) && status == GK_OK; i++) {
        status = read_argument(plain, i, gk_json_at(args, i), err);
        plain->launch.arg_count = i + 1;
    }
    return status;
}

static double filled(const struct argument *arg, struct gk_prng *prng, int64_t index)
{
    if (strcmp(arg->fill, "normal") == 0) {
        return (double)gk_normal_quantiles()[gk_prng_below(prng, GK_QUANTILES)];
    }
    if (strcmp(arg->fill, "uniform") == 0) {
        return gk_prng_unit(prng);
    }
    return strcmp(arg->fill, "iota") == 0 ? (double)index : strtod(arg->fill, NULL);
}

/* Content as it is asked for, before every run. */
static enum gk_status fill(struct plain *plain, uint32_t index, struct gk_err *err)
{
    const struct argument *arg = &plain->args[index];
    uint32_t size = gk_dtype_bytes(arg->dtype);
    struct gk_prng prng;
    if (strcmp(arg->fill, "none") == 0) {
        return gk_buffer_poison(plain->device, &arg->buffer, "\xA5", 1, err);
    }
    unsigned char *bytes = malloc((size_t)arg->buffer.bytes);
    if (!bytes) {
        return gk_fail(err, GK_NOMEM, "out of memory for %" PRIu64 " bytes", arg->buffer.bytes);
    }
    gk_prng_init(&prng, (uint64_t)gk_json_get_int(plain->request, "seed", 1), index);
    for (int64_t i = 0; i < arg->elements; i++) {
        gk_element_store(arg->dtype, bytes + i * size, filled(arg, &prng, i));
    }
    enum gk_status status = plain->device->ops->write(plain->device, arg->buffer.address, bytes,
                                                      arg->buffer.bytes, err);
    free(bytes);
    return status;
}

/* ------------------------------------------------------------------ after a run */

static struct gk_json *buffer_to_json(const struct argument *arg, const unsigned char *bytes,
                                      uint64_t unwritten, bool same)
{
    struct gk_json *json = gk_json_new_object(), *first = gk_json_new_array();
    uint32_t size = gk_dtype_bytes(arg->dtype);
    double least = INFINITY, most = -INFINITY;
    int64_t nonfinite = 0;
    bool good = json && first;
    for (int64_t i = 0; i < arg->elements; i++) {
        double value = gk_element_load(arg->dtype, bytes + i * size);
        if (!isfinite(value)) {
            nonfinite++;
        } else {
            least = value < least ? value : least;
            most = value > most ? value : most;
        }
        if (i < SHOWN_ELEMENTS) {
            good = good && gk_json_push(first, gk_json_new_real(value));
        }
    }
    good = good && gk_json_set_string(json, "dtype", gk_dtype_name(arg->dtype)) &&
           gk_json_set_int(json, "elements", arg->elements) &&
           gk_json_set_string(json, "fill", arg->fill) &&
           gk_json_set_int(json, "unwritten_bytes", (int64_t)unwritten) &&
           gk_json_set_int(json, "nonfinite", nonfinite) && gk_json_set_bool(json, "same", same) &&
           (nonfinite == arg->elements ||
            (gk_json_set_real(json, "least", least) && gk_json_set_real(json, "most", most)));
    if (!gk_json_set(json, "first", first) || !good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

/* Reads the buffers back: as JSON, and whether they are what the first schedule left. */
static enum gk_status look(struct plain *plain, bool is_first, struct gk_json *buffers,
                           struct gk_err *err)
{
    enum gk_status status = GK_OK;
    for (uint32_t i = 0; i < plain->launch.arg_count && status == GK_OK; i++) {
        struct argument *arg = &plain->args[i];
        uint64_t unwritten = 0;
        if (!arg->is_buffer) {
            continue;
        }
        unsigned char *bytes = malloc((size_t)arg->buffer.bytes);
        status = bytes ? plain->device->ops->read(plain->device, arg->buffer.address, bytes,
                                                  arg->buffer.bytes, err)
                       : gk_fail(err, GK_NOMEM, "out of memory");
        if (status == GK_OK) {
            status = plain->device->ops->unwritten(plain->device, arg->buffer.address,
                                                   arg->buffer.bytes, &unwritten, err);
        }
        if (status == GK_OK) {
            struct gk_hash hash = gk_hash_bytes(bytes, (size_t)arg->buffer.bytes);
            arg->first = is_first ? hash : arg->first;
            bool same = gk_hash_equal(&hash, &arg->first);
            plain->same = plain->same && same;
            struct gk_json *json = buffer_to_json(arg, bytes, unwritten, same);
            if (!json || !gk_json_set_int(json, "argument", i) || !gk_json_push(buffers, json)) {
                status = gk_fail(err, GK_NOMEM, "out of memory");
            }
        }
        free(bytes);
    }
    return status;
}

static enum gk_status set_failure(struct plain *plain, const char *schedule, const char *stage,
                                  const char *kind, const char *text, struct gk_err *err)
{
    struct gk_json *json = gk_emu_failure_to_json(&plain->sources, schedule, stage, kind, text);
    return gk_json_set(plain->json, "failure", json) ? GK_OK
                                                     : gk_fail(err, GK_NOMEM, "out of memory");
}

/* ------------------------------------------------------------------ running */

/* One launch under one schedule. *ran_out false: the failure is in the report. */
static enum gk_status run_schedule(struct plain *plain, const char *name, struct gk_json *runs,
                                   bool *ran_out, struct gk_err *err)
{
    struct gk_device_report *result = calloc(1, sizeof *result);
    enum gk_emu_schedule schedule = GK_EMU_LATE;
    enum gk_status status = result ? gk_device_emu_schedule_find(name, &schedule, err)
                                   : gk_fail(err, GK_NOMEM, "out of memory");
    for (uint32_t i = 0; i < plain->launch.arg_count && status == GK_OK; i++) {
        status = plain->args[i].is_buffer ? fill(plain, i, err) : GK_OK;
    }
    if (status == GK_OK) {
        gk_device_emu_schedule(plain->device, schedule);
        status =
            plain->device->ops->launch(plain->device, plain->kernel, &plain->launch, result, err);
    }
    *ran_out = status == GK_OK;
    if (status == GK_TRIAL) {
        status =
            set_failure(plain, name, "run", gk_failure_name(result->failure), result->text, err);
    }
    struct gk_json *run = gk_json_new_object();
    bool good = run && gk_json_set_string(run, "schedule", name) &&
                gk_json_set_bool(run, "ran", *ran_out) &&
                (!*ran_out || gk_json_set_real(run, "modelled_ns", result->ns));
    good = gk_json_push(runs, run) && good && !plain->failed;
    free(result);
    return status == GK_OK && !good ? gk_fail(err, GK_NOMEM, "out of memory") : status;
}

static enum gk_status run_all(struct plain *plain, struct gk_err *err)
{
    const struct gk_json *schedules = gk_json_get(plain->request, "schedules");
    struct gk_json *runs = gk_json_new_array(), *launches = gk_json_new_array(), *buffers = NULL;
    bool ran = false, good = runs && launches;
    enum gk_status status = good ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    plain->same = true;
    for (size_t i = 0; i < gk_json_count(schedules) && status == GK_OK; i++) {
        status = run_schedule(plain, gk_json_string(gk_json_at(schedules, i), ""), runs, &ran, err);
        if (status != GK_OK || !ran) {
            break;
        }
        gk_json_free(buffers);
        buffers = gk_json_new_array();
        status = look(plain, i == 0, buffers, err);
    }
    if (plain->launched) {
        good = gk_json_set_string(plain->launched, "launch", plain->entry) &&
               gk_json_set_string(plain->launched, "kernel", plain->entry) &&
               gk_json_set_int(plain->launched, "regs", plain->facts.regs) &&
               gk_json_set_int(plain->launched, "spill_bytes", plain->facts.spill_bytes) &&
               gk_json_set_int(plain->launched, "static_smem", plain->facts.static_smem) && good;
        good = gk_json_push(launches, plain->launched) && good;
        plain->launched = NULL;
    }
    good = gk_json_set(plain->json, "runs", runs) && good;
    good = gk_json_set(plain->json, "launches", launches) && good;
    good = (!buffers || gk_json_set(plain->json, "buffers", buffers)) && good;
    good = good && gk_json_set_bool(plain->json, "ran", ran) &&
           gk_json_set_bool(plain->json, "same", ran && plain->same);
    if (good && gk_json_get_bool(plain->request, "sources", false)) {
        good = gk_json_set(plain->json, "sources", gk_emu_sources_to_json(&plain->sources));
    }
    return status == GK_OK && !good ? gk_fail(err, GK_NOMEM, "out of memory") : status;
}

static enum gk_status prepare(struct plain *plain, bool *compiled_out, struct gk_err *err)
{
    const struct gk_emu_watch watch = {.launched = watch_launched, .context = plain};
    const struct gk_json *request = plain->request;
    int64_t seed = gk_json_get_int(request, "seed", 1);
    plain->innermost = gk_json_get_bool(request, "innermost", false);
    enum gk_status status = gk_device_emu_open_watched(gk_json_get_string(request, "device", ""),
                                                       (uint64_t)seed, &watch, &plain->device, err);
    status = status == GK_OK ? gather_sources(plain, err) : status;
    status = status == GK_OK ? compile(plain, err) : status;
    if (status != GK_OK) {
        return status;
    }
    plain->json = gk_json_new_object();
    bool good = plain->json &&
                gk_json_set_string(plain->json, "what", gk_json_get_string(request, "what", "")) &&
                gk_json_set_string(plain->json, "arch", plain->device->props.arch) &&
                gk_json_set_int(plain->json, "seed", seed) &&
                gk_json_set_string(plain->json, "nvrtc", gk_compiler_version(plain->compiler)) &&
                gk_json_set_bool(plain->json, "ran", false) &&
                gk_json_set_bool(plain->json, "same", false);
    *compiled_out = plain->code.compiled;
    if (!good) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (!plain->code.compiled) {
        return set_failure(plain, NULL, "compile", "compile_error", plain->code.log, err);
    }
    status = find_entry(plain, err);
    if (status == GK_OK && !gk_json_set_string(plain->json, "entry", plain->entry)) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    }
    return status;
}

enum gk_status gk_emu_plain(const struct gk_json *request, struct gk_compiler *compiler,
                            struct gk_json **report_out, struct gk_err *err)
{
    struct plain *plain = calloc(1, sizeof *plain);
    bool compiled = false;
    if (!plain) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    plain->request = request;
    plain->compiler = compiler;
    enum gk_status status = prepare(plain, &compiled, err);
    if (status == GK_OK && compiled) {
        const struct gk_device_code code = {.ptx = plain->code.ptx,
                                            .ptx_size = plain->code.ptx_size};
        status = plain->device->ops->load(plain->device, &code, &plain->module, err);
        if (status == GK_OK) {
            status = plain->device->ops->find(plain->device, plain->module, plain->entry,
                                              &plain->kernel, err);
        }
        status = status == GK_OK ? read_launch(plain, err) : status;
        status = status == GK_OK ? run_all(plain, err) : status;
    }
    if (status == GK_OK) {
        *report_out = plain->json;
        plain->json = NULL;
    }
    plain_fini(plain);
    return status;
}
