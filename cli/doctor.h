/*
 * The report of gktune doctor, shared by its two halves: cmd_doctor.c looks at the machine and the
 * programs, doctor_service.c at what a daemon needs to be trusted.
 */
#ifndef GK_CLI_DOCTOR_H
#define GK_CLI_DOCTOR_H

#include "cli/command.h"

enum gk_doctor_mark { GK_DOCTOR_OK, GK_DOCTOR_WARN, GK_DOCTOR_MISSING };

struct gk_doctor {
    struct gk_cli *cli;
    struct gk_json *lines; /* with --json and --bundle; NULL else: they are printed */
    bool something_missing;
    uint32_t warnings;
};

/* One line. advice is shown unless the mark is OK; it may be NULL. */
void gk_doctor_line(struct gk_doctor *doctor, const char *name, enum gk_doctor_mark mark,
                    const char *advice, const char *format, ...)
    __attribute__((format(printf, 5, 6)));

/* The store's file, the disk and its honesty, keys: of a state folder that exists. */
void gk_doctor_state(struct gk_doctor *doctor, const char *state);
/* Library versions with known faults, the clock, the unit's hardening, the door of a daemon. */
void gk_doctor_service(struct gk_doctor *doctor);
/* Knocks at the tcp endpoints of the running daemon with a key that nobody knows. listen: what its
 * lock says. */
void gk_doctor_door(struct gk_doctor *doctor, const char *state, const struct gk_json *listen);
/* The audit trail and what waits for an operator, of a daemon that serves already. */
void gk_doctor_daemon(struct gk_doctor *doctor);
/* Writes all that an operator attaches to a report to `path`, which must not exist yet: mode 0600,
 * no keys. Takes the lines. GK_EXISTS, GK_IO. */
enum gk_status gk_doctor_bundle(struct gk_doctor *doctor, const char *path, struct gk_err *err);
/* Removes the ballast. GK_NOT_FOUND when there is none. */
enum gk_status gk_doctor_free_ballast(struct gk_cli *cli, struct gk_err *err);

#endif
