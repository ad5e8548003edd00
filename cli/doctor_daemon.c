/*
 * The part of gktune doctor that asks a daemon, if one serves: its audit trail, and what waits for
 * an operator. None is started for it.
 */
#include "cli/client.h"
#include "cli/doctor.h"

#include <inttypes.h>

static void check_audit(struct gk_doctor *doctor, struct gk_client *client)
{
    struct gk_json *body = gk_json_new_object(), *reply = NULL;
    struct gk_err err = {0};
    (void)gk_json_set_bool(body, "verify", true);
    enum gk_status status = gk_client_request(client, "audit", body, 0, &reply, &err);
    const char *problem =
        gk_json_string(gk_json_at(gk_json_get(reply, "problems"), 0), "it does not fit");
    int64_t lines = gk_json_get_int(reply, "audit_lines", 0);
    if (status != GK_OK) {
        gk_doctor_line(doctor, "audit", GK_DOCTOR_WARN, "An admin's key can read it.", "%s",
                       err.text);
    } else if (gk_json_get_bool(reply, "ok", false)) {
        gk_doctor_line(doctor, "audit", GK_DOCTOR_OK, NULL,
                       "%" PRId64 " lines, the chain of hashes is whole", lines);
    } else {
        gk_doctor_line(doctor, "audit", GK_DOCTOR_MISSING,
                       "Somebody changed the store beside the daemon: compare it with a backup.",
                       "%" PRId64 " lines: %s", lines, problem);
    }
    gk_json_free(reply);
}

static void check_waiting(struct gk_doctor *doctor, struct gk_client *client)
{
    struct gk_json *reply = NULL;
    if (gk_client_request(client, "status", gk_json_new_object(), 0, &reply, NULL) != GK_OK) {
        return; /* the line before says why it does not answer */
    }
    int64_t dead = gk_json_get_int(reply, "dead_letters", 0),
            fenced = gk_json_get_int(reply, "fenced_devices", 0);
    bool drains = gk_json_get(reply, "drain_ms") != NULL;
    gk_doctor_line(
        doctor, "operator", dead > 0 || fenced > 0 || drains ? GK_DOCTOR_WARN : GK_DOCTOR_OK,
        "See gktune dead, gktune workers; gktune drain --off ends a drain.",
        "%" PRId64 " dead letters, %" PRId64 " fenced devices%s%s", dead, fenced,
        drains ? "; the daemon drains: " : "", gk_json_get_string(reply, "drain_reason", ""));
    gk_json_free(reply);
}

void gk_doctor_daemon(struct gk_doctor *doctor)
{
    struct gk_client *client = NULL;
    struct gk_err err = {0};
    if (!gk_client_is_served(doctor->cli)) {
        return; /* said by the line `daemon` */
    }
    if (gk_client_open(doctor->cli, &client, &err) != GK_OK) {
        gk_doctor_line(doctor, "audit", GK_DOCTOR_WARN, "Its log says why.",
                       "the daemon does not answer: %s", err.text);
        return;
    }
    check_audit(doctor, client);
    check_waiting(doctor, client);
    gk_client_close(client);
}
