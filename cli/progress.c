/* Progress of a job: see progress.h. */
#include "cli/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define PLAIN_EVERY_NS UINT64_C(5000000000)
#define LIVE_EVERY_NS  UINT64_C(100000000)
#define BAR_CELLS      20

static uint64_t now_ns(const struct gk_progress *progress)
{
    return progress->cli->clock.monotonic_ns(progress->cli->clock.context);
}

void gk_progress_init(struct gk_progress *progress, const struct gk_cli *cli)
{
    *progress = (struct gk_progress){.cli = cli};
    progress->start_ns = now_ns(progress);
}

static void left_text(const struct gk_progress_state *state, double seconds, int64_t did,
                      char text_out[32])
{
    text_out[0] = '\0';
    if (state->total > state->done && did > 0 && seconds > 1) {
        double left = seconds * (double)(state->total - state->done) / (double)did;
        if (left < 90) {
            (void)snprintf(text_out, 32, ", %.0f s left", left);
        } else {
            (void)snprintf(text_out, 32, ", %.0f min left", left / 60);
        }
    }
}

void gk_progress_show(struct gk_progress *progress, const struct gk_progress_state *state)
{
    uint64_t now = now_ns(progress);
    bool live = progress->cli->progress_tty;
    if (!progress->begun) {
        progress->begun = true;
        progress->first_verified = state->done;
    } else if (now - progress->last_line_ns < (live ? LIVE_EVERY_NS : PLAIN_EVERY_NS)) {
        return;
    }
    progress->last_line_ns = now;
    double seconds = (double)(now - progress->start_ns) / 1e9;
    int64_t did = state->done - progress->first_verified;
    char left[32], best[32], bar[BAR_CELLS + 1], line[256];
    left_text(state, seconds, did, left);
    gk_time_text(state->best_ns, best);
    int filled = state->total > 0 ? (int)(state->done * BAR_CELLS / state->total) : 0;
    memset(bar, '-', BAR_CELLS);
    memset(bar, '#', (size_t)(filled > BAR_CELLS ? BAR_CELLS : filled));
    bar[BAR_CELLS] = '\0';
    (void)snprintf(line, sizeof line,
                   "%s%s%s%" PRId64 "/%" PRId64 " trials, %" PRId64 " verified (%.1f/s), %" PRId64
                   " failed, %" PRId64 "/%" PRId64 " problems, best %s%s%s%s",
                   live ? "[" : "", live ? bar : "", live ? "] " : "", state->done, state->total,
                   state->verified, state->verified_per_s, state->failed, state->tasks_done,
                   state->tasks, best, state->phase ? ", " : "", state->phase ? state->phase : "",
                   left);
    if (live) {
        int columns = progress->cli->columns > 1 ? progress->cli->columns - 1 : 79;
        (void)fprintf(stderr, "\r\033[K%.*s", columns, line);
        (void)fflush(stderr);
        progress->line_open = true;
    } else if (strcmp(line, progress->last) != 0) {
        (void)fprintf(stderr, "%s\n", line);
        (void)snprintf(progress->last, sizeof progress->last, "%s", line);
    }
}

static void make_room(struct gk_progress *progress)
{
    if (progress->line_open) {
        (void)fputs("\r\033[K", stderr);
        progress->line_open = false;
    }
}

void gk_progress_note(struct gk_progress *progress, const char *format, ...)
{
    va_list ap;
    struct gk_err note;
    struct gk_buf text = {0};
    make_room(progress);
    va_start(ap, format);
    (void)gk_vfail(&note, GK_OK, format, ap); /* bounded, as notes are */
    va_end(ap);
    gk_put_plain(note.text, true, &text);
    (void)fprintf(stderr, "%s\n", gk_buf_text(&text));
    gk_buf_fini(&text);
}

void gk_progress_end(struct gk_progress *progress)
{
    make_room(progress);
    (void)fflush(stderr);
}
