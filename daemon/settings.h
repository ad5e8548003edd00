/*
 * What gktuned is told to do: the options of its command line and the members of its config file,
 * one table for both, so that every option has its member and each has one check.
 *
 * The file is a JSON object. All its mistakes come in one message, a line each, with the line of
 * the file and the member. The command line wins over the file, the file over the defaults.
 * Nothing here reads the environment.
 */
#ifndef GK_DAEMON_SETTINGS_H
#define GK_DAEMON_SETTINGS_H

#include "core/buf.h"
#include "core/log.h"

#define GK_LISTEN_MAX 8 /* endpoints that are named; a local one is added where none of them is */

enum gk_setting_rank { GK_SETTING_DEFAULT, GK_SETTING_FILE, GK_SETTING_OPTION };

/* X(enum name, member, option's value as help shows it, help) */
#define GK_SETTING_MAP(X)                                                                          \
    X(STATE, state, "DIR",                                                                         \
      "where the store lives (default $GKTUNE_STATE, $XDG_STATE_HOME/gktune, "                     \
      "~/.local/state/gktune)")                                                                    \
    X(LISTEN, listen, "ENDPOINT",                                                                  \
      "ipc:///path, or tcp://host:port for those whom gktune keys admits; more than once "         \
      "(default: gktuned.sock in the state folder)")                                               \
    X(HTTP, http, "ADDR:PORT", "/healthz /readyz /version /metrics there (default: off)")          \
    X(LOG_LEVEL, log_level, "LEVEL", "error, warn, info or debug (default: info)")                 \
    X(LOG_FORMAT, log_format, "FORMAT", "logfmt or json (default: logfmt)")                        \
    X(DISK_LOW, disk_low, "SIZE",                                                                  \
      "with less free space no new work is taken, as 64MiB (default: 64MiB)")                      \
    X(DISK_RESUME, disk_resume, "SIZE",                                                            \
      "new work again from so much free space on (default: 1.5 x disk_low)")                       \
    X(BALLAST, ballast, "SIZE",                                                                    \
      "a file kept to be given up on a full disk (gktune doctor --free-ballast); off: none "       \
      "(default: 16MiB)")                                                                          \
    X(MIGRATE, migrate, "",                                                                        \
      "refuse a store of an older schema instead of changing it (member: \"migrate\": false)")

enum gk_setting {
#define GK_SETTING_ENUM(name, member, value, help) GK_SETTING_##name,
    GK_SETTING_MAP(GK_SETTING_ENUM)
#undef GK_SETTING_ENUM
        GK_SETTING_COUNT
};

struct gk_settings {
    char *state; /* NULL: not given */
    char *listen[GK_LISTEN_MAX];
    uint32_t listen_count; /* 0: the socket in the state folder */
    char *http;            /* NULL: off */
    enum gk_log_level log_level;
    enum gk_log_format log_format;
    uint64_t disk_low_bytes, disk_resume_bytes; /* resume 0: from disk_low */
    uint64_t ballast_bytes;                     /* 0: none */
    bool migrate;
    struct {
        enum gk_setting_rank rank;
        char origin[48]; /* "default", "line 12", "--http" */
    } from[GK_SETTING_COUNT];
};

void gk_settings_init(struct gk_settings *settings); /* the defaults */
void gk_settings_fini(struct gk_settings *settings); /* NULL and zero are fine */

/* The member's name, its value for help ("" : takes none) and help; false past the end. */
bool gk_settings_row(uint32_t index, const char **name_out, const char **value_out,
                     const char **help_out);

/* One value as the command line writes it. `listen` adds to the values of the same rank and
 * replaces those of a lower one. `where` begins the message and is kept as the origin. A value of a
 * higher rank stays. */
enum gk_status gk_settings_set(struct gk_settings *settings, enum gk_setting setting,
                               const char *text, enum gk_setting_rank rank, const char *where,
                               struct gk_err *err);
/* Reads the file; every mistake is named, the settings are then part of the file's and unusable. */
enum gk_status gk_settings_load(struct gk_settings *settings, const char *path, struct gk_err *err);
/* What single values cannot say: marks that are in order. Fills in what follows from others. */
enum gk_status gk_settings_finish(struct gk_settings *settings, struct gk_err *err);
/* Reads the file again for what may change while the daemon runs: the log's level and the marks of
 * the disk, unless the command line gave them. Other members that differ are named in
 * restart_out ("http, listen"). Any mistake of the file: everything stays as it was. */
enum gk_status gk_settings_reload(struct gk_settings *settings, const char *path,
                                  struct gk_buf *restart_out, struct gk_err *err);
/* "name value (origin)" lines: what --check-config prints. state and endpoints: what they come to
 * where they were not given. */
void gk_settings_print(const struct gk_settings *settings, const char *state, const char *endpoints,
                       struct gk_buf *out);
/* Bytes as the file writes them: the largest unit that divides them. */
void gk_size_text(uint64_t bytes, char text_out[32]);

#endif
