/* The worker of a run: see crew.h. */
#include "cli/crew.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DEATHS_MAX     8 /* in a row without a trial between them */
#define BACKOFF_MAX_MS 5000
#define STOP_MS        5000
#define READY_MS       100 /* between two looks at the list of workers */

static uint64_t now_ms(const struct gk_crew *crew)
{
    return crew->cli->clock.monotonic_ns(crew->cli->clock.context) / 1000000;
}

static enum gk_status start_worker(struct gk_crew *crew, struct gk_err *err)
{
    const char *argv[9 + 2 * GK_DEVICES_MAX];
    uint32_t n = 0;
    const char *folder = crew->cli->state_dir ? crew->cli->state_dir : "/tmp";
    char *spool = gk_asprintf("%s/spool", folder), *log = gk_asprintf("%s/worker.log", folder);
    if (!spool || !log) {
        free(spool);
        free(log);
        return gk_fail(err, GK_NOMEM, "out of memory");
    }
    argv[n++] = "gktune-worker";
    argv[n++] = "--private";
    argv[n++] = "--connect";
    argv[n++] = gk_client_endpoint(crew->client);
    argv[n++] = "--spool";
    argv[n++] = spool;
    for (uint32_t i = 0; i < crew->device_count; i++) {
        argv[n++] = "--device";
        argv[n++] = crew->devices[i];
    }
    if (gk_options_has(&crew->cli->options, "check")) {
        argv[n++] = "--check";
    }
    argv[n] = NULL;
    gk_child_stop(&crew->worker, STOP_MS);
    enum gk_status status =
        gk_child_start(crew->cli->exe_dir, argv, log, false, &crew->worker, err);
    crew->generation = gk_client_generation(crew->client);
    free(spool);
    free(log);
    return status;
}

struct served {
    const char *device;
    bool found;
};

static enum gk_status look_for(void *context, const struct gk_json *row, struct gk_err *err)
{
    (void)err;
    struct served *served = context;
    const struct gk_json *devices = gk_json_get(row, "devices");
    bool here = strcmp(gk_json_get_string(row, "state", ""), "connected") == 0;
    for (size_t i = 0; here && i < gk_json_count(devices); i++) {
        const char *name = gk_json_get_string(gk_json_at(devices, i), "device", "");
        served->found |= strcmp(name, served->device) == 0;
    }
    return GK_OK;
}

/* A daemon that somebody else runs may have workers of its own; a private one has only ours. */
static enum gk_status find_unserved(struct gk_crew *crew, struct gk_err *err)
{
    crew->device_count = 0;
    for (uint32_t i = 0; i < crew->request->device_count; i++) {
        struct served served = {.device = crew->request->devices[i]};
        if (!gk_client_is_private(crew->client)) {
            enum gk_status status = gk_client_pages(crew->client, "workers", gk_json_new_object(),
                                                    "workers", look_for, &served, err);
            if (status != GK_OK) {
                return status;
            }
        }
        if (!served.found) {
            crew->devices[crew->device_count++] = crew->request->devices[i];
        } else if (gk_options_has(&crew->cli->options, "check")) { /* nor is it ignored unseen */
            gk_progress_note(crew->progress,
                             "%s has a worker already: --check is that worker's own to say",
                             crew->request->devices[i]);
        }
    }
    return GK_OK;
}

enum gk_status gk_crew_start(struct gk_crew *crew, struct gk_cli *cli, struct gk_client *client,
                             const struct gk_request *request, struct gk_progress *progress,
                             struct gk_err *err)
{
    *crew =
        (struct gk_crew){.cli = cli, .client = client, .request = request, .progress = progress};
    crew->worker.in_fd = crew->worker.out_fd = -1;
    enum gk_status status = find_unserved(crew, err);
    if (status == GK_OK && crew->device_count > 0) {
        status = start_worker(crew, err);
    }
    return status;
}

enum gk_status gk_crew_ready(struct gk_crew *crew, bool *ready_out, struct gk_err *err)
{
    bool ready = true;
    for (uint32_t i = 0; i < crew->device_count && ready; i++) {
        struct served served = {.device = crew->devices[i]};
        enum gk_status status = gk_client_pages(crew->client, "workers", gk_json_new_object(),
                                                "workers", look_for, &served, err);
        if (status != GK_OK) {
            return status;
        }
        ready = served.found;
    }
    *ready_out = ready;
    if (!ready && gk_child_ended(&crew->worker, READY_MS)) {
        struct gk_buf words = {0};
        char ending[64];
        gk_child_ending(&crew->worker, ending);
        gk_child_last_words(&crew->worker, &words);
        enum gk_status status = gk_fail(err, GK_UNSUPPORTED, "gktune-worker ended (%s): %s", ending,
                                        gk_buf_text(&words));
        gk_buf_fini(&words);
        return status;
    }
    return GK_OK;
}

static enum gk_status note_death(struct gk_crew *crew, int64_t done, struct gk_err *err)
{
    char ending[64];
    gk_child_ending(&crew->worker, ending);
    crew->deaths = done > crew->done_at_death ? 1 : crew->deaths + 1;
    crew->done_at_death = done;
    if (crew->deaths >= DEATHS_MAX) {
        struct gk_buf words = {0};
        gk_child_last_words(&crew->worker, &words);
        enum gk_status status =
            gk_fail(err, GK_INTERNAL, "gktune-worker ended %d times without a result (%s): %s",
                    DEATHS_MAX, ending, gk_buf_text(&words));
        gk_buf_fini(&words);
        return status;
    }
    uint64_t wait = crew->deaths > 1 ? (uint64_t)250 << crew->deaths : 0;
    wait = wait > BACKOFF_MAX_MS ? BACKOFF_MAX_MS : wait;
    crew->restart_ms = now_ms(crew) + wait;
    gk_progress_note(crew->progress, "the worker ended (%s); it is started again", ending);
    return GK_OK;
}

enum gk_status gk_crew_tick(struct gk_crew *crew, int64_t done, struct gk_err *err)
{
    /* Another daemon may lack the workers that the one before had. Ours reconnects by itself: a
     * private daemon always listens at the same socket of the state folder. */
    if (crew->generation != gk_client_generation(crew->client)) {
        crew->generation = gk_client_generation(crew->client);
        if (!gk_child_alive(&crew->worker)) {
            enum gk_status status = find_unserved(crew, err);
            if (status != GK_OK) {
                return status;
            }
        }
    }
    if (crew->device_count == 0 || gk_child_alive(&crew->worker)) {
        return GK_OK;
    }
    if (crew->worker.log_path && crew->restart_ms == 0) {
        enum gk_status status = note_death(crew, done, err);
        if (status != GK_OK) {
            return status;
        }
    }
    if (now_ms(crew) < crew->restart_ms) {
        return GK_OK;
    }
    crew->restart_ms = 0;
    return start_worker(crew, err);
}

void gk_crew_stop(struct gk_crew *crew)
{
    gk_child_stop(&crew->worker, STOP_MS);
}
