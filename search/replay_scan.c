/*
 * Cuts rows out of the text, one byte at a time. See replay_internal.h.
 *
 * The scanner knows brackets and quotes and nothing else; what is inside a row is JSON's business.
 * A row that turns out not to be JSON may have swallowed whole ones behind it (a lost bracket or
 * quote does that), so its text is searched for the beginning of another row and read again from
 * there. A line end inside a quoted text closes it: JSON has none there, and a lost quote would
 * turn everything behind it inside out.
 */
#include <stdlib.h>
#include <string.h>

#include "search/replay_internal.h"

#define KEY_MAX     4096u      /* bytes of a key that are kept: a row's key is shorter */
#define AGAIN_TIMES 8u         /* bytes read again for each byte of the file, */
#define AGAIN_MORE  (1u << 20) /* and these: a torn row is met again from farther behind */

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static void stray(struct gk_replay_reader *reader)
{
    if (!reader->in_stray) {
        replay_drop(&reader->rows, GK_REPLAY_STRAY, &reader->next);
        reader->in_stray = true;
    }
}

/* ------------------------------------------------------------------ another row inside a row */

/* Length of `"key": {` at `at` where the key looks like a row's; 0 if it is none. */
static size_t row_key_size(const struct gk_replay_reader *reader, size_t at)
{
    const char *text = reader->value.data;
    size_t end = at + 1, size = reader->value.size;
    while (end < size && text[end] != '"' && text[end] != '\\' && (uint8_t)text[end] >= ' ') {
        end++;
    }
    if (end == size || text[end] != '"' ||
        !replay_rows_is_key(&reader->rows, text + at + 1, end - at - 1)) {
        return 0;
    }
    for (end++; end < size && is_space(text[end]); end++) {
    }
    if (end == size || text[end] != ':') {
        return 0;
    }
    for (end++; end < size && is_space(text[end]); end++) {
    }
    return end < size && text[end] == '{' ? end - at : 0;
}

static bool starts_result(const struct gk_replay_reader *reader, size_t at)
{
    static const char *const firsts[] = {"\"timestamp\"", "\"configuration\""};
    const char *text = reader->value.data;
    size_t size = reader->value.size, next = at + 1;
    while (next < size && is_space(text[next])) {
        next++;
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(firsts); i++) {
        size_t length = strlen(firsts[i]);
        if (size - next >= length && memcmp(text + next, firsts[i], length) == 0) {
            return true;
        }
    }
    return false;
}

/* Where inside the kept text another row begins; false if none does. */
static bool find_row(const struct gk_replay_reader *reader, size_t *at_out)
{
    bool is_t4 = reader->rows.is_t4;
    const char *text = reader->value.data;
    for (size_t at = 1; at < reader->value.size; at++) {
        if (is_t4 ? text[at] == '{' && starts_result(reader, at)
                  : text[at] == '"' && row_key_size(reader, at) > 0) {
            *at_out = at;
            return true;
        }
    }
    return false;
}

/* Reads the kept text again from `at`, unless too much was read twice already. */
static enum gk_status rewind_to(struct gk_replay_reader *reader, size_t at, bool *done_out,
                                struct gk_err *err)
{
    const char *tail = reader->value.data + at;
    size_t size = reader->value.size - at;
    *done_out = false;
    if (reader->again_bytes + size > AGAIN_TIMES * reader->next.offset + AGAIN_MORE) {
        return GK_OK; /* a file made to be slow */
    }
    if (reader->again && reader->again_next >= size) { /* the text came out of there */
        reader->again_next -= size;
    } else {
        size_t rest = reader->again ? reader->again_size - reader->again_next : 0;
        char *again = malloc(size + rest + 1);
        if (!again) {
            return gk_fail(err, GK_NOMEM, "%s: no memory for a row", reader->origin);
        }
        memcpy(again, tail, size);
        if (rest) {
            memcpy(again + size, reader->again + reader->again_next, rest);
        }
        free(reader->again);
        reader->again = again;
        reader->again_size = size + rest;
        reader->again_next = 0;
    }
    reader->again_bytes += size;
    reader->next.offset -= size;
    for (size_t i = 0; i < size; i++) {
        reader->next.line -= tail[i] == '\n';
    }
    *done_out = true;
    return GK_OK;
}

/* The row is not JSON, or too long, or the file ends in it. */
static enum gk_status give_up_row(struct gk_replay_reader *reader, enum gk_replay_drop_kind kind,
                                  struct gk_err *err)
{
    size_t at = 0;
    bool again = false;
    enum gk_status status = GK_OK;
    bool more = find_row(reader, &at);
    if (more && kind == GK_REPLAY_TORN) {
        kind = GK_REPLAY_UNREADABLE; /* torn is what the file really ends in */
    }
    replay_drop(&reader->rows, kind, &reader->start);
    if (more) {
        status = rewind_to(reader, at, &again, err);
    }
    reader->state = REPLAY_ROWS;
    gk_buf_reset(&reader->value);
    return status;
}

/* ------------------------------------------------------------------ whole pieces */

static enum gk_status take_row(struct gk_replay_reader *reader, struct gk_err *err)
{
    bool parsed = false;
    size_t at = 0;
    if (reader->overlong) {
        return give_up_row(reader, GK_REPLAY_TOO_LONG, err);
    }
    if (find_row(reader, &at)) { /* JSON or not: its own end was lost */
        return give_up_row(reader, GK_REPLAY_UNREADABLE, err);
    }
    enum gk_status status = replay_rows_add(
        &reader->rows, reader->rows.is_t4 ? NULL : gk_buf_text(&reader->key),
        gk_buf_text(&reader->value), reader->value.size, &reader->start, &parsed, err);
    if (status == GK_OK && !parsed) {
        return give_up_row(reader, GK_REPLAY_UNREADABLE, err);
    }
    gk_buf_reset(&reader->value);
    reader->state = REPLAY_ROWS;
    return status;
}

static enum gk_status take_value(struct gk_replay_reader *reader, struct gk_err *err)
{
    enum gk_status status = gk_buf_status(&reader->value, err);
    if (status != GK_OK) {
        return status;
    }
    if (reader->value_is_row) {
        return take_row(reader, err);
    }
    if (!reader->overlong) {
        replay_rows_header(&reader->rows, gk_buf_text(&reader->key), gk_buf_text(&reader->value),
                           reader->value.size);
    }
    gk_buf_reset(&reader->value);
    reader->state = reader->ended ? REPLAY_END : REPLAY_ROOT;
    return GK_OK;
}

/* A number, a word or nothing: no row, and nothing to look for in it. */
static enum gk_status take_scalar(struct gk_replay_reader *reader, struct gk_err *err)
{
    if (!reader->value_is_row) {
        return take_value(reader, err);
    }
    replay_drop(&reader->rows, GK_REPLAY_UNREADABLE, &reader->start);
    gk_buf_reset(&reader->value);
    reader->state = REPLAY_ROWS;
    return GK_OK;
}

static void begin_value(struct gk_replay_reader *reader, bool is_row)
{
    reader->state = REPLAY_VALUE;
    reader->value_is_row = is_row;
    if (!is_row || reader->rows.is_t4) {
        reader->start = reader->next; /* else the row begins with its key */
    }
    reader->depth = 0;
    reader->in_string = reader->escaped = reader->is_scalar = reader->overlong = false;
    gk_buf_reset(&reader->value);
}

static void begin_key(struct gk_replay_reader *reader, bool is_row)
{
    reader->key_is_row = is_row;
    reader->state = REPLAY_KEY;
    reader->escaped = false;
    reader->comma = false;
    reader->in_stray = false;
    reader->start = reader->next;
    gk_buf_reset(&reader->key);
}

static void keep(struct gk_replay_reader *reader, char c)
{
    if (reader->value.size < GK_REPLAY_ROW_MAX) {
        gk_buf_putc(&reader->value, c);
    }
    reader->overlong |= reader->value.size == GK_REPLAY_ROW_MAX;
}

/* One byte inside a value. *again_out: the byte is not part of it. */
static enum gk_status scan_value(struct gk_replay_reader *reader, char c, bool *again_out,
                                 struct gk_err *err)
{
    if (reader->in_string) {
        keep(reader, c);
        if (reader->escaped) {
            reader->escaped = false;
        } else if (c == '\\') {
            reader->escaped = true;
        } else if (c == '"' || c == '\n') {
            reader->in_string = false;
        }
    } else if (c == '"') {
        reader->in_string = true;
        keep(reader, c);
    } else if (c == '{' || c == '[') {
        reader->depth++;
        keep(reader, c);
        return GK_OK;
    } else if (c == '}' || c == ']') {
        if (reader->depth == 0) {
            *again_out = true; /* closes what the scalar stands in */
            return take_scalar(reader, err);
        }
        reader->depth--;
        keep(reader, c);
    } else if (reader->depth == 0 && (c == ',' || is_space(c))) {
        *again_out = true;
        return take_scalar(reader, err);
    } else {
        keep(reader, c);
        reader->is_scalar = reader->depth == 0;
    }
    bool ends = reader->depth == 0 && !reader->in_string && !reader->is_scalar;
    if (ends || (reader->overlong && reader->value_is_row)) {
        return take_value(reader, err);
    }
    return GK_OK;
}

/* ------------------------------------------------------------------ states */

static void scan_key(struct gk_replay_reader *reader, char c)
{
    if (c == '\n' || reader->key.size >= KEY_MAX) { /* no key: a quote was lost */
        stray(reader);
        reader->state = reader->key_is_row ? REPLAY_ROWS : REPLAY_ROOT;
    } else if (reader->escaped) {
        reader->escaped = false;
        gk_buf_putc(&reader->key, c);
    } else if (c == '\\') {
        reader->escaped = true;
    } else if (c == '"') {
        reader->state = reader->key_is_row ? REPLAY_ROW_COLON : REPLAY_ROOT_COLON;
    } else {
        gk_buf_putc(&reader->key, c);
    }
}

static void close_container(struct gk_replay_reader *reader, enum replay_state state)
{
    reader->rows.oddities[GK_REPLAY_COMMA] += reader->comma;
    reader->comma = false;
    reader->in_stray = false;
    reader->ended = state == REPLAY_END;
    reader->state = state;
}

static void scan_root(struct gk_replay_reader *reader, char c, bool *again_out)
{
    if (c == '"') {
        begin_key(reader, false);
    } else if (c == '{' && reader->found_rows && reader->rows.is_t4) {
        begin_value(reader, true); /* the list was closed too early */
        *again_out = true;
    } else if (c == ',') {
        reader->comma = true;
    } else if (c == '}') {
        close_container(reader, REPLAY_END);
    } else {
        stray(reader);
    }
}

static void scan_rows(struct gk_replay_reader *reader, char c, bool *again_out)
{
    if (reader->rows.is_t4 && c == '{') {
        reader->comma = false;
        reader->in_stray = false;
        begin_value(reader, true);
        *again_out = true;
    } else if (!reader->rows.is_t4 && c == '"') {
        begin_key(reader, true);
    } else if (c == ',') {
        reader->comma = true;
    } else if (c == (reader->rows.is_t4 ? ']' : '}')) {
        close_container(reader, REPLAY_ROOT);
    } else {
        stray(reader);
    }
}

static void scan_root_value(struct gk_replay_reader *reader, char c, bool *again_out)
{
    const char *key = gk_buf_text(&reader->key);
    bool cache = strcmp(key, "cache") == 0 && c == '{';
    bool results = strcmp(key, "results") == 0 && c == '[';
    if ((cache && (!reader->found_rows || !reader->rows.is_t4)) ||
        (results && (!reader->found_rows || reader->rows.is_t4))) {
        reader->rows.is_t4 = results;
        reader->found_rows = true;
        reader->state = REPLAY_ROWS;
        return;
    }
    /* Rows that were added behind a file that was closed too early. */
    bool late = reader->found_rows && !reader->rows.is_t4 && c == '{' &&
                replay_rows_is_key(&reader->rows, key, reader->key.size);
    begin_value(reader, late);
    *again_out = true;
}

static void scan_colon(struct gk_replay_reader *reader, char c, bool *again_out)
{
    bool row = reader->state == REPLAY_ROW_COLON;
    if (c == ':') {
        reader->state = row ? REPLAY_ROW_VALUE : REPLAY_ROOT_VALUE;
    } else {
        stray(reader);
        reader->state = row ? REPLAY_ROWS : REPLAY_ROOT;
        *again_out = true;
    }
}

static void scan_row_value(struct gk_replay_reader *reader, char c, bool *again_out)
{
    if (c == '}' || c == ']' || c == ',') { /* a key without a value */
        stray(reader);
        reader->state = REPLAY_ROWS;
    } else {
        begin_value(reader, true);
    }
    *again_out = true;
}

/* Behind the root: rows may have been added to a file that was closed already. */
static void scan_end(struct gk_replay_reader *reader, char c, bool *again_out)
{
    if (reader->found_rows && c == (reader->rows.is_t4 ? '{' : '"')) {
        scan_root(reader, c, again_out);
    } else if (c != ',' && c != '}') {
        stray(reader);
    }
}

/* One byte in one state. *again_out: it has to be looked at again in the new state. */
static enum gk_status scan_byte(struct gk_replay_reader *reader, char c, bool *again_out,
                                struct gk_err *err)
{
    *again_out = false;
    if (reader->state == REPLAY_VALUE) {
        return scan_value(reader, c, again_out, err);
    }
    if (reader->state != REPLAY_KEY && is_space(c)) {
        return GK_OK;
    }
    switch (reader->state) {
    case REPLAY_START:
        if (c == '{') {
            reader->state = REPLAY_ROOT;
            reader->in_stray = false;
        } else {
            stray(reader);
        }
        break;
    case REPLAY_ROOT:
        scan_root(reader, c, again_out);
        break;
    case REPLAY_ROOT_COLON:
    case REPLAY_ROW_COLON:
        scan_colon(reader, c, again_out);
        break;
    case REPLAY_ROOT_VALUE:
        scan_root_value(reader, c, again_out);
        break;
    case REPLAY_ROWS:
        scan_rows(reader, c, again_out);
        break;
    case REPLAY_ROW_VALUE:
        scan_row_value(reader, c, again_out);
        break;
    case REPLAY_KEY:
        scan_key(reader, c);
        break;
    case REPLAY_END:
        scan_end(reader, c, again_out);
        break;
    case REPLAY_VALUE:
        break;
    }
    return GK_OK;
}

static enum gk_status scan_next(struct gk_replay_reader *reader, char c, struct gk_err *err)
{
    bool again = true;
    for (int i = 0; i < 4 && again; i++) { /* no byte ends more states than that */
        enum gk_status status = scan_byte(reader, c, &again, err);
        if (status != GK_OK) {
            return status;
        }
    }
    reader->next.offset++;
    reader->next.line += c == '\n';
    return GK_OK;
}

static enum gk_status scan_again(struct gk_replay_reader *reader, struct gk_err *err)
{
    while (reader->again) {
        if (reader->again_next == reader->again_size) {
            free(reader->again);
            reader->again = NULL;
            return GK_OK;
        }
        char c = reader->again[reader->again_next++];
        enum gk_status status = scan_next(reader, c, err);
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

enum gk_status replay_scan(void *context, const char *bytes, size_t size, struct gk_err *err)
{
    struct gk_replay_reader *reader = context;
    for (size_t i = 0; i < size; i++) {
        enum gk_status status = scan_next(reader, bytes[i], err);
        if (status == GK_OK && reader->again) {
            status = scan_again(reader, err);
        }
        if (status != GK_OK) {
            return status;
        }
    }
    return GK_OK;
}

enum gk_status replay_scan_end(struct gk_replay_reader *reader, struct gk_err *err)
{
    enum gk_status status = GK_OK;
    while (status == GK_OK && reader->state == REPLAY_VALUE && reader->value_is_row) {
        status = give_up_row(reader, GK_REPLAY_TORN, err); /* each time from farther behind */
        if (status == GK_OK) {
            status = scan_again(reader, err);
        }
    }
    bool in_row = reader->state == REPLAY_ROW_COLON || reader->state == REPLAY_ROW_VALUE ||
                  (reader->state == REPLAY_KEY && reader->key_is_row);
    if (in_row) {
        replay_drop(&reader->rows, GK_REPLAY_TORN, &reader->start);
    }
    reader->rows.oddities[GK_REPLAY_COMMA] += reader->comma;
    reader->rows.oddities[GK_REPLAY_UNCLOSED] += reader->found_rows && !reader->ended;
    return status;
}
