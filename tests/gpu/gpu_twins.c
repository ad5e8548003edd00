/*
 * gpu_twins [DEVICE [TEXT]]: the broken twins of ops (tests/data/bad_kernels/ops.txt) on a real GPU
 * (default cuda:0), and behind them those of far.txt, one at a time, since each takes tens of GB;
 * TEXT confines the run to twins with it in their name.
 *
 * The unchanged sources must be verified and the changed ones rejected, in a process of its own
 * each: some lose the device. Configs are those of the emulated device's run of the same twin, so
 * the GPU counts as having as few SMs. On a GPU results are compared and buffers looked around: a
 * race whose result happens to be right is seen by the rung `emulated` alone, which a worker with
 * --check has too.
 *
 * Sources and the list come from the tree of the build, or from $GKTUNE_SOURCE.
 *
 * Exit status: 0 if every twin was rejected; 1 if one was not, or could not be run; 77 (skipped)
 * where the device cannot be opened for want of a driver or a GPU.
 */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "core/clock.h"
#include "tests/support/source_dir.h"
#include "tests/unit/bad_op.h"
#include "tests/unit/mistake_folder.h"
#include "worker/inspect/inspect.h"
#include "worker/scene.h"

#define SKIPPED      77
#define NOT_VERIFIED 78 /* the unchanged sources were not */
#define JOBS         14 /* at once: compilers have most of the work */
#define CASE_S_MAX   120
#define SCENE_BYTES  ((uint64_t)4 << 30)
#define TEXT_SIZE    700

/* ------------------------------------------------------------------ one twin, in its process */

static enum gk_status open_bench(struct op_trial_rig *rig, const char *device, struct gk_err *err)
{
    const struct gk_compiler_places places = {getenv("GKTUNE_NVRTC"), getenv("CUDA_HOME"),
                                              getenv("VIRTUAL_ENV"), getenv("HOME")};
    enum gk_status status = gk_hash_setup(err);
    status = status == GK_OK ? gk_device_open(device, &rig->device, err) : status;
    status = status == GK_OK ? gk_compiler_open(&places, &rig->compiler, err) : status;
    if (status == GK_OK) {
        rig->references = gk_references_create((size_t)256 << 20);
        rig->bench = (struct gk_trial_bench){.device = rig->device, .references = rig->references};
        status = rig->references ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    }
    if (status != GK_OK || rig->device->props.modelled) { /* as an executor's bench is */
        return status;
    }
    static struct gk_trial_bench checker; /* as a worker with --check has it */
    status = gk_checker_open(rig->device->props.target, &checker, err);
    rig->bench.checker = &checker;
    if (status == GK_OK) {
        status = gk_inspector_create(rig->device, &places, NULL, &rig->bench.inspector, err);
    }
    if (status == GK_OK) {
        rig->bench.scenes = gk_scenes_create(rig->device, rig->bench.inspector, SCENE_BYTES);
        rig->bench.kept = gk_kept_create();
        bool whole = rig->bench.scenes && rig->bench.kept;
        status = whole ? GK_OK : gk_fail(err, GK_NOMEM, "out of memory");
    }
    return status;
}

/* Writes how it ended to `out`; the process ends with the exit status that this returns. */
static int run_twin(const struct bad_op *twin, const char *device, int out)
{
    char kernels[600], root[] = "/tmp/gktune-gpu-twins-XXXXXX", ending[BAD_ENDING_SIZE] = "",
                       message[600] = "";
    struct op_trial_rig rig = {0};
    struct gk_device_props props;
    struct gk_err err = {0};
    enum gk_status status = open_bench(&rig, device, &err);
    if (status == GK_OK) {
        status =
            gk_device_props_builtin(twin->device[0] ? twin->device : "emu:sm_80", &props, &err);
        rig.device->props.sms = props.sms; /* what keeps few SMs busy need not do so with all */
        props.mem_bytes = rig.device->props.mem_bytes;
    }
    if (status != GK_OK) {
        (void)dprintf(out, "%s", err.text);
        return status == GK_MISSING || status == GK_UNSUPPORTED ? SKIPPED : 1;
    }
    (void)snprintf(kernels, sizeof kernels, "%s/kernels", test_source_dir());
    bad_op_run(&rig, &props, twin, kernels, ending, message, sizeof message);
    if (strcmp(ending, "none") != 0) {
        (void)dprintf(out, "%s: %s", ending, message);
        return NOT_VERIFIED;
    }
    mistake_folder_make(&twin->change, twin->op, root);
    bad_op_run(&rig, &props, twin, root, ending, message, sizeof message);
    mistake_folder_remove(root);
    (void)dprintf(out, "%s", ending);
    return 0;
}

/* ------------------------------------------------------------------ all twins */

struct job {
    const struct bad_op *twin; /* NULL: free */
    pid_t child;
    int pipe;
    uint64_t begin_ns;
};

struct score {
    uint32_t rejected, passed, failed, skipped;
};

static bool begin(struct job *job, const struct bad_op *twin, const char *device, uint64_t now_ns)
{
    int ends[2];
    (void)fflush(stdout);
    if (pipe(ends) != 0) {
        return false;
    }
    pid_t child = fork();
    if (child == 0) {
        (void)close(ends[0]);
        _exit(run_twin(twin, device, ends[1])); /* a driver's handlers may wait for ever */
    }
    (void)close(ends[1]);
    *job = (struct job){.twin = twin, .child = child, .pipe = ends[0], .begin_ns = now_ns};
    if (child < 0) {
        (void)close(ends[0]);
        job->twin = NULL;
    }
    return child > 0;
}

/* Whether the changed sources ran at all: to be refused for one's registers says nothing. */
static bool of_the_verifier(const char *ending)
{
    static const char *const BEFORE[] = {
        "illegal_config",          "compile_error", "compile_timeout",  "compile_memory",
        "compile_crash",           "resources",     "load_error",       "device_memory",
        "unsupported_instruction", "work_limit",    "reference_failed", "infrastructure"};
    bool ran = true;
    for (size_t i = 0; i < GK_ARRAY_COUNT(BEFORE); i++) {
        ran = ran && strcmp(ending, BEFORE[i]) != 0;
    }
    return ran;
}

/* Its end, once it has one; one that has not come to it in time is killed. */
static void end(struct job *job, uint64_t now_ns, struct score *score)
{
    char text[TEXT_SIZE] = "";
    int how = 0;
    bool late = now_ns - job->begin_ns > (uint64_t)CASE_S_MAX * 1000000000u;
    if (late) {
        (void)kill(job->child, SIGKILL);
    }
    if (waitpid(job->child, &how, late ? 0 : WNOHANG) != job->child) {
        return;
    }
    ssize_t got = read(job->pipe, text, sizeof text - 1); /* less than a pipe holds */
    text[got > 0 ? got : 0] = '\0';
    (void)close(job->pipe);
    int result = WIFEXITED(how) ? WEXITSTATUS(how) : 1;
    const char *name = job->twin->change.name, *wants = job->twin->change.wants;
    if (result == SKIPPED) {
        if (score->skipped++ == 0) { /* nor are the others run */
            (void)printf("skipped   %s\n", text);
        }
    } else if (result != 0) {
        score->failed++;
        (void)printf("FAILED    %s: %s%s\n", name,
                     late                     ? "it did not end in time: "
                     : result == NOT_VERIFIED ? "the unchanged sources end as "
                                              : "",
                     text);
    } else if (!of_the_verifier(text)) {
        score->failed++;
        (void)printf("FAILED    %s: it was not run: %s\n", name, text);
    } else if (strcmp(text, "none") == 0) {
        score->passed++;
        (void)printf("PASSED    %s: emulated: %s\n", name, wants);
    } else {
        score->rejected++;
        (void)printf("rejected  %s: %s\n", name, text);
    }
    job->twin = NULL;
}

static void run_all(const struct bad_op *twins, uint32_t count, uint32_t at_once,
                    const char *device, const char *wanted, struct score *score)
{
    struct gk_clock clock = gk_clock_real();
    struct job jobs[JOBS] = {0};
    uint32_t next = 0, busy = 0;
    do {
        busy = 0;
        for (uint32_t i = 0; i < at_once; i++) {
            while (!jobs[i].twin && next < count && score->skipped == 0) {
                const struct bad_op *twin = &twins[next++];
                if (strstr(twin->change.name, wanted) &&
                    !begin(&jobs[i], twin, device, clock.monotonic_ns(clock.context))) {
                    score->failed++;
                    (void)printf("FAILED    %s: no process\n", twin->change.name);
                }
            }
            if (jobs[i].twin) {
                end(&jobs[i], clock.monotonic_ns(clock.context), score);
            }
            busy += jobs[i].twin != NULL;
        }
        (void)poll(NULL, 0,
                   5); /* a child's end is asked for: there is nothing to wait on for all */
    } while (busy > 0 || (next < count && score->skipped == 0));
}

int main(int argc, char **argv)
{
    const struct gk_device_places places = {.cuda = getenv("GKTUNE_CUDA"),
                                            .nvml = getenv("GKTUNE_NVML")};
    const char *device = argc > 1 ? argv[1] : "cuda:0", *wanted = argc > 2 ? argv[2] : "";
    struct score score = {0};
    uint32_t count = 0;
    gk_device_set_places(&places);
    const struct bad_op *twins = bad_ops(&count);
    run_all(twins, count, JOBS, device, wanted, &score);
    if (strncmp(device, "cuda", 4) == 0) { /* an emulated one has tests/unit/test_far.c */
        twins = bad_ops_far(&count);
        run_all(twins, count, 1, device, wanted, &score);
    }
    (void)printf("%u rejected, %u passed, %u failed, %u skipped\n", score.rejected, score.passed,
                 score.failed, score.skipped);
    if (score.skipped > 0 && score.rejected + score.passed + score.failed == 0) {
        return SKIPPED;
    }
    return score.rejected > 0 && score.passed + score.failed + score.skipped == 0 ? 0 : 1;
}
