/*
 * gktune doctor: what this machine has and lacks, a line each: ok, warn or missing, with advice.
 *
 * The compiler and the GPUs are told by gktune-worker, which will need them. Nothing else is
 * started but systemd-analyze where it is, and nothing is written but a probe of the disk that is
 * removed again.
 */
#include "cli/doctor.h"
#include "cli/gpus.h"
#include "core/state_dir.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/utsname.h>
#include <unistd.h>

static const char *const mark_names[] = {"ok", "warn", "missing"};

void gk_doctor_line(struct gk_doctor *report, const char *name, enum gk_doctor_mark mark,
                    const char *advice, const char *format, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, format);
    (void)vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    report->something_missing |= mark == GK_DOCTOR_MISSING;
    report->warnings += mark == GK_DOCTOR_WARN;
    if (!report->lines) {
        (void)printf("%-8s %-14s %s\n", mark_names[mark], name, text);
        if (mark != GK_DOCTOR_OK && advice) {
            (void)printf("%-8s %-14s   %s\n", "", "", advice);
        }
        return;
    }
    struct gk_json *json = gk_json_new_object();
    (void)gk_json_set_string(json, "check", name);
    (void)gk_json_set_string(json, "state", mark_names[mark]);
    (void)gk_json_set_string(json, "text", text);
    if (mark != GK_DOCTOR_OK && advice) {
        (void)gk_json_set_string(json, "advice", advice);
    }
    (void)gk_json_push(report->lines, json);
}

/* The compiler as a worker of this folder finds it: $GKTUNE_NVRTC, then the usual places. */
static void check_nvrtc(struct gk_doctor *report, const struct gk_json *nvrtc)
{
    const char *version = gk_json_get_string(nvrtc, "version", "");
    int major = 0, minor = 0;
    if (sscanf(version, "%d.%d", &major, &minor) != 2) {
        gk_doctor_line(
            report, "nvrtc", GK_DOCTOR_MISSING,
            "Install a CUDA toolkit, or name the library or its folder by $GKTUNE_NVRTC, or the "
            "toolkit by $CUDA_HOME. No GPU is needed.",
            "nothing can be compiled: %s", gk_json_get_string(nvrtc, "why", "no answer"));
        return;
    }
    gk_doctor_line(
        report, "nvrtc", major > 12 || (major == 12 && minor >= 3) ? GK_DOCTOR_OK : GK_DOCTOR_WARN,
        "12.3 or newer is tested", "%s, %s", version, gk_json_get_string(nvrtc, "file", "?"));
}

/* "h200-132sm, 700 W of 700, vbios ..; cuda:0" and who else is there. */
static void check_gpu(struct gk_doctor *report, const struct gk_json *gpu, size_t index)
{
    const struct gk_json *processes = gk_json_get(gpu, "processes");
    int64_t limit = gk_json_get_int(gpu, "power_limit_w", -1);
    int64_t usual = gk_json_get_int(gpu, "power_default_w", -1);
    int64_t holder = gk_json_get_int(gpu, "holder", 0);
    struct gk_buf others = {0}, power = {0};
    char name[32];
    (void)snprintf(name, sizeof name, "cuda:%zu", index);
    for (size_t i = 0; i < gk_json_count(processes); i++) {
        gk_buf_printf(&others, "%s%" PRId64, i ? ", " : "; in use by process ",
                      gk_json_int(gk_json_at(processes, i), -1));
    }
    if (limit >= 0) {
        gk_buf_printf(&power, ", %" PRId64 " W", limit);
    }
    if (usual >= 0 && usual != limit) {
        gk_buf_printf(&power, " (its own limit is %" PRId64 " W)", usual);
    }
    bool busy = gk_json_count(processes) > (holder == 0 ? 0 : 1); /* a worker's executor is one */
    char held[64] = "";
    if (holder > 0) {
        (void)snprintf(held, sizeof held, "; held by a gktune-worker, process %" PRId64, holder);
    } else if (holder < 0) {
        (void)snprintf(held, sizeof held, "; held by a gktune-worker");
    }
    gk_doctor_line(
        report, name, busy ? GK_DOCTOR_WARN : GK_DOCTOR_OK,
        "Another program computes there: times taken beside it are not the kernel's own.",
        "%s, %s, %" PRId64 " GB%s, %s%s%s%s%s", gk_json_get_string(gpu, "name", "?"),
        gk_json_get_string(gpu, "gpu", "?"), gk_json_get_int(gpu, "mem_bytes", 0) >> 30,
        gk_buf_text(&power), gk_json_get_string(gpu, "uuid", "?"),
        *gk_json_get_string(gpu, "vbios", "") ? ", VBIOS " : "",
        gk_json_get_string(gpu, "vbios", ""), held, gk_buf_text(&others));
    gk_buf_fini(&others);
    gk_buf_fini(&power);
}

static void check_driver(struct gk_doctor *report, const struct gk_json *list)
{
    const struct gk_json *devices = gk_json_get(list, "devices");
    const char *nvml = gk_json_get_string(list, "nvml", "");
    if (gk_json_count(devices) == 0) {
        gk_doctor_line(report, "cuda driver", GK_DOCTOR_WARN,
                       "Without a GPU everything runs on the emulated device; times are modelled.",
                       "%s", gk_json_get_string(list, "why", "no CUDA device"));
        return;
    }
    gk_doctor_line(report, "cuda driver", GK_DOCTOR_OK, NULL, "driver for CUDA %s, %s",
                   gk_json_get_string(list, "cuda", "?"), gk_json_get_string(list, "file", "?"));
    gk_doctor_line(
        report, "nvml", *nvml ? GK_DOCTOR_OK : GK_DOCTOR_WARN,
        "Clocks, power and throttling are then not known. libnvidia-ml.so.1 comes with the driver.",
        "%s%s", *nvml ? "driver " : "libnvidia-ml.so.1 does not open or does not know the GPU",
        nvml);
    for (size_t i = 0; i < gk_json_count(devices); i++) {
        check_gpu(report, gk_json_at(devices, i), i);
    }
}

/* What gktune-worker finds: it is the program that will need it. */
static void check_worker_tools(struct gk_doctor *report)
{
    struct gk_json *list = NULL;
    struct gk_err err = {0};
    if (gk_gpus_list(report->cli->exe_dir, &list, &err) != GK_OK) {
        gk_doctor_line(report, "cuda", GK_DOCTOR_WARN,
                       "Neither the compiler nor the driver could be asked for.", "%s", err.text);
        return;
    }
    check_nvrtc(report, gk_json_get(list, "nvrtc"));
    check_driver(report, list);
    gk_json_free(list);
}

/* SQLite's library, not its header: the daemon links the same one. */
static void check_sqlite(struct gk_doctor *report)
{
    typedef const char *(*text_fn)(void);
    typedef int (*number_fn)(void);
    void *library = dlopen("libsqlite3.so.0", RTLD_NOW | RTLD_LOCAL);
    void *text_symbol = library ? dlsym(library, "sqlite3_libversion") : NULL;
    void *number_symbol = library ? dlsym(library, "sqlite3_libversion_number") : NULL;
    if (!text_symbol || !number_symbol) {
        gk_doctor_line(report, "sqlite", GK_DOCTOR_MISSING, "Install libsqlite3-0.",
                       "libsqlite3.so.0 not found");
        return;
    }
    text_fn text = NULL;
    number_fn number = NULL;
    memcpy(&text, &text_symbol, sizeof text);
    memcpy(&number, &number_symbol, sizeof number);
    int version = number();
    bool fixed = version >= 3051003 || version == 3050007 || version == 3044006;
    gk_doctor_line(
        report, "sqlite", GK_DOCTOR_OK, NULL, "%s%s", text(),
        fixed ? ""
              : " (has the WAL-reset race of two connections; gktuned opens exactly one, "
                "exclusively, so it cannot happen here: do not open the store with another "
                "program)");
}

static void check_program(struct gk_doctor *report, const char *name)
{
    char path[4400];
    (void)snprintf(path, sizeof path, "%s/%s", report->cli->exe_dir ? report->cli->exe_dir : ".",
                   name);
    if (access(path, X_OK) == 0) {
        gk_doctor_line(report, name, GK_DOCTOR_OK, NULL, "%s", path);
    } else {
        gk_doctor_line(report, name, GK_DOCTOR_MISSING,
                       "It must stand beside gktune; build or install it again.", "%s: %s", path,
                       strerror(errno));
    }
}

static void check_sandbox(struct gk_doctor *report)
{
    static const char *const paths[] = {"/usr/bin/bwrap", "/usr/local/bin/bwrap", "/bin/bwrap"};
    const char *given = report->cli->bwrap;
    for (size_t i = 0; i < (given ? 1 : GK_ARRAY_COUNT(paths)); i++) {
        const char *path = given ? given : paths[i];
        if (access(path, X_OK) == 0) {
            gk_doctor_line(report, "bwrap", GK_DOCTOR_OK, NULL,
                           "%s (workers probe at start whether it works here)", path);
            return;
        }
    }
    gk_doctor_line(report, "bwrap", GK_DOCTOR_WARN,
                   "Install bubblewrap: compile processes are then shut in, not only limited.",
                   "bubblewrap was not found: compile processes have resource limits alone, and a "
                   "worker over tcp compiles nothing unless it has --allow-unsandboxed");
}

static void check_kernels(struct gk_doctor *report)
{
    struct gk_err err = {0};
    struct gk_catalog *catalog = NULL;
    if (gk_load_catalog(report->cli, NULL, &catalog, &err) != GK_OK) {
        gk_doctor_line(report, "kernels", GK_DOCTOR_MISSING, "Name the folder by --kernels.", "%s",
                       err.text);
        return;
    }
    gk_doctor_line(report, "kernels", GK_DOCTOR_OK, NULL, "%s: %" PRIu32 " op%s",
                   report->cli->kernels_dir, gk_catalog_op_count(catalog),
                   gk_catalog_op_count(catalog) == 1 ? "" : "s");
    gk_catalog_destroy(catalog);
}

static void check_lock(struct gk_doctor *report, const char *state)
{
    char *path = gk_asprintf("%s/%s", state, GK_STATE_LOCK), *text = NULL;
    size_t size = 0;
    if (path && gk_file_load(path, 4096, &text, &size, NULL) == GK_OK && size > 0) {
        struct gk_json *lock = NULL;
        for (char *p = text; *p; p++) {
            *p = *p == '\n' ? ' ' : *p;
        }
        gk_doctor_line(report, "daemon", GK_DOCTOR_OK, NULL, "%s says: %s", GK_STATE_LOCK, text);
        if (gk_json_parse(text, size, GK_STATE_LOCK, &lock, NULL) == GK_OK) {
            gk_doctor_door(report, state, gk_json_get(lock, "listen"));
        }
        gk_json_free(lock);
    } else {
        gk_doctor_line(report, "daemon", GK_DOCTOR_OK, NULL, "none: commands start a private one");
    }
    free(text);
    free(path);
}

static void check_state(struct gk_doctor *report)
{
    const char *state = report->cli->state_dir;
    struct stat info;
    if (!state) {
        gk_doctor_line(report, "state", GK_DOCTOR_MISSING, NULL, "%s",
                       report->cli->state_error.text);
        return;
    }
    if (strlen(state) + 1 + strlen(GK_STATE_SOCKET) > 107) {
        gk_doctor_line(report, "state", GK_DOCTOR_WARN,
                       "Choose a shorter one by --state or $GKTUNE_STATE.",
                       "'%s' is too long for a socket path in it", state);
        return;
    }
    if (stat(state, &info) != 0) {
        gk_doctor_line(report, "state", errno == ENOENT ? GK_DOCTOR_OK : GK_DOCTOR_WARN,
                       "Set another one by --state or $GKTUNE_STATE.", "%s (%s)", state,
                       errno == ENOENT ? "will be made" : strerror(errno));
        return;
    }
    if (!S_ISDIR(info.st_mode) || access(state, R_OK | W_OK | X_OK) != 0) {
        gk_doctor_line(report, "state", GK_DOCTOR_MISSING,
                       "Set another one by --state or $GKTUNE_STATE.", "%s cannot be written",
                       state);
        return;
    }
    gk_doctor_line(report, "state", (info.st_mode & 077) ? GK_DOCTOR_WARN : GK_DOCTOR_OK,
                   "Others can look into it: chmod 700.", "%s (mode %04o)", state,
                   (unsigned)(info.st_mode & 07777));
    check_lock(report, state);
    gk_doctor_state(report, state);
}

static void check_limits(struct gk_doctor *report)
{
    struct rlimit files = {0};
    struct utsname name;
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        gk_doctor_line(report, "open files", files.rlim_cur < 1024 ? GK_DOCTOR_WARN : GK_DOCTOR_OK,
                       "A daemon needs one for each worker: ulimit -n 4096.",
                       "%" PRIu64 " (at most %" PRIu64 ")", (uint64_t)files.rlim_cur,
                       (uint64_t)files.rlim_max);
    }
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    gk_doctor_line(report, "machine", GK_DOCTOR_OK, NULL, "%ld cores, %ld MB of memory%s%s",
                   sysconf(_SC_NPROCESSORS_ONLN), pages / 1024 * (page / 1024),
                   uname(&name) == 0 ? ", Linux " : "", name.release);
}

enum gk_status gk_cmd_doctor(struct gk_cli *cli, struct gk_err *err)
{
    static const char *const of_bundles[] = {"log", "config", "http"};
    if (gk_options_has(&cli->options, "free-ballast")) {
        return gk_doctor_free_ballast(cli, err);
    }
    const char *bundle = gk_options_get(&cli->options, "bundle");
    struct gk_doctor report = {.cli = cli,
                               .lines = cli->json || bundle ? gk_json_new_array() : NULL};
    for (size_t i = 0; !bundle && i < GK_ARRAY_COUNT(of_bundles); i++) {
        if (gk_options_has(&cli->options, of_bundles[i])) {
            return gk_fail(err, GK_USAGE, "--%s is for --bundle FILE", of_bundles[i]);
        }
    }
    check_worker_tools(&report);
    check_sqlite(&report);
    check_program(&report, "gktuned");
    check_program(&report, "gktune-worker");
    check_sandbox(&report);
    check_kernels(&report);
    check_state(&report);
    check_limits(&report);
    gk_doctor_service(&report);
    gk_doctor_daemon(&report);
    if (bundle) { /* of a machine that lacks something, too: that is what reports are about */
        return gk_doctor_bundle(&report, bundle, err);
    }
    enum gk_status status = GK_OK;
    if (cli->json) {
        struct gk_json *json = gk_json_new_object();
        (void)gk_json_set(json, "checks", report.lines);
        (void)gk_json_set_bool(json, "ok", !report.something_missing);
        status = gk_print_json(cli, json, err);
        gk_json_free(json);
    }
    if (status == GK_OK && report.something_missing) {
        status = gk_fail(err, GK_MISSING, "something that is needed is missing");
    }
    return status;
}
