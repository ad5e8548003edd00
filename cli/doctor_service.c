/* See doctor.h. Nothing here is kept: the probe of the disk removes its file again. */
#include "cli/doctor.h"
#include "cli/programs.h"
#include "core/key_list.h"
#include "core/state_dir.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/timex.h>
#include <sys/vfs.h>
#include <unistd.h>

#define SYNC_PROBES   17
#define SYNC_BYTES    4096
#define SYNC_LEAST_NS 20000 /* no device makes 4 KiB durable faster */
#define SYNC_SLOW_NS  50000000
#define WAL_MOST      (64u << 20)
#define DISK_LOW      (UINT64_C(64) << 20) /* gktuned's default mark (disk_low) */
#define STORE_ID      0x676b7431u          /* "gkt1" at byte 68: SQLite's application id */
#define ANALYZE_MS    20000
#define EXPOSURE_MOST 2.0 /* what the shipped units are tested to stay under */

/* ------------------------------------------------------------------ the state folder */

static uint32_t big_endian(const unsigned char *at)
{
    return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* What its first hundred bytes say: the daemon owns the rest, and reading it is `gktune db check`.
 */
static void check_store(struct gk_doctor *doctor, const char *state)
{
    unsigned char head[100] = {0};
    struct stat info, wal = {0};
    char *path = gk_asprintf("%s/%s", state, GK_STATE_STORE),
         *wal_path = gk_asprintf("%s/%s-wal", state, GK_STATE_STORE);
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW) : -1;
    if (fd < 0 || fstat(fd, &info) != 0) {
        gk_doctor_line(doctor, "store", errno == ENOENT ? GK_DOCTOR_OK : GK_DOCTOR_WARN, NULL,
                       errno == ENOENT ? "none yet" : "%s cannot be read",
                       path ? path : GK_STATE_STORE);
    } else if (pread(fd, head, sizeof head, 0) != (ssize_t)sizeof head ||
               memcmp(head, "SQLite format 3", 16) != 0 || big_endian(head + 68) != STORE_ID) {
        /* A store that was never checkpointed is all in its WAL; before it is an empty page. */
        bool one_page = memcmp(head, "SQLite format 3", 16) == 0 &&
                        info.st_size <= (off_t)(head[16] << 8 | head[17]);
        bool fresh = (info.st_size == 0 || one_page) && wal_path && stat(wal_path, &wal) == 0 &&
                     wal.st_size > 0;
        gk_doctor_line(
            doctor, "store", fresh ? GK_DOCTOR_OK : GK_DOCTOR_MISSING,
            "Keep a copy, then restore the last backup into another state folder: "
            "gktune db restore FILE --state DIR.",
            fresh ? "%s: all of it is in the write-ahead log" : "%s is no store of gktune", path);
    } else {
        bool has_wal = wal_path && stat(wal_path, &wal) == 0;
        bool large = has_wal && wal.st_size > (off_t)WAL_MOST;
        gk_doctor_line(doctor, "store", large ? GK_DOCTOR_WARN : GK_DOCTOR_OK,
                       "The write-ahead log does not shrink: a full disk, or a reader that stays.",
                       "schema %" PRIu32 ", %" PRIu64 " KiB, write-ahead log %" PRIu64
                       " KiB (gktune db check reads all of it)",
                       big_endian(head + 60), (uint64_t)info.st_size >> 10,
                       (uint64_t)wal.st_size >> 10);
    }
    if (fd >= 0) {
        (void)close(fd); /* it was only read */
    }
    free(path);
    free(wal_path);
}

static int by_size(const void *a, const void *b)
{
    uint64_t left = *(const uint64_t *)a, right = *(const uint64_t *)b;
    return left < right ? -1 : left > right;
}

/* Median of writing 4 KiB and waiting until they are durable; 0: it cannot be done. */
static uint64_t sync_ns(struct gk_doctor *doctor, const char *state)
{
    char bytes[SYNC_BYTES] = {0};
    uint64_t took[SYNC_PROBES];
    const struct gk_clock *clock = &doctor->cli->clock;
    char *path = gk_asprintf("%s/doctor-XXXXXX", state);
    int fd = path ? mkostemp(path, O_CLOEXEC) : -1;
    uint32_t done = 0;
    for (; fd >= 0 && done < SYNC_PROBES; done++) {
        uint64_t start = clock->monotonic_ns(clock->context);
        bytes[0] = (char)done;
        if (pwrite(fd, bytes, sizeof bytes, (off_t)done * SYNC_BYTES) != (ssize_t)sizeof bytes ||
            fdatasync(fd) != 0) {
            break;
        }
        took[done] = clock->monotonic_ns(clock->context) - start;
    }
    if (fd >= 0) {
        (void)close(fd); /* a probe */
        (void)unlink(path);
    }
    free(path);
    if (done < SYNC_PROBES) {
        return 0;
    }
    qsort(took, SYNC_PROBES, sizeof took[0], by_size);
    return took[SYNC_PROBES / 2];
}

static void check_sync(struct gk_doctor *doctor, const char *state)
{
    struct statfs info;
    bool memory = statfs(state, &info) == 0 &&
                  ((unsigned)info.f_type == TMPFS_MAGIC || (unsigned)info.f_type == RAMFS_MAGIC);
    uint64_t median = sync_ns(doctor, state);
    if (memory) {
        gk_doctor_line(doctor, "fsync", GK_DOCTOR_WARN,
                       "Choose a folder on a disk: a reboot takes this one with everything in it.",
                       "%s lies in memory", state);
    } else if (median == 0) {
        gk_doctor_line(doctor, "fsync", GK_DOCTOR_WARN, "Is the disk full, or read-only?",
                       "nothing can be written to %s: %s", state, strerror(errno));
    } else if (median < SYNC_LEAST_NS) {
        gk_doctor_line(doctor, "fsync", GK_DOCTOR_WARN,
                       "Something below says that it is durable and is not (a write cache without "
                       "a battery, eatmydata, a virtual disk): a power cut loses what was "
                       "acknowledged.",
                       "4 KiB are durable after %.1f us: no disk is that fast",
                       (double)median / 1e3);
    } else {
        gk_doctor_line(doctor, "fsync", median > SYNC_SLOW_NS ? GK_DOCTOR_WARN : GK_DOCTOR_OK,
                       "Every tick of the daemon waits for it: use a faster disk.",
                       "4 KiB are durable after %.2f ms", (double)median / 1e6);
    }
}

static void check_disk(struct gk_doctor *doctor, const char *state)
{
    struct statvfs info;
    struct stat ballast = {0};
    char *path = gk_asprintf("%s/" GK_STATE_BALLAST, state);
    if (statvfs(state, &info) == 0) {
        uint64_t bytes = (uint64_t)info.f_bavail * info.f_frsize;
        bool has = path && stat(path, &ballast) == 0;
        gk_doctor_line(doctor, "disk", bytes < 2 * DISK_LOW ? GK_DOCTOR_WARN : GK_DOCTOR_OK,
                       "Below 64 MB (disk_low) no new work is taken. A full disk: gktune doctor "
                       "--free-ballast.",
                       "%" PRIu64 " MB free for %s, %s%" PRIu64 " KiB", bytes >> 20, state,
                       has ? "and a ballast of " : "no ballast: ", (uint64_t)ballast.st_size >> 10);
    }
    free(path);
}

/* Files with a secret in them are their owner's alone; the list of admitted keys is nobody else's
 * to write. */
static void check_keys(struct gk_doctor *doctor, const char *state)
{
    static const struct {
        const char *name;
        unsigned forbidden;
    } files[] = {{GK_STATE_SERVER_KEY, 077}, {GK_STATE_KEYS, 022}};
    uint32_t count = 0, bad = 0;
    for (size_t i = 0; i < GK_ARRAY_COUNT(files); i++) {
        struct stat info;
        char *path = gk_asprintf("%s/%s", state, files[i].name);
        if (path && lstat(path, &info) == 0) {
            bool wrong = (info.st_mode & files[i].forbidden) != 0 || info.st_uid != geteuid() ||
                         !S_ISREG(info.st_mode);
            count++;
            bad += wrong;
            if (wrong) {
                gk_doctor_line(doctor, "keys", GK_DOCTOR_MISSING,
                               "chmod 600, owned by the daemon's user: nobody else may have it.",
                               "%s: mode %04o, user %u", path, (unsigned)(info.st_mode & 07777),
                               (unsigned)info.st_uid);
            }
        }
        free(path);
    }
    if (count > 0 && bad == 0) {
        gk_doctor_line(doctor, "keys", GK_DOCTOR_OK, NULL, "their files are private");
    }
}

void gk_doctor_state(struct gk_doctor *doctor, const char *state)
{
    check_store(doctor, state);
    check_disk(doctor, state);
    check_sync(doctor, state);
    check_keys(doctor, state);
}

/* ------------------------------------------------------------------ the rest of a service */

static void check_zmq(struct gk_doctor *doctor)
{
    typedef void (*version_fn)(int *, int *, int *);
    int major = 0, minor = 0, patch = 0;
    void *library = dlopen("libzmq.so.5", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library ? dlsym(library, "zmq_version") : NULL;
    version_fn version = NULL;
    if (!symbol) {
        gk_doctor_line(doctor, "zeromq", GK_DOCTOR_MISSING, "Install libzmq5.",
                       "libzmq.so.5 not found");
        return;
    }
    memcpy(&version, &symbol, sizeof version);
    version(&major, &minor, &patch);
    bool bad = major < 4 || (major == 4 && (minor < 3 || (minor == 3 && patch < 3)));
    gk_doctor_line(doctor, "zeromq", bad ? GK_DOCTOR_MISSING : GK_DOCTOR_OK,
                   "4.3.3 or newer is needed: before, connections that say nothing shut out those "
                   "with keys (CVE-2020-15166).",
                   "%d.%d.%d", major, minor, patch);
}

static void check_clock(struct gk_doctor *doctor)
{
    struct timex state = {0};
    int rc = adjtimex(&state);
    bool synced = rc >= 0 && rc != TIME_ERROR && !(state.status & STA_UNSYNC);
    gk_doctor_line(
        doctor, "clock", synced ? GK_DOCTOR_OK : GK_DOCTOR_WARN,
        "Nothing expires by it, but times in logs, listings and ages of backups are off: "
        "run chrony or systemd-timesyncd.",
        synced ? "synchronised" : "not synchronised by any service");
}

/* "-> Overall exposure level for gktuned.service: 1.3 OK" */
static bool exposure_of(const char *text, double *exposure_out)
{
    const char *at = strstr(text, "verall exposure level for ");
    at = at ? strchr(at, ':') : NULL;
    return at && sscanf(at, ": %lf", exposure_out) == 1;
}

static void check_unit(struct gk_doctor *doctor, const char *path)
{
    const char *const argv[] = {"systemd-analyze", "security", "--offline=true",
                                "--no-pager",      path,       NULL};
    struct gk_child child = {.in_fd = -1, .out_fd = -1};
    struct gk_buf text = {0};
    struct gk_err err = {0};
    double exposure = 0;
    if (gk_child_start("/usr/bin", argv, "/dev/null", true, &child, &err) != GK_OK) {
        return; /* no systemd here: nothing to score */
    }
    enum gk_status status = gk_child_output(&child, 1 << 20, &text, &err);
    (void)gk_child_ended(&child, ANALYZE_MS);
    gk_child_stop(&child, 1000);
    if (status == GK_OK && exposure_of(gk_buf_text(&text), &exposure)) {
        gk_doctor_line(doctor, "unit", exposure > EXPOSURE_MOST ? GK_DOCTOR_WARN : GK_DOCTOR_OK,
                       "deploy/systemd has units that stay under 2.0.", "%s: exposure %.1f", path,
                       exposure);
    }
    gk_buf_fini(&text);
}

static void check_units(struct gk_doctor *doctor)
{
    static const char *const folders[] = {"/etc/systemd/system", "/usr/lib/systemd/system",
                                          "/lib/systemd/system"};
    static const char *const units[] = {"gktuned.service", "gktune-worker@.service"};
    for (size_t u = 0; u < GK_ARRAY_COUNT(units); u++) {
        for (size_t f = 0; f < GK_ARRAY_COUNT(folders); f++) {
            char path[128];
            (void)snprintf(path, sizeof path, "%s/%s", folders[f], units[u]);
            if (access(path, R_OK) == 0) {
                check_unit(doctor, path);
                break;
            }
        }
    }
}

void gk_doctor_service(struct gk_doctor *doctor)
{
    check_zmq(doctor);
    check_clock(doctor);
    check_units(doctor);
}

enum gk_status gk_doctor_free_ballast(struct gk_cli *cli, struct gk_err *err)
{
    if (!cli->state_dir) {
        return gk_fail(err, cli->state_error.status, "%s", cli->state_error.text);
    }
    struct stat info = {0};
    char *path = gk_asprintf("%s/" GK_STATE_BALLAST, cli->state_dir);
    enum gk_status status = GK_OK;
    if (!path) {
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (lstat(path, &info) != 0 || !S_ISREG(info.st_mode)) {
        status = gk_fail(err, GK_NOT_FOUND, "%s: there is no ballast to free: %s", path,
                         errno ? strerror(errno) : "not a file");
    } else if (unlink(path) != 0) {
        status = gk_fail(err, GK_IO, "%s: %s", path, strerror(errno));
    } else if (!cli->json) {
        (void)printf("%" PRIu64
                     " KiB freed; gktuned makes a new ballast when there is room again\n",
                     (uint64_t)info.st_size >> 10);
    } else {
        struct gk_json *json = gk_json_new_object();
        (void)gk_json_set_int(json, "freed_bytes",
                              info.st_size); /* printing says what is missing */
        status = gk_print_json(cli, json, err);
        gk_json_free(json);
    }
    free(path);
    return status;
}
