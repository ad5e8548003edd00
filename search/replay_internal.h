/* Parts of the reader of recorded spaces. Inside search/replay* only. */
#ifndef GK_SEARCH_REPLAY_INTERNAL_H
#define GK_SEARCH_REPLAY_INTERNAL_H

#include "core/json.h"
#include "search/replay.h"
#include "search/replay_t4.h"

/* ------------------------------------------------------------------ inflate */

struct replay_inflate;

typedef enum gk_status replay_sink(void *context, const char *bytes, size_t size,
                                   struct gk_err *err);

struct replay_inflate *replay_inflate_create(void); /* NULL when out of memory */
void replay_inflate_destroy(struct replay_inflate *inflate);
/* Gives what comes out to the sink. Members may follow each other. After damage nothing more comes
 * out and replay_inflate_whole() is false. */
enum gk_status replay_inflate_feed(struct replay_inflate *inflate, const uint8_t *bytes,
                                   size_t size, replay_sink *sink, void *context,
                                   struct gk_err *err);
bool replay_inflate_whole(const struct replay_inflate *inflate); /* ended at a member's end */

/* ------------------------------------------------------------------ rows as they are read */

#define REPLAY_WHOLE_MAX 9e15 /* below 2^53: a double holds every whole number */

struct replay_value { /* one value of a parameter */
    bool is_number;
    double number;
    char text[GK_NAME_MAX];
};

struct replay_param {
    char name[GK_NAME_MAX];
    uint32_t count;
    struct replay_value values[GK_PARAM_VALUES_MAX]; /* in the order in which they were met */
};

struct replay_raw {
    uint8_t digits[GK_PARAMS_MAX]; /* into values of the parameters */
    uint64_t offset, line;
    bool time_in_ns;          /* the time alone: a measurement may have a unit of its own */
    struct gk_replay_row row; /* times in the file's unit */
};

struct replay_mark {
    uint64_t offset, line;
};

struct replay_rows {
    bool is_t4;
    uint32_t param_count; /* 0: not known yet */
    bool have_params;
    size_t too_many; /* parameters of a file that has more than a space can have; else 0 */
    struct replay_param *params; /* GK_PARAMS_MAX */
    struct replay_raw *raws;
    size_t count, capacity;
    double *samples;
    size_t sample_count, sample_capacity;
    double unit_ns;           /* of one unit of the file */
    struct gk_json *outvoted; /* a row near the start whose parameters are not the first row's */
    struct replay_mark outvoted_mark;
    struct gk_diag *check; /* NULL: nobody asked for the rules */
    bool has_version;      /* schema_version was met */
    char device[GK_REPLAY_TEXT_MAX], kernel[GK_REPLAY_TEXT_MAX];
    struct gk_replay_drop drops[GK_REPLAY_DROPS];
    uint64_t oddities[GK_REPLAY_ODDITIES];
};

enum gk_status replay_rows_init(struct replay_rows *rows, struct gk_err *err);
void replay_rows_fini(struct replay_rows *rows);
/* What breaks the format's rules in the file as a whole: for replay_rows.check. */
void replay_check_end(struct replay_rows *rows);
void replay_drop(struct replay_rows *rows, enum gk_replay_drop_kind kind,
                 const struct replay_mark *mark);
/* A member of the root that is not the rows: names, units. What does not parse is passed over. */
void replay_rows_header(struct replay_rows *rows, const char *key, const char *text, size_t size);
/* One row's text. `key` is NULL in T4. *parsed_out is false when the text is not JSON: then nothing
 * was counted. Errors are GK_NOMEM and GK_LIMIT alone. */
enum gk_status replay_rows_add(struct replay_rows *rows, const char *key, const char *text,
                               size_t size, const struct replay_mark *mark, bool *parsed_out,
                               struct gk_err *err);
/* Whether text may be the key of a row: as many values as there are parameters. */
bool replay_rows_is_key(const struct replay_rows *rows, const char *text, size_t size);
/* Sorts, removes repeated rows, makes the space. Takes the rows' memory over. */
enum gk_status replay_rows_finish(struct replay_rows *rows, const char *origin,
                                  struct gk_recording **recording_out, struct gk_err *err);

/* ------------------------------------------------------------------ the scanner */

enum replay_state {
    REPLAY_START,      /* before the root's bracket */
    REPLAY_ROOT,       /* a key, a comma or the closing bracket */
    REPLAY_ROOT_COLON, /* behind a key */
    REPLAY_ROOT_VALUE, /* before a value */
    REPLAY_ROWS,       /* a row, a comma or the closing bracket */
    REPLAY_ROW_COLON,  /* behind a row's key */
    REPLAY_ROW_VALUE,  /* before a row */
    REPLAY_KEY,        /* inside a key */
    REPLAY_VALUE,      /* inside a value or a row */
    REPLAY_END         /* behind the root */
};

struct gk_replay_reader {
    char *origin;
    struct replay_rows rows;
    struct replay_inflate *inflate;
    uint64_t bytes, bytes_max; /* of text so far, and at the most */
    uint8_t magic[2];
    uint32_t magic_count; /* bytes of magic seen */
    bool decided;         /* whether it is gzip */
    bool found_rows;      /* "cache" or "results" was met */
    bool ended;           /* the root was closed */
    bool comma;           /* the last thing met was a comma */
    bool in_stray;
    enum replay_state state;
    bool key_is_row, value_is_row; /* what KEY and VALUE stand for */
    struct gk_buf key, value;
    bool overlong; /* the value is longer than is kept */
    uint32_t depth;
    bool in_string, escaped, is_scalar;
    struct replay_mark next;  /* of the next byte */
    struct replay_mark start; /* of the value */
    uint64_t again_bytes;     /* read twice so far */
    char *again;              /* a tail of `value` to be read again, before new bytes */
    size_t again_size, again_next;
};

enum gk_status replay_scan(void *reader, const char *bytes, size_t size, struct gk_err *err);
/* At the end of the file: what is still open. */
enum gk_status replay_scan_end(struct gk_replay_reader *reader, struct gk_err *err);

#endif
