/*
 * gktune run: from a shapes file to verified winners in one command.
 *
 * Everything is checked before anything is stored. A private daemon and a worker are started where
 * none serve; both are started again when they die. Ctrl-C once asks the daemon to judge what is
 * there, twice stops: the job stays unfinished in the store and the same command goes on with it.
 */
#include "cli/crew.h"
#include "cli/ending.h"
#include "cli/export.h"
#include "cli/follow.h"
#include "cli/request.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#define GPU_START_NS UINT64_C(60000000000) /* a driver that has to load itself takes seconds */

static volatile sig_atomic_t interrupts;

static void on_interrupt(int number)
{
    (void)number;
    interrupts++;
}

static void catch_interrupts(void)
{
    struct sigaction action = {.sa_handler = on_interrupt};
    (void)sigemptyset(&action.sa_mask);
    /* no SA_RESTART: waits end early, so that the answer to Ctrl-C is prompt */
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
}

struct run {
    struct gk_cli *cli;
    struct gk_client *client;
    struct gk_crew crew;
    struct gk_follow follow;
    struct gk_progress progress;
    int64_t job;
    bool has_crew;
    bool finish_asked;
    bool disk_told; /* that the disk is full was said, and room was not seen since */
};

/* As the daemon's low-water mark (daemon/core.h): below it results wait in the worker's spool. */
#define DISK_LOW_BYTES (UINT64_C(64) << 20)

/* A full disk stops work in the daemon, which nobody sees who watches a progress line. */
static void watch_disk(struct run *run)
{
    struct statvfs info;
    if (!run->cli->state_dir || statvfs(run->cli->state_dir, &info) != 0) {
        return;
    }
    uint64_t free_bytes = (uint64_t)info.f_bavail * info.f_frsize;
    bool low = free_bytes < DISK_LOW_BYTES;
    if (low && !run->disk_told) {
        gk_progress_note(&run->progress,
                         "the disk of %s is full (%" PRIu64 " MB free, %" PRIu64
                         " MB are needed): work waits until there is room; nothing is lost",
                         run->cli->state_dir, free_bytes >> 20, DISK_LOW_BYTES >> 20);
    } else if (!low && run->disk_told) {
        gk_progress_note(&run->progress, "the disk of %s has room again", run->cli->state_dir);
    }
    run->disk_told = low;
}

static enum gk_status ask_finish(struct run *run, struct gk_err *err)
{
    struct gk_json *body = gk_json_new_object();
    (void)gk_json_set_int(body, "job", run->job);
    run->finish_asked = true;
    gk_progress_note(&run->progress,
                     "interrupted: no new trials; the final round is run on what is "
                     "there (Ctrl-C again stops at once)");
    enum gk_status status = gk_client_request(run->client, "finish", body, 0, NULL, err);
    return status == GK_CONFLICT || status == GK_NOT_FOUND ? GK_OK : status; /* it had just ended */
}

static enum gk_status on_tick(void *context, struct gk_err *err)
{
    struct run *run = context;
    if (interrupts >= 2) {
        return gk_fail(err, GK_END, "stopped");
    }
    if (interrupts == 1 && !run->finish_asked) {
        enum gk_status status = ask_finish(run, err);
        if (status != GK_OK) {
            return status;
        }
    }
    watch_disk(run);
    return gk_crew_tick(&run->crew, run->follow.state.done, err);
}

/* Notes of the daemon (a device was lost, a trial was parked) are for the user; the rest is
 * progress. */
static enum gk_status on_event(void *context, const struct gk_json *event, struct gk_err *err)
{
    (void)err;
    struct run *run = context;
    if (strcmp(gk_json_get_string(event, "kind", ""), "note") == 0) {
        gk_progress_note(&run->progress, "%s", gk_json_get_string(event, "text", ""));
    }
    return GK_OK;
}

static enum gk_status start_crew(struct run *run, const struct gk_request *request,
                                 struct gk_err *err)
{
    run->has_crew = true;
    gk_progress_init(&run->progress, run->cli);
    return gk_crew_start(&run->crew, run->cli, run->client, request, &run->progress, err);
}

static void end_crew(struct run *run)
{
    if (run->has_crew) {
        gk_progress_end(&run->progress);
        gk_crew_stop(&run->crew);
    }
    run->has_crew = false;
}

/* A GPU that somebody holds, or whose driver hangs, is told before anything is stored. Other
 * devices are always to be had: for them nothing is started before the daemon has taken the job. */
static enum gk_status start_gpus(struct run *run, const struct gk_request *request,
                                 struct gk_err *err)
{
    bool wanted = false, ready = false;
    for (uint32_t i = 0; i < request->device_count; i++) {
        wanted = wanted || strncmp(request->devices[i], "cuda", 4) == 0;
    }
    enum gk_status status = wanted ? start_crew(run, request, err) : GK_OK;
    uint64_t begin = run->cli->clock.monotonic_ns(run->cli->clock.context);
    while (wanted && status == GK_OK && !ready) {
        uint64_t waited = run->cli->clock.monotonic_ns(run->cli->clock.context) - begin;
        if (interrupts > 0) {
            return gk_fail(err, GK_CANCELLED, "stopped; nothing was stored");
        }
        if (waited > GPU_START_NS) {
            return gk_fail(err, GK_TIMEOUT, "gktune-worker did not open its GPU within %d s",
                           (int)(GPU_START_NS / 1000000000));
        }
        status = gk_crew_ready(&run->crew, &ready, err);
    }
    return status;
}

static enum gk_status follow_job(struct run *run, const struct gk_request *request,
                                 struct gk_err *err)
{
    enum gk_status status = run->has_crew ? GK_OK : start_crew(run, request, err);
    if (status == GK_OK) {
        run->follow = (struct gk_follow){.client = run->client,
                                         .job = run->job,
                                         .budget_trials = request->budget.trials,
                                         .progress = &run->progress,
                                         .on_event = on_event,
                                         .on_tick = on_tick,
                                         .context = run};
        status = gk_follow(&run->follow, err);
    }
    end_crew(run);
    return status;
}

/* The rows of this job's ops, for every arch that its tasks ran on. */
static enum gk_status export_job(struct run *run, const struct gk_request *request,
                                 const char *folder, struct gk_json **files_out, struct gk_err *err)
{
    struct gk_export_ask ask = {.out_dir = folder,
                                .format = GK_EXPORT_HEADER,
                                .job = run->job,
                                .policy = request->policy,
                                .kernels = request->catalog};
    return gk_export(run->client, &ask, files_out, err);
}

static enum gk_status run_stored(struct run *run, const struct gk_request *request,
                                 struct gk_err *err)
{
    const char *folder = gk_options_get(&run->cli->options, "export");
    enum gk_status status = follow_job(run, request, err);
    if (status == GK_END) {
        return gk_fail(err, GK_CANCELLED,
                       "stopped; job %" PRId64 " is unfinished, the same command "
                       "goes on with it",
                       run->job);
    }
    enum gk_status exported = GK_OK;
    struct gk_err export_err = {0};
    struct gk_json *files = NULL;
    if (status == GK_OK && folder) {
        exported = export_job(run, request, folder, &files, &export_err);
    }
    if (status == GK_OK) {
        status = gk_ending(run->cli, run->client, run->job, exported == GK_OK ? folder : NULL,
                           files, err);
    }
    gk_json_free(files);
    /* Without a single pick there is nothing to export, which gk_ending() has said better. */
    if (exported != GK_OK && status == GK_OK) {
        status = gk_fail(err, exported, "%s", export_err.text);
    }
    return status;
}

enum gk_status gk_cmd_run(struct gk_cli *cli, struct gk_err *err)
{
    struct run run = {.cli = cli};
    struct gk_request request;
    enum gk_status status = gk_request_init(&request, cli, true, err);
    if (status != GK_OK) {
        return status;
    }
    const char *folder = gk_options_get(&cli->options, "export");
    if (folder && gk_export_folder(folder, err) != GK_OK) {
        gk_request_fini(&request);
        return gk_fail_in(err, GK_INPUT, "--export");
    }
    struct gk_buf text = {0};
    gk_request_budget_text(&request, &text);
    (void)fprintf(stderr, "%s\n", gk_buf_text(&text));
    gk_buf_fini(&text);
    catch_interrupts();
    status = gk_client_open(cli, &run.client, err);
    if (status == GK_OK) {
        status = start_gpus(&run, &request, err);
    }
    if (status == GK_OK) {
        status = gk_request_submit(&request, run.client, &run.job, NULL, err);
    }
    cli->catalog = request.catalog;
    if (status == GK_OK) {
        status = run_stored(&run, &request, err);
    }
    cli->catalog = NULL;
    end_crew(&run);
    gk_client_close(run.client);
    gk_request_fini(&request);
    return status;
}
