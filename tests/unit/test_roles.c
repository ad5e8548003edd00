/* Who may do what: every verb and every message against every role; whose job it is. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/unit/daemon_rig.h"

static const char *const ONE[] = {"scale{\"N\":4096}", NULL};
static const char *const TWO[] = {"scale{\"N\":8192}", NULL};
static const char TOY[] = "tests/data/kernels/toy";

static void become(struct rig *rig, const char *key, uint8_t roles)
{
    rig->client.roles = roles;
    (void)snprintf(rig->client.key, sizeof rig->client.key, "%s", key);
}

static const char *job_verb(struct rig *rig, const char *verb, int64_t job)
{
    struct gk_json *body = gk_json_new_object();
    assert_true(gk_json_set_int(body, "job", job));
    return rig_request(rig, verb, body);
}

/* Written by hand from schemas/PROTOCOL.md, not read from the table under test. A verb that is not
 * here turns the last assertion red: whoever adds one decides who may use it. */
static const struct {
    const char *verb;
    uint8_t roles;
} VERBS[] = {
    {"status", GK_ROLES_ALL},
    {"blob_have", GK_ROLES_ALL},
    {"blob_get", GK_ROLES_ALL},
    {"jobs", GK_ROLES_ALL},
    {"show", GK_ROLES_ALL},
    {"watch", GK_ROLES_ALL},
    {"trials", GK_ROLES_ALL},
    {"best", GK_ROLES_ALL},
    {"export_data", GK_ROLES_ALL},
    {"workers", GK_ROLES_ALL},
    {"spread", GK_ROLES_ALL},
    {"blob_put", GK_ROLE_SUBMIT | GK_ROLE_ADMIN},
    {"submit", GK_ROLE_SUBMIT | GK_ROLE_ADMIN},
    {"submit_suite", GK_ROLE_SUBMIT | GK_ROLE_ADMIN},
    {"cancel", GK_ROLE_SUBMIT | GK_ROLE_ADMIN},
    {"pause", GK_ROLE_SUBMIT | GK_ROLE_ADMIN},
    {"resume", GK_ROLE_SUBMIT | GK_ROLE_ADMIN},
    {"retry", GK_ROLE_SUBMIT | GK_ROLE_ADMIN},
    {"finish", GK_ROLE_SUBMIT | GK_ROLE_ADMIN},
    {"db", GK_ROLE_ADMIN},
    {"stop", GK_ROLE_ADMIN},
    {"keys", GK_ROLE_ADMIN},
    {"drain", GK_ROLE_ADMIN},
    {"audit", GK_ROLE_ADMIN},
    {"dead", GK_ROLES_ALL}, /* to change one needs admin: test_operators */
};

static void test_verbs(void **state)
{
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    for (size_t v = 0; v < GK_ARRAY_COUNT(VERBS); v++) {
        for (uint8_t roles = 0; roles <= GK_ROLES_ALL; roles++) {
            become(&rig, "k", roles);
            bool denied = strcmp(rig_request(&rig, VERBS[v].verb, NULL), "DENIED") == 0;
            if (denied != ((roles & VERBS[v].roles) == 0)) {
                fail_msg("%s with roles %d: %s", VERBS[v].verb, roles,
                         gk_json_get_string(rig.reply, "status", ""));
            }
            if (denied) {
                assert_non_null(
                    strstr(gk_json_get_string(rig.reply, "text", ""), "key 'k' lacks the role"));
            }
        }
    }
    become(&rig, "k", GK_ROLES_ALL);
    assert_string_equal(rig_request(&rig, "frobnicate", NULL), "PROTOCOL");
    for (const char *word = strstr(gk_json_get_string(rig.reply, "text", ""), "there are ") + 10;
         *word; word += strspn(word, " ")) {
        size_t size = strcspn(word, " ");
        bool known = false;
        for (size_t v = 0; v < GK_ARRAY_COUNT(VERBS); v++) {
            known =
                known || (strlen(VERBS[v].verb) == size && strncmp(VERBS[v].verb, word, size) == 0);
        }
        if (!known) {
            fail_msg("who may use the verb %.*s?", (int)size, word);
        }
        word += size;
    }
    assert_true(gk_core_counters(rig.core).forbidden > 0);
    rig_close(&rig);
}

/* Only a worker's key may say what a worker says; nobody else gets a session or a lease. */
static void test_messages(void **state)
{
    static const enum gk_message_type types[] = {
        GK_MSG_HELLO,   GK_MSG_READY,  GK_MSG_STARTED,      GK_MSG_RESULT, GK_MSG_RELEASE,
        GK_MSG_PING,    GK_MSG_PONG,   GK_MSG_DEVICE_EVENT, GK_MSG_BYE,    GK_MSG_BLOB_GET,
        GK_MSG_WELCOME, GK_MSG_REJECT, GK_MSG_LEASE,        GK_MSG_ACK,    GK_MSG_CANCEL,
        GK_MSG_BLOB,    GK_MSG_REPLY,  GK_MSG_EVENT,        GK_MSG_ERROR};
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    struct rig_worker *worker = rig_connect(&rig, "s1", "emu:sm_80", 2);
    (void)rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    uint32_t leases = worker->lease_count;
    assert_int_equal(leases, 2);
    int64_t token = gk_json_get_int(worker->leases[0], "token", 0);
    worker->peer.roles = GK_ROLE_SUBMIT | GK_ROLE_ADMIN;
    for (size_t i = 0; i < GK_ARRAY_COUNT(types); i++) {
        /* Each time another key: after five errors one would be suspended. */
        (void)snprintf(worker->peer.key, sizeof worker->peer.key, "boss-%zu", i);
        uint64_t errors = worker->errors, forbidden = gk_core_counters(rig.core).forbidden;
        rig_send(&rig, worker, types[i], token, gk_json_new_object());
        assert_int_equal(worker->errors, errors + 1);
        assert_int_equal(gk_core_counters(rig.core).forbidden, forbidden + 1);
    }
    assert_int_equal(worker->acks_stored + worker->acks_dropped + worker->acks_stale, 0);
    assert_int_equal(gk_core_counters(rig.core).held_leases, 2);
    worker->seq -= GK_ARRAY_COUNT(types); /* none of them was of its session */
    worker->peer.roles = GK_ROLE_WORK;
    worker->peer.key[0] = '\0';
    (void)rig_work(&rig, 1000);
    assert_true(worker->acks_stored > 0);
    rig_close(&rig);
}

static void test_jobs_of_others(void **state)
{
    static const char *const verbs[] = {"pause", "resume", "finish", "cancel"};
    struct rig rig;
    (void)state;
    rig_open(&rig, ":memory:", TOY);
    become(&rig, "alice", GK_ROLE_SUBMIT);
    int64_t job = rig_submit(&rig, "a", "emu-sm_80", 8, ONE);
    become(&rig, "bob", GK_ROLE_SUBMIT);
    int64_t other = rig_submit(&rig, "b", "emu-sm_80", 8, TWO);
    assert_string_equal(job_verb(&rig, "show", job), "OK");
    assert_string_equal(gk_json_get_string(rig.reply, "key", ""), "alice");
    for (size_t i = 0; i < GK_ARRAY_COUNT(verbs); i++) {
        assert_string_equal(job_verb(&rig, verbs[i], job), "DENIED");
        assert_non_null(strstr(gk_json_get_string(rig.reply, "text", ""), "belongs to key alice"));
    }
    assert_string_equal(job_verb(&rig, "cancel", other), "OK");
    assert_string_equal(job_verb(&rig, "retry", job), "DENIED");
    become(&rig, "alice", GK_ROLE_SUBMIT);
    assert_string_equal(job_verb(&rig, "pause", job), "OK");
    become(&rig, "root", GK_ROLE_ADMIN);
    assert_string_equal(job_verb(&rig, "resume", job), "OK");
    become(&rig, "", GK_ROLES_ALL);
    assert_string_equal(job_verb(&rig, "cancel", job), "OK");
    /* Submitted over the local socket: nobody's key is the empty one. */
    job = rig_submit(&rig, "c", "emu-sm_80", 9, ONE);
    become(&rig, "bob", GK_ROLE_SUBMIT);
    assert_string_equal(job_verb(&rig, "cancel", job), "DENIED");
    assert_non_null(strstr(gk_json_get_string(rig.reply, "text", ""), "the local socket"));
    rig_close(&rig);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_verbs),
        cmocka_unit_test(test_messages),
        cmocka_unit_test(test_jobs_of_others),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
