/* The reader of recorded spaces: words, and the way from bytes to the scanner. See replay.h. */
#include "search/replay.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "search/replay_internal.h"

const char *gk_replay_outcome_word(enum gk_replay_outcome outcome)
{
    static const char *const words[GK_REPLAY_OUTCOMES] = {
        [GK_REPLAY_OK] = "correct",      [GK_REPLAY_COMPILE] = "compile",
        [GK_REPLAY_RUNTIME] = "runtime", [GK_REPLAY_CORRECTNESS] = "correctness",
        [GK_REPLAY_TIMEOUT] = "timeout", [GK_REPLAY_CONSTRAINTS] = "constraints"};
    return (uint32_t)outcome < GK_REPLAY_OUTCOMES ? words[outcome] : "?";
}

const char *gk_replay_drop_text(enum gk_replay_drop_kind kind)
{
    static const char *const texts[GK_REPLAY_DROPS] = {
        [GK_REPLAY_TORN] = "rows that the file ends in",
        [GK_REPLAY_UNREADABLE] = "rows that are not JSON",
        [GK_REPLAY_TOO_LONG] = "rows of more than 1 MiB",
        [GK_REPLAY_NO_CONFIG] = "rows without all parameters",
        [GK_REPLAY_BAD_VALUE] = "rows with a parameter that is no number, text or truth value",
        [GK_REPLAY_MANY] = "rows with one value more than 64 of a parameter",
        [GK_REPLAY_NO_RESULT] = "rows with neither a positive time nor a failure",
        [GK_REPLAY_REPEATED] = "rows whose config a later row has again",
        [GK_REPLAY_STRAY] = "pieces where no row stands",
        [GK_REPLAY_SAMPLE] = "samples that are no positive number",
        [GK_REPLAY_STREAM] = "damages of the compressed stream",
    };
    return (uint32_t)kind < GK_REPLAY_DROPS ? texts[kind] : "?";
}

const char *gk_replay_oddity_text(enum gk_replay_oddity oddity)
{
    static const char *const texts[GK_REPLAY_ODDITIES] = {
        [GK_REPLAY_UNCLOSED] = "closing brackets are missing",
        [GK_REPLAY_COMMA] = "commas with nothing behind them",
        [GK_REPLAY_NOT_NUMBER] = "NaN or Infinity, read as nothing",
        [GK_REPLAY_TEXT_NUMBER] = "numbers in quotes",
        [GK_REPLAY_UNIT] = "misspelt units of time",
        [GK_REPLAY_UNIT_OTHER] = "unknown units of time, taken as milliseconds",
        [GK_REPLAY_KEY_CONFIG] = "parameters that only the row's key tells",
        [GK_REPLAY_NO_COST] = "no row has a cost: each counts as a second; rows",
    };
    return (uint32_t)oddity < GK_REPLAY_ODDITIES ? texts[oddity] : "?";
}

double gk_replay_cost_ns(const struct gk_replay_row *row)
{
    return row->compile_ns + row->run_ns + row->verify_ns + row->overhead_ns;
}

enum gk_status gk_replay_reader_create(const char *origin, struct gk_replay_reader **reader_out,
                                       struct gk_err *err)
{
    struct gk_replay_reader *reader = calloc(1, sizeof *reader);
    if (!reader || !(reader->origin = gk_strdup(origin))) {
        gk_replay_reader_destroy(reader);
        return gk_fail(err, GK_NOMEM, "%s: no memory to read it", origin);
    }
    reader->next.line = 1;
    reader->bytes_max = GK_REPLAY_BYTES_MAX;
    enum gk_status status = replay_rows_init(&reader->rows, err);
    if (status != GK_OK) {
        gk_replay_reader_destroy(reader);
        return status;
    }
    *reader_out = reader;
    return GK_OK;
}

void gk_replay_reader_destroy(struct gk_replay_reader *reader)
{
    if (!reader) {
        return;
    }
    replay_rows_fini(&reader->rows);
    replay_inflate_destroy(reader->inflate);
    gk_buf_fini(&reader->key);
    gk_buf_fini(&reader->value);
    free(reader->again);
    free(reader->origin);
    free(reader);
}

void gk_replay_reader_limit(struct gk_replay_reader *reader, uint64_t bytes_max)
{
    reader->bytes_max = bytes_max < GK_REPLAY_BYTES_MAX ? bytes_max : GK_REPLAY_BYTES_MAX;
}

/* A megabyte of gzip can be a gigabyte of text: what counts is the text. */
static enum gk_status take(void *context, const char *bytes, size_t size, struct gk_err *err)
{
    struct gk_replay_reader *reader = context;
    if (size > reader->bytes_max - reader->bytes) {
        return gk_fail(err, GK_LIMIT,
                       "more than %" PRIu64 " bytes of text%s; that many are taken at the most",
                       reader->bytes_max, reader->inflate ? ", decompressed" : "");
    }
    reader->bytes += size;
    return replay_scan(reader, bytes, size, err);
}

/* gzip says so with its first two bytes; they may come one at a time. */
static enum gk_status decide(struct gk_replay_reader *reader, struct gk_err *err)
{
    reader->decided = true;
    if (reader->magic_count == 2 && reader->magic[0] == 0x1f && reader->magic[1] == 0x8b) {
        reader->inflate = replay_inflate_create();
        if (!reader->inflate) {
            return gk_fail(err, GK_NOMEM, "%s: no memory to decompress it", reader->origin);
        }
        return replay_inflate_feed(reader->inflate, reader->magic, 2, take, reader, err);
    }
    return take(reader, (const char *)reader->magic, reader->magic_count, err);
}

enum gk_status gk_replay_feed(struct gk_replay_reader *reader, const void *bytes, size_t size,
                              struct gk_err *err)
{
    const uint8_t *next = bytes;
    enum gk_status status = GK_OK;
    while (size && !reader->decided && status == GK_OK) {
        reader->magic[reader->magic_count++] = *next++;
        size--;
        if (reader->magic_count == 2) {
            status = decide(reader, err);
        }
    }
    if (status == GK_OK && size) {
        status = reader->inflate
                     ? replay_inflate_feed(reader->inflate, next, size, take, reader, err)
                     : take(reader, (const char *)next, size, err);
    }
    if (status == GK_LIMIT) {
        return gk_fail_in(err, status, "%s", reader->origin);
    }
    return status;
}

enum gk_status gk_replay_finish(struct gk_replay_reader *reader,
                                struct gk_recording **recording_out, struct gk_err *err)
{
    enum gk_status status = reader->decided ? GK_OK : decide(reader, err);
    if (status == GK_OK && reader->inflate && !replay_inflate_whole(reader->inflate)) {
        replay_drop(&reader->rows, GK_REPLAY_STREAM, &reader->next);
    }
    if (status == GK_OK) {
        status = replay_scan_end(reader, err);
    }
    if (status == GK_OK && !reader->found_rows) {
        return gk_fail(err, GK_INPUT,
                       "%s: neither a cache of Kernel Tuner (an object with \"cache\") nor T4 "
                       "results (an object with \"results\")",
                       reader->origin);
    }
    if (status == GK_OK && reader->rows.check) {
        replay_check_end(&reader->rows); /* repeated rows are not known yet: no rule forbids them */
    }
    if (status == GK_OK) {
        status = replay_rows_finish(&reader->rows, reader->origin, recording_out, err);
    }
    return status;
}
