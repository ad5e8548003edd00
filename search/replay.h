/*
 * Recorded spaces: what others measured on real GPUs, read so that a strategy can be run over it
 * without one.
 *
 * Two formats are read, plain or gzip: caches of Kernel Tuner ("cache", a map of rows) and T4
 * results ("results", a list of rows). Bytes are fed in pieces of any size; memory follows the rows
 * kept, never the file. Files from the wild are torn, half-closed and oddly spelt: whatever is
 * whole is taken, and the report says what was dropped, why, and where the first of each kind
 * stands. The recording is the same for every way to cut the file into pieces.
 *
 * Pure: no I/O, no clock, no randomness. A finished recording is read-only and may be shared by
 * threads.
 */
#ifndef GK_SEARCH_REPLAY_H
#define GK_SEARCH_REPLAY_H

#include "search/space.h"

#define GK_REPLAY_BYTES_MAX                                                                        \
    (UINT64_C(1) << 30) /* of text, decompressed; the largest seen have 19 MB, and gzip makes a    \
                           megabyte of a gigabyte of blanks */
#define GK_REPLAY_ROW_MAX     (1u << 20) /* bytes of one row's text; the largest seen have 3 KB */
#define GK_REPLAY_SAMPLES_MAX 4096u      /* of one row */
#define GK_REPLAY_TEXT_MAX    128u       /* of a device's and a kernel's name */

enum gk_replay_outcome {
    GK_REPLAY_OK,
    GK_REPLAY_COMPILE,     /* did not compile */
    GK_REPLAY_RUNTIME,     /* did not launch, or crashed */
    GK_REPLAY_CORRECTNESS, /* wrong results */
    GK_REPLAY_TIMEOUT,
    GK_REPLAY_CONSTRAINTS, /* refused before it was compiled */
    GK_REPLAY_OUTCOMES
};
/* The word of T4's `invalidity`: "correct", "compile", ... */
const char *gk_replay_outcome_word(enum gk_replay_outcome outcome);

/* Why something in a file was not taken. */
enum gk_replay_drop_kind {
    GK_REPLAY_TORN,       /* the file ends inside the row */
    GK_REPLAY_UNREADABLE, /* not JSON, or another row begins inside it */
    GK_REPLAY_TOO_LONG,   /* more than GK_REPLAY_ROW_MAX bytes */
    GK_REPLAY_NO_CONFIG,  /* a parameter is missing, or there is one that the others lack */
    GK_REPLAY_BAD_VALUE,  /* a parameter's value is neither number, text nor truth value */
    GK_REPLAY_MANY,       /* one value more than GK_PARAM_VALUES_MAX of a parameter */
    GK_REPLAY_NO_RESULT,  /* neither a positive time nor a failure */
    GK_REPLAY_REPEATED,   /* a later row has the same config: the later one counts */
    GK_REPLAY_STRAY,      /* bytes where no row stands */
    GK_REPLAY_SAMPLE,     /* a sample that is not a positive number; the row was taken */
    GK_REPLAY_STREAM,     /* the compressed stream is damaged or ends early */
    GK_REPLAY_DROPS
};
/* A sentence piece for people: "rows that the file ends in". */
const char *gk_replay_drop_text(enum gk_replay_drop_kind kind);

struct gk_replay_drop {
    uint64_t count;
    uint64_t first_offset; /* bytes of the text, after decompression; from 0 */
    uint64_t first_line;   /* from 1 */
};

/* What was read although it is not as the format says. Counts. */
enum gk_replay_oddity {
    GK_REPLAY_UNCLOSED,    /* closing brackets are missing at the end */
    GK_REPLAY_COMMA,       /* a comma with nothing behind it */
    GK_REPLAY_NOT_NUMBER,  /* NaN, Infinity, -Infinity */
    GK_REPLAY_TEXT_NUMBER, /* a number in quotes */
    GK_REPLAY_UNIT,        /* a misspelt unit */
    GK_REPLAY_UNIT_OTHER,  /* an unknown unit: taken as milliseconds */
    GK_REPLAY_KEY_CONFIG,  /* a parameter that only the row's key tells */
    GK_REPLAY_NO_COST,     /* no row says what it cost: each counts as a second */
    GK_REPLAY_ODDITIES
};
const char *gk_replay_oddity_text(enum gk_replay_oddity oddity);

struct gk_replay_row {
    enum gk_replay_outcome outcome;
    double time_ns; /* of an ok one: as recorded, else the mean of the samples */
    /* What the row cost when it was recorded; a part that is not recorded is 0. */
    double compile_ns, run_ns, verify_ns, overhead_ns;
    uint64_t sample_first; /* into samples_ns */
    uint32_t sample_count; /* 0: only the time is known */
};

enum gk_replay_format { GK_REPLAY_KERNEL_TUNER, GK_REPLAY_T4 };

struct gk_recording {
    enum gk_replay_format format;
    char device[GK_REPLAY_TEXT_MAX], kernel[GK_REPLAY_TEXT_MAX]; /* "": not said */
    /* The legal set is the recorded rows: indices of `space` are rows[]. Parameters that hold
     * numbers are integers in rising order; others are enums, numbers first, then words by bytes.
     */
    struct gk_space_def def;
    struct gk_space *space;
    struct gk_replay_row *rows;
    double *samples_ns;
    uint32_t count, ok_count;
    uint32_t outcomes[GK_REPLAY_OUTCOMES];
    double best_ns;      /* of the ok rows */
    double mean_cost_ns; /* of all rows */
    struct gk_replay_drop drops[GK_REPLAY_DROPS];
    uint64_t oddities[GK_REPLAY_ODDITIES];
    struct gk_param *params; /* def's */
};

double gk_replay_cost_ns(const struct gk_replay_row *row); /* compile + run + verify + overhead */

void gk_recording_destroy(struct gk_recording *recording);

struct gk_replay_reader;

/* `origin` names the file in errors and is copied. */
enum gk_status gk_replay_reader_create(const char *origin, struct gk_replay_reader **reader_out,
                                       struct gk_err *err);
void gk_replay_reader_destroy(struct gk_replay_reader *reader);
/* Takes less than GK_REPLAY_BYTES_MAX. */
void gk_replay_reader_limit(struct gk_replay_reader *reader, uint64_t bytes_max);
/* The next bytes of the file. GK_INPUT: this is neither format; GK_LIMIT; GK_NOMEM. */
enum gk_status gk_replay_feed(struct gk_replay_reader *reader, const void *bytes, size_t size,
                              struct gk_err *err);
/* After the last byte. GK_INPUT when not one row with a time is left, naming what was dropped. The
 * reader can only be destroyed afterwards. */
enum gk_status gk_replay_finish(struct gk_replay_reader *reader,
                                struct gk_recording **recording_out, struct gk_err *err);

#endif
