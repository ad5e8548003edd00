/* See settings.h. */
#include "daemon/settings.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "core/json.h"
#include "core/link.h"
#include "daemon/http.h"

#define FILE_BYTES_MAX (64 << 10)
#define MEMBERS_MAX    64                   /* looked at in one file; there are fewer names */
#define DISK_LOW_BYTES (UINT64_C(64) << 20) /* for results of leases that are out */
#define DISK_LOW_LEAST (UINT64_C(64) << 10)
#define BALLAST_BYTES  (UINT64_C(16) << 20)
#define BALLAST_MOST   (UINT64_C(16) << 30)
#define DISK_LOW_MOST  (UINT64_C(1) << 50)

static const struct {
    const char *name, *value, *help;
} rows[] = {
#define ROW(name, member, value, help) {#member, value, help},
    GK_SETTING_MAP(ROW)
#undef ROW
};

static const struct {
    const char *name;
    uint64_t bytes;
} units[] = {{"B", 1},
             {"KiB", UINT64_C(1) << 10},
             {"MiB", UINT64_C(1) << 20},
             {"GiB", UINT64_C(1) << 30},
             {"TiB", UINT64_C(1) << 40}};

bool gk_settings_row(uint32_t index, const char **name_out, const char **value_out,
                     const char **help_out)
{
    if (index >= GK_SETTING_COUNT) {
        return false;
    }
    *name_out = rows[index].name;
    *value_out = rows[index].value;
    *help_out = rows[index].help;
    return true;
}

void gk_settings_init(struct gk_settings *settings)
{
    *settings = (struct gk_settings){.log_level = GK_LOG_INFO,
                                     .disk_low_bytes = DISK_LOW_BYTES,
                                     .ballast_bytes = BALLAST_BYTES,
                                     .migrate = true};
    for (uint32_t i = 0; i < GK_SETTING_COUNT; i++) {
        (void)snprintf(settings->from[i].origin, sizeof settings->from[i].origin, "default");
    }
}

static void drop_listen(struct gk_settings *settings)
{
    for (uint32_t i = 0; i < settings->listen_count; i++) {
        free(settings->listen[i]);
    }
    settings->listen_count = 0;
}

void gk_settings_fini(struct gk_settings *settings)
{
    if (settings) {
        drop_listen(settings);
        free(settings->state);
        free(settings->http);
        *settings = (struct gk_settings){0};
    }
}

/* ------------------------------------------------------------------ values */

void gk_size_text(uint64_t bytes, char text_out[32])
{
    size_t unit = 0;
    while (bytes > 0 && unit + 1 < GK_ARRAY_COUNT(units) && bytes % units[unit + 1].bytes == 0) {
        unit++;
    }
    (void)snprintf(text_out, 32, "%" PRIu64 "%s", bytes / units[unit].bytes, units[unit].name);
}

static enum gk_status read_size(const char *text, uint64_t least, uint64_t most,
                                uint64_t *bytes_out, const char *where, struct gk_err *err)
{
    char *end = NULL, low[32], high[32];
    errno = 0;
    unsigned long long count = *text >= '0' && *text <= '9' ? strtoull(text, &end, 10) : 0;
    if (end && *end == '\0') {
        return gk_fail(err, GK_INPUT, "%s: '%s' has no unit: B, KiB, MiB, GiB or TiB is needed",
                       where, text);
    }
    for (size_t i = 0; end && errno == 0 && i < GK_ARRAY_COUNT(units); i++) {
        if (strcmp(end, units[i].name) == 0 && count <= most / units[i].bytes &&
            count * units[i].bytes >= least) {
            *bytes_out = count * units[i].bytes;
            return GK_OK;
        }
    }
    gk_size_text(least, low);
    gk_size_text(most, high);
    return gk_fail(err, GK_INPUT,
                   "%s: '%s' is no size: a whole number with B, KiB, MiB, GiB or TiB is needed, %s "
                   "to %s",
                   where, text, low, high);
}

static enum gk_status check_endpoint(const char *endpoint, const char *where, struct gk_err *err)
{
    if (strncmp(endpoint, "tcp://", 6) != 0 && strncmp(endpoint, "ipc:///", 7) != 0) {
        return gk_fail(err, GK_USAGE, "%s: '%s': ipc:///absolute/path or tcp://host:port is needed",
                       where, endpoint);
    }
    enum gk_status status = gk_endpoint_check(endpoint, err);
    return status == GK_OK ? status : gk_fail_in(err, status, "%s", where);
}

static enum gk_status check_http(const char *address, const char *where, struct gk_err *err)
{
    enum gk_status status = gk_http_check(address, err);
    return status == GK_OK ? status : gk_fail_in(err, status, "%s", where);
}

static enum gk_status set_text(char **slot, const char *text, struct gk_err *err)
{
    char *copy = gk_strdup(text);
    if (!copy) {
        return gk_fail(err, GK_NOMEM, "out of memory for a setting");
    }
    free(*slot);
    *slot = copy;
    return GK_OK;
}

static enum gk_status add_listen(struct gk_settings *settings, const char *text,
                                 enum gk_setting_rank rank, const char *where, struct gk_err *err)
{
    enum gk_status status = check_endpoint(text, where, err);
    if (status != GK_OK) {
        return status;
    }
    if (settings->from[GK_SETTING_LISTEN].rank < rank) {
        drop_listen(settings);
    }
    for (uint32_t i = 0; i < settings->listen_count; i++) {
        if (strcmp(settings->listen[i], text) == 0) {
            return gk_fail(err, GK_INPUT, "%s: '%s' is named twice", where, text);
        }
    }
    if (settings->listen_count == GK_LISTEN_MAX) {
        return gk_fail(err, GK_LIMIT, "%s: more than %d endpoints", where, GK_LISTEN_MAX);
    }
    status = set_text(&settings->listen[settings->listen_count], text, err);
    settings->listen_count += status == GK_OK;
    return status;
}

static enum gk_status set_migrate(struct gk_settings *settings, const char *text, const char *where,
                                  struct gk_err *err)
{
    if (strcmp(text, "true") != 0 && strcmp(text, "false") != 0) {
        return gk_fail(err, GK_INPUT, "%s: '%s': true or false is needed", where, text);
    }
    settings->migrate = *text == 't';
    return GK_OK;
}

static enum gk_status set_value(struct gk_settings *settings, enum gk_setting setting,
                                const char *text, enum gk_setting_rank rank, const char *where,
                                struct gk_err *err)
{
    enum gk_status status;
    switch (setting) {
    case GK_SETTING_STATE:
        return *text ? set_text(&settings->state, text, err)
                     : gk_fail(err, GK_INPUT, "%s: an empty path", where);
    case GK_SETTING_LISTEN:
        return add_listen(settings, text, rank, where, err);
    case GK_SETTING_HTTP:
        status = check_http(text, where, err);
        return status == GK_OK ? set_text(&settings->http, text, err) : status;
    case GK_SETTING_LOG_LEVEL:
        return gk_log_level_from(text, &settings->log_level)
                   ? GK_OK
                   : gk_fail(err, GK_INPUT, "%s: '%s': allowed are " GK_LOG_LEVELS, where, text);
    case GK_SETTING_LOG_FORMAT:
        return gk_log_format_from(text, &settings->log_format)
                   ? GK_OK
                   : gk_fail(err, GK_INPUT, "%s: '%s': logfmt or json is needed", where, text);
    case GK_SETTING_DISK_LOW:
        return read_size(text, DISK_LOW_LEAST, DISK_LOW_MOST, &settings->disk_low_bytes, where,
                         err);
    case GK_SETTING_DISK_RESUME:
        return read_size(text, DISK_LOW_LEAST, DISK_LOW_MOST, &settings->disk_resume_bytes, where,
                         err);
    case GK_SETTING_BALLAST:
        if (strcmp(text, "off") == 0) {
            settings->ballast_bytes = 0;
            return GK_OK;
        }
        return read_size(text, 4096, BALLAST_MOST, &settings->ballast_bytes, where, err);
    case GK_SETTING_MIGRATE:
        return set_migrate(settings, text, where, err);
    case GK_SETTING_COUNT:
        break;
    }
    return gk_fail(err, GK_INTERNAL, "%s: no such setting", where);
}

enum gk_status gk_settings_set(struct gk_settings *settings, enum gk_setting setting,
                               const char *text, enum gk_setting_rank rank, const char *where,
                               struct gk_err *err)
{
    if (settings->from[setting].rank > rank) { /* it is checked all the same */
        struct gk_settings scratch;
        gk_settings_init(&scratch);
        enum gk_status status = set_value(&scratch, setting, text, rank, where, err);
        gk_settings_fini(&scratch);
        return status;
    }
    enum gk_status status = set_value(settings, setting, text, rank, where, err);
    if (status == GK_OK) {
        settings->from[setting].rank = rank;
        (void)snprintf(settings->from[setting].origin, sizeof settings->from[setting].origin, "%s",
                       where);
    }
    return status;
}

/* ------------------------------------------------------------------ the file */

/* Lines of the members of the outermost object, in the order of the file: the parser has seen that
 * the text is right, so strings and braces are all there is to look at. */
static uint32_t member_lines(const char *text, uint32_t lines[MEMBERS_MAX])
{
    uint32_t count = 0, line = 1, depth = 0;
    bool key = false; /* the next string of depth 1 is a member's name */
    for (const char *at = text; *at; at++) {
        if (*at == '\n') {
            line++;
        } else if (*at == '{' || *at == '[') {
            depth++;
            key = depth == 1;
        } else if (*at == '}' || *at == ']') {
            depth--;
        } else if (*at == ',' && depth == 1) {
            key = true;
        } else if (*at == '"') {
            if (depth == 1 && key && count < MEMBERS_MAX) {
                lines[count++] = line;
                key = false;
            }
            for (at++; *at && *at != '"'; at++) {
                at += *at == '\\' && at[1];
            }
        }
    }
    return count;
}

static void unknown_member(struct gk_diag *diag, const char *path, uint32_t line, const char *key)
{
    struct gk_buf known = {0};
    for (uint32_t i = 0; i < GK_SETTING_COUNT; i++) {
        gk_buf_printf(&known, "%s%s", i ? ", " : "", rows[i].name);
    }
    (void)gk_diag_add(diag, GK_INPUT, "%s:%" PRIu32 ": unknown member '%.60s'; known are %s, note",
                      path, line, key, gk_buf_text(&known)); /* gathered */
    gk_buf_fini(&known);
}

/* One text of a member: a list has several. */
static void take_text(struct gk_settings *settings, enum gk_setting setting, const char *text,
                      const char *path, uint32_t line, struct gk_diag *diag)
{
    struct gk_err why = {0};
    char origin[48];
    (void)snprintf(origin, sizeof origin, "line %" PRIu32, line);
    enum gk_status status = gk_settings_set(settings, setting, text, GK_SETTING_FILE, origin, &why);
    if (status != GK_OK) {
        /* The message begins with the origin; a reader of many files needs the path and the member
         * too. */
        const char *rest =
            strncmp(why.text, origin, strlen(origin)) == 0 ? why.text + strlen(origin) : why.text;
        (void)gk_diag_add(diag, status, "%s:%" PRIu32 ": %s%s", path, line, rows[setting].name,
                          rest); /* gathered */
    }
}

static void take_member(struct gk_settings *settings, const char *key, const struct gk_json *value,
                        const char *path, uint32_t line, struct gk_diag *diag)
{
    uint32_t i = 0;
    while (i < GK_SETTING_COUNT && strcmp(rows[i].name, key) != 0) {
        i++;
    }
    if (strcmp(key, "note") == 0) {
        return; /* JSON has no comments */
    }
    if (i == GK_SETTING_COUNT) {
        unknown_member(diag, path, line, key);
        return;
    }
    enum gk_setting setting = (enum gk_setting)i;
    bool is_list = setting == GK_SETTING_LISTEN && gk_json_is(value, GK_JSON_ARRAY);
    if (setting == GK_SETTING_MIGRATE && gk_json_is(value, GK_JSON_BOOL)) {
        take_text(settings, setting, gk_json_bool(value, true) ? "true" : "false", path, line,
                  diag);
        return;
    }
    for (size_t n = 0; n < (is_list ? gk_json_count(value) : 1); n++) {
        const struct gk_json *item = is_list ? gk_json_at(value, n) : value;
        if (setting == GK_SETTING_MIGRATE || !gk_json_is(item, GK_JSON_STRING)) {
            char shown[GK_JSON_SHOW_SIZE];
            gk_json_show(item, shown);
            (void)gk_diag_add(diag, GK_INPUT, "%s:%" PRIu32 ": %s: %s is no %s", path, line, key,
                              shown,
                              setting == GK_SETTING_MIGRATE  ? "truth value"
                              : setting == GK_SETTING_LISTEN ? "text or list of texts"
                                                             : "text"); /* gathered */
        } else {
            take_text(settings, setting, gk_json_string(item, ""), path, line, diag);
        }
    }
}

enum gk_status gk_settings_load(struct gk_settings *settings, const char *path, struct gk_err *err)
{
    char *text = NULL;
    size_t size = 0;
    struct gk_json *json = NULL;
    struct gk_diag diag;
    uint32_t lines[MEMBERS_MAX] = {0}, at = 0;
    gk_diag_init(&diag);
    enum gk_status status = gk_file_load(path, FILE_BYTES_MAX, &text, &size, err);
    if (status == GK_OK) {
        status = gk_json_parse(text, size, path, &json, err);
    }
    if (status == GK_OK && !gk_json_is(json, GK_JSON_OBJECT)) {
        status = gk_fail(err, GK_INPUT, "%s: an object is needed: {\"state\": ...}", path);
    }
    if (status == GK_OK) {
        uint32_t count = member_lines(text, lines);
        void *cursor = NULL;
        const char *key;
        const struct gk_json *value;
        while ((value = gk_json_next(json, &cursor, &key))) {
            take_member(settings, key, value, path, at < count ? lines[at] : 0, &diag);
            at++;
        }
        status = gk_diag_status(&diag, err);
    }
    gk_diag_fini(&diag);
    gk_json_free(json);
    free(text);
    return status;
}

enum gk_status gk_settings_finish(struct gk_settings *settings, struct gk_err *err)
{
    if (settings->disk_resume_bytes == 0) {
        settings->disk_resume_bytes = settings->disk_low_bytes + settings->disk_low_bytes / 2;
    }
    if (settings->disk_resume_bytes <= settings->disk_low_bytes) {
        char low[32], resume[32];
        gk_size_text(settings->disk_low_bytes, low);
        gk_size_text(settings->disk_resume_bytes, resume);
        return gk_fail(err, GK_INPUT,
                       "disk_resume %s (%s) must be more than disk_low %s (%s): between them "
                       "nothing changes, so that work does not flap",
                       resume, settings->from[GK_SETTING_DISK_RESUME].origin, low,
                       settings->from[GK_SETTING_DISK_LOW].origin);
    }
    return GK_OK;
}

/* The value as gk_settings_print shows it, without what follows from others. */
static void show(const struct gk_settings *settings, enum gk_setting setting, struct gk_buf *out);

static bool may_change(enum gk_setting setting)
{
    return setting == GK_SETTING_LOG_LEVEL || setting == GK_SETTING_DISK_LOW ||
           setting == GK_SETTING_DISK_RESUME;
}

static bool same_value(const struct gk_settings *a, const struct gk_settings *b,
                       enum gk_setting setting)
{
    struct gk_buf left = {0}, right = {0};
    show(a, setting, &left);
    show(b, setting, &right);
    bool same = strcmp(gk_buf_text(&left), gk_buf_text(&right)) == 0;
    gk_buf_fini(&left);
    gk_buf_fini(&right);
    return same;
}

static void take_reloaded(struct gk_settings *settings, const struct gk_settings *fresh)
{
    settings->log_level = fresh->log_level;
    settings->disk_low_bytes = fresh->disk_low_bytes;
    settings->disk_resume_bytes = fresh->disk_resume_bytes;
    for (uint32_t i = 0; i < GK_SETTING_COUNT; i++) {
        if (may_change((enum gk_setting)i)) {
            settings->from[i] = fresh->from[i];
        }
    }
}

enum gk_status gk_settings_reload(struct gk_settings *settings, const char *path,
                                  struct gk_buf *restart_out, struct gk_err *err)
{
    struct gk_settings fresh;
    gk_settings_init(&fresh);
    enum gk_status status = gk_settings_load(&fresh, path, err);
    if (settings->from[GK_SETTING_LOG_LEVEL].rank == GK_SETTING_OPTION) {
        fresh.log_level = settings->log_level;
        fresh.from[GK_SETTING_LOG_LEVEL] = settings->from[GK_SETTING_LOG_LEVEL];
    }
    if (settings->from[GK_SETTING_DISK_LOW].rank == GK_SETTING_OPTION) {
        fresh.disk_low_bytes = settings->disk_low_bytes;
        fresh.from[GK_SETTING_DISK_LOW] = settings->from[GK_SETTING_DISK_LOW];
    }
    if (settings->from[GK_SETTING_DISK_RESUME].rank == GK_SETTING_OPTION) {
        fresh.disk_resume_bytes = settings->disk_resume_bytes;
        fresh.from[GK_SETTING_DISK_RESUME] = settings->from[GK_SETTING_DISK_RESUME];
    }
    if (status == GK_OK) {
        status = gk_settings_finish(&fresh, err);
    }
    for (uint32_t i = 0; status == GK_OK && i < GK_SETTING_COUNT; i++) {
        enum gk_setting setting = (enum gk_setting)i;
        if (!may_change(setting) && settings->from[i].rank != GK_SETTING_OPTION &&
            !same_value(settings, &fresh, setting)) {
            gk_buf_printf(restart_out, "%s%s", restart_out->size ? ", " : "", rows[i].name);
        }
    }
    if (status == GK_OK) {
        take_reloaded(settings, &fresh);
    }
    gk_settings_fini(&fresh);
    return status;
}

/* ------------------------------------------------------------------ showing */

static void show(const struct gk_settings *settings, enum gk_setting setting, struct gk_buf *out)
{
    char size[32];
    switch (setting) {
    case GK_SETTING_STATE:
        gk_buf_puts(out, settings->state ? settings->state : "");
        break;
    case GK_SETTING_LISTEN:
        for (uint32_t i = 0; i < settings->listen_count; i++) {
            gk_buf_printf(out, "%s%s", i ? " " : "", settings->listen[i]);
        }
        break;
    case GK_SETTING_HTTP:
        gk_buf_puts(out, settings->http ? settings->http : "off");
        break;
    case GK_SETTING_LOG_LEVEL:
        gk_buf_puts(out, gk_log_level_name(settings->log_level));
        break;
    case GK_SETTING_LOG_FORMAT:
        gk_buf_puts(out, gk_log_format_name(settings->log_format));
        break;
    case GK_SETTING_DISK_LOW:
    case GK_SETTING_DISK_RESUME:
        gk_size_text(setting == GK_SETTING_DISK_LOW ? settings->disk_low_bytes
                                                    : settings->disk_resume_bytes,
                     size);
        gk_buf_puts(out, size);
        break;
    case GK_SETTING_BALLAST:
        gk_size_text(settings->ballast_bytes, size);
        gk_buf_puts(out, settings->ballast_bytes ? size : "off");
        break;
    case GK_SETTING_MIGRATE:
        gk_buf_puts(out, settings->migrate ? "true" : "false");
        break;
    case GK_SETTING_COUNT:
        break;
    }
}

void gk_settings_print(const struct gk_settings *settings, const char *state, const char *endpoints,
                       struct gk_buf *out)
{
    for (uint32_t i = 0; i < GK_SETTING_COUNT; i++) {
        gk_buf_printf(out, "%-12s ", rows[i].name);
        if (i == GK_SETTING_STATE) {
            gk_buf_puts(out, state);
        } else if (i == GK_SETTING_LISTEN) {
            gk_buf_puts(out, endpoints);
        } else {
            show(settings, (enum gk_setting)i, out);
        }
        gk_buf_printf(out, " (%s)\n", settings->from[i].origin);
    }
}
