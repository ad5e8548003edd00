/*
 * Recorded spaces from strangers: never a crash, the same for every way to cut the bytes into
 * pieces, and what is read is whole: digits inside the space, times that are numbers, a strategy
 * that can run over it.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "search/replay_run.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct gk_recording *read_pieces(const uint8_t *data, size_t size, size_t piece)
{
    struct gk_replay_reader *reader = NULL;
    struct gk_recording *recording = NULL;
    struct gk_err err = {0};
    GK_ASSERT(gk_replay_reader_create("input", &reader, &err) == GK_OK);
    enum gk_status status = GK_OK;
    for (size_t at = 0; status == GK_OK && at < size; at += piece) {
        status = gk_replay_feed(reader, data + at, size - at < piece ? size - at : piece, &err);
    }
    GK_ASSERT(status == GK_OK);
    status = gk_replay_finish(reader, &recording, &err);
    GK_ASSERT(status == GK_OK || status == GK_INPUT);
    GK_ASSERT((status == GK_OK) == (recording != NULL));
    gk_replay_reader_destroy(reader);
    return recording;
}

static void check_rows(const struct gk_recording *recording)
{
    uint32_t ok = 0;
    double best = INFINITY;
    GK_ASSERT(gk_space_count(recording->space) == recording->count);
    for (uint32_t i = 0; i < recording->count; i++) {
        const struct gk_replay_row *row = &recording->rows[i];
        struct gk_config config;
        uint32_t index = 0;
        gk_space_config(recording->space, i, &config);
        GK_ASSERT(gk_space_find(recording->space, &config, &index, NULL) == GK_OK && index == i);
        GK_ASSERT(gk_replay_cost_ns(row) >= 0);
        if (row->outcome == GK_REPLAY_OK) {
            GK_ASSERT(row->time_ns > 0);
            ok++;
            best = fmin(best, row->time_ns);
        }
        for (uint32_t k = 0; k < row->sample_count; k++) {
            GK_ASSERT(recording->samples_ns[row->sample_first + k] > 0);
        }
    }
    GK_ASSERT(ok == recording->ok_count && ok > 0 && best == recording->best_ns);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct gk_recording *recording = read_pieces(data, size, size + 1),
                        *pieces = read_pieces(data, size, 1 + size / 7);
    GK_ASSERT((recording == NULL) == (pieces == NULL));
    if (recording) {
        struct gk_replay_plan plan = {.seed = 1, .evals = 20, .credit = 3, .samples = 1};
        struct gk_replay_trace trace = {0};
        struct gk_err err = {0};
        check_rows(recording);
        GK_ASSERT(recording->count == pieces->count);
        GK_ASSERT(memcmp(recording->drops, pieces->drops, sizeof recording->drops) == 0);
        GK_ASSERT(gk_replay_run(recording, gk_strategy_find("random"), &plan, &trace, &err) ==
                  GK_OK);
        GK_ASSERT(trace.evals == (recording->count < 20 ? recording->count : 20) ||
                  trace.evals == 21);
        gk_replay_trace_fini(&trace);
    }
    gk_recording_destroy(recording);
    gk_recording_destroy(pieces);
    return 0;
}
