/*
 * Does the daemon's door keep strangers out? A key that was made a moment ago knocks at each tcp
 * endpoint of the running daemon. CURVE without an enforced handler lets everybody in and looks the
 * same from inside, so it is tried from outside.
 */
#include "cli/doctor.h"
#include "core/keys.h"
#include "core/state_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KNOCK_MS 3000 /* a refusal comes within milliseconds */
#define TURN_MS  100

enum answer { ANSWER_REFUSED, ANSWER_LET_IN, ANSWER_NONE };

static enum answer listen_for(struct gk_doctor *doctor, struct gk_link *link)
{
    const struct gk_clock *clock = &doctor->cli->clock;
    uint64_t end_ns = clock->monotonic_ns(clock->context) + KNOCK_MS * UINT64_C(1000000);
    while (clock->monotonic_ns(clock->context) < end_ns) {
        struct gk_message message = {0};
        struct gk_peer peer;
        if (gk_link_refused(link, NULL) == GK_DENIED) {
            return ANSWER_REFUSED;
        }
        if (gk_link_receive(link, &peer, &message, NULL) == GK_OK) {
            gk_message_fini(&message);
            return ANSWER_LET_IN;
        }
        (void)gk_link_wait(link, TURN_MS, NULL); /* its end is looked at above */
    }
    return ANSWER_NONE;
}

static enum answer knock(struct gk_doctor *doctor, const char *endpoint, const char *server_key)
{
    struct gk_key key = {0};
    struct gk_link *link = NULL;
    enum answer answer = ANSWER_NONE;
    struct gk_message question = {.type = GK_MSG_REQUEST, .seq = 1, .body = gk_json_new_object()};
    if (gk_key_make("doctor", &key, NULL) == GK_OK &&
        gk_json_set_string(question.body, "verb", "status")) {
        (void)snprintf(key.server_key, sizeof key.server_key, "%s", server_key);
        if (gk_link_connect_as(endpoint, &key, NULL, &link, NULL) == GK_OK) {
            (void)gk_link_send(link, NULL, &question, NULL); /* silence is an answer too */
            answer = listen_for(doctor, link);
        }
    }
    gk_link_destroy(link);
    gk_message_fini(&question);
    gk_key_wipe(&key);
    return answer;
}

/* Of "all addresses" the local one is asked. */
static void reachable(const char *endpoint, char text_out[256])
{
    static const char *const all[] = {"tcp://0.0.0.0:", "tcp://*:", "tcp://[::]:"};
    (void)snprintf(text_out, 256, "%s", endpoint);
    for (size_t i = 0; i < GK_ARRAY_COUNT(all); i++) {
        if (strncmp(endpoint, all[i], strlen(all[i])) == 0) {
            (void)snprintf(text_out, 256, "tcp://%s:%s", i == 2 ? "[::1]" : "127.0.0.1",
                           endpoint + strlen(all[i]));
        }
    }
}

void gk_doctor_door(struct gk_doctor *doctor, const char *state, const struct gk_json *listen)
{
    char *path = gk_asprintf("%s/%s", state, GK_STATE_SERVER_KEY);
    for (size_t i = 0; path && i < gk_json_count(listen); i++) {
        char endpoint[256];
        struct gk_key server = {0};
        const char *named = gk_json_string(gk_json_at(listen, i), "");
        if (strncmp(named, "tcp://", 6) != 0) {
            continue;
        }
        reachable(named, endpoint);
        if (gk_key_load(path, &server, NULL) != GK_OK) {
            gk_doctor_line(doctor, "door", GK_DOCTOR_WARN, "Ask as the daemon's user.",
                           "%s cannot be tried: %s cannot be read", endpoint, path);
            continue;
        }
        enum answer answer = knock(doctor, endpoint, server.public_key);
        gk_key_wipe(&server);
        gk_doctor_line(doctor, "door",
                       answer == ANSWER_LET_IN    ? GK_DOCTOR_MISSING
                       : answer == ANSWER_REFUSED ? GK_DOCTOR_OK
                                                  : GK_DOCTOR_WARN,
                       answer == ANSWER_LET_IN
                           ? "Stop the daemon: whoever reaches it may do anything."
                           : "Is a packet filter between, or the daemon busy?",
                       "%s %s", endpoint,
                       answer == ANSWER_REFUSED  ? "refuses a key that it does not know"
                       : answer == ANSWER_LET_IN ? "lets in a key that nobody has admitted"
                                                 : "neither refused nor answered within 3 s");
    }
    free(path);
}
