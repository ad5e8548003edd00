/*
 * The protocol, worker's side: schemas/PROTOCOL.md. A session begins with HELLO and WELCOME and
 * ends when the daemon is silent for too long; leases and spooled results outlive it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker/back_off.h"
#include "worker/worker_state.h"

#define RECEIVE_MAX          64     /* messages a turn of the loop */
#define HOLD_MAX_MS          600000 /* whatever a REJECT says */
#define HEARTBEAT_DEFAULT_MS GK_HEARTBEAT_MS
#define LIVENESS_DEFAULT     GK_LIVENESS
#define CREDIT_PER_PROCESS   3
#define REFUSED_ATTEMPTS     4 /* a refused key begins with the back-off of so many: seconds */

/* ------------------------------------------------------------------ sending */

void session_send(struct worker *worker, enum gk_message_type type, int64_t token,
                  struct gk_json *body)
{
    struct gk_message message = {.type = type,
                                 .epoch = worker->epoch,
                                 .session = worker->session,
                                 .token = (uint64_t)token,
                                 .body = body};
    struct gk_err err = {0};
    bool open = worker->link && !worker->closing && (worker->welcome || type == GK_MSG_HELLO);
    if (body && open) {
        message.seq = ++worker->seq;
        enum gk_status status = gk_link_send(worker->link, NULL, &message, &err);
        if (status != GK_OK && status != GK_AGAIN) {
            worker_log(worker, GK_WORKER_SEND_FAILED, "sending %s: %s", gk_message_name(type),
                       err.text);
        }
    }
    gk_message_fini(&message);
}

static struct gk_json *tokens_body(int64_t token, const char *reason)
{
    struct gk_json *body = gk_json_new_object(), *tokens = gk_json_new_array();
    bool good = gk_json_push(tokens, gk_json_new_int(token));
    good = gk_json_set(body, "tokens", tokens) && good;
    if (!good || !gk_json_set_string(body, "reason", reason)) {
        gk_json_free(body);
        return NULL;
    }
    return body;
}

void session_release(struct worker *worker, int64_t token, const char *reason)
{
    session_send(worker, GK_MSG_RELEASE, token, tokens_body(token, reason));
}

void session_result(struct worker *worker, int64_t token, int64_t pass, struct gk_json *body)
{
    struct gk_err err = {0};
    if (gk_spool_put(worker->spool, token, pass, body, &err) != GK_OK) {
        /* Sent nevertheless: a full disk must not lose what a live connection can deliver. */
        worker_log(worker, GK_WORKER_SPOOL, "spool: %s", err.text);
    }
    session_send(worker, GK_MSG_RESULT, token, body);
}

void session_device(struct worker *worker, uint32_t device, const char *state, const char *cause)
{
    struct gk_json *body = gk_json_new_object();
    if (body && gk_json_set_int(body, "device", device) &&
        gk_json_set_string(body, "state", state) && gk_json_set_string(body, "cause", cause)) {
        session_send(worker, GK_MSG_DEVICE_EVENT, 0, body);
    } else {
        gk_json_free(body);
    }
}

/* Leases that are held but do not run yet count against the credit. */
void session_credit(struct worker *worker)
{
    for (uint32_t i = 0; i < worker->bench_count && worker->welcome && !worker->ending; i++) {
        struct bench *bench = &worker->benches[i];
        int64_t credit = (int64_t)worker->options->compile_processes * CREDIT_PER_PROCESS;
        for (const struct lease *lease = worker->leases; lease; lease = lease->next) {
            credit -= lease->device == i && lease->state <= LEASE_READY ? 1 : 0;
        }
        credit = credit > 0 && !worker->draining && !bench->fenced ? credit : 0;
        if (credit == bench->credit_sent) {
            continue;
        }
        struct gk_json *body = gk_json_new_object();
        if (body && gk_json_set_int(body, "device", i) && gk_json_set_int(body, "credit", credit)) {
            bench->credit_sent = credit;
            session_send(worker, GK_MSG_READY, 0, body);
        } else {
            gk_json_free(body);
        }
    }
}

/* ------------------------------------------------------------------ HELLO */

static bool push_held(struct gk_json *held, int64_t token, const char *state)
{
    struct gk_json *item = gk_json_new_object();
    bool good =
        item && gk_json_set_int(item, "token", token) && gk_json_set_string(item, "state", state);
    return gk_json_push(held, item) && good;
}

struct held {
    struct worker *worker;
    struct gk_json *list;
    int64_t last;
    bool good;
};

static void hold_spooled(void *context, int64_t token, int64_t pass, const struct gk_json *body)
{
    struct held *held = context;
    (void)pass;
    (void)body;
    if (token != held->last && !lease_find(held->worker, token)) {
        held->good = push_held(held->list, token, "finished") && held->good;
        held->last = token;
    }
}

static struct gk_json *held_list(struct worker *worker)
{
    static const char *const names[] = {"queued", "queued", "queued", "running", "finished"};
    struct held held = {worker, gk_json_new_array(), 0, true};
    uint32_t damaged = 0;
    for (const struct lease *lease = worker->leases; lease && held.list; lease = lease->next) {
        held.good = push_held(held.list, lease->token, names[lease->state]) && held.good;
    }
    if (!held.list || !held.good ||
        gk_spool_each(worker->spool, hold_spooled, &held, &damaged, NULL) != GK_OK || !held.good) {
        gk_json_free(held.list);
        return NULL;
    }
    return held.list;
}

static void boot_id(char text_out[64])
{
    char *text = NULL;
    size_t size = 0;
    text_out[0] = '\0';
    if (gk_file_load("/proc/sys/kernel/random/boot_id", 63, &text, &size, NULL) == GK_OK) {
        (void)snprintf(text_out, 64, "%.*s", (int)strcspn(text, "\n"), text);
    }
    free(text);
}

static struct gk_json *device_list(struct worker *worker)
{
    struct gk_json *list = gk_json_new_array();
    bool good = list != NULL;
    for (uint32_t i = 0; i < worker->bench_count; i++) {
        const struct bench *bench = &worker->benches[i];
        struct gk_json *device = gk_device_props_to_json(&bench->props);
        good = good && (!bench->driver[0] || gk_json_set_string(device, "driver", bench->driver)) &&
               (!bench->vbios[0] || gk_json_set_string(device, "vbios", bench->vbios));
        good = gk_json_push(list, device) && good;
    }
    if (!good) {
        gk_json_free(list);
        return NULL;
    }
    return list;
}

static void say_hello(struct worker *worker)
{
    char host[256] = "", boot[64];
    struct gk_json *body = gk_json_new_object();
    (void)gethostname(host, sizeof host - 1); /* a name for people: "" will do */
    boot_id(boot);
    bool good = body && gk_json_set_int(body, "version_min", GK_WIRE_VERSION_MIN) &&
                gk_json_set_int(body, "version_max", GK_WIRE_VERSION) &&
                gk_json_set_string(body, "build", worker->options->build) &&
                gk_json_set_string(body, "host", host) && gk_json_set_int(body, "pid", getpid()) &&
                gk_json_set_string(body, "boot_id", boot) &&
                gk_json_set_string(body, "spool_id", gk_spool_id(worker->spool)) &&
                gk_json_set_string(body, "nvrtc", worker->nvrtc_version) &&
                gk_json_set_bool(body, "sandboxed", worker->sandboxed) &&
                gk_json_set_bool(body, "keeps_bundle", true) &&
                gk_json_set_int(body, "cores", uv_available_parallelism());
    good = good && (!worker->options->job || gk_json_set_string(body, "job", worker->options->job));
    good = good && gk_json_set(body, "devices", device_list(worker));
    good = good && gk_json_set(body, "held", held_list(worker));
    if (!good) {
        gk_json_free(body);
        worker_end(worker, GK_NOMEM, "out of memory");
        return;
    }
    session_send(worker, GK_MSG_HELLO, 0, body);
}

/* ------------------------------------------------------------------ receiving */

static void send_spooled(void *context, int64_t token, int64_t pass, const struct gk_json *body)
{
    (void)pass;
    session_send(context, GK_MSG_RESULT, token, gk_json_copy(body));
}

static void drop_token(struct worker *worker, int64_t token)
{
    struct lease *lease = lease_find(worker, token);
    gk_spool_forget(worker->spool, token);
    if (lease) {
        lease_drop(worker, lease);
    }
}

/* Two daemons over two copies of one store: whoever has seen the newer one works for no other. A
 * store of another id is another store, and its epochs say nothing here. */
static bool is_ghost(struct worker *worker, const struct gk_message *message)
{
    const char *store = gk_json_get_string(message->body, "store_id", "");
    if (strcmp(store, worker->store_id) != 0) {
        (void)snprintf(worker->store_id, sizeof worker->store_id, "%s", store);
        worker->epoch_seen = 0;
    }
    if (message->epoch < worker->epoch_seen) {
        worker_log(worker, GK_WORKER_OLDER_DAEMON,
                   "a daemon with epoch %llu answers, %llu was seen before: an older copy of the "
                   "store is served; nothing is done for it",
                   (unsigned long long)message->epoch, (unsigned long long)worker->epoch_seen);
        return true;
    }
    worker->epoch_seen = message->epoch;
    return false;
}

/* What the daemon has fenced for a failure is tested; what an operator has fenced is not ours to
 * lift. A fence of ours that the daemon does not know was lifted there, or never arrived: whether
 * the device opens will show. */
static void test_fenced(struct worker *worker, const struct gk_json *fenced)
{
    for (uint32_t i = 0; i < worker->bench_count; i++) {
        worker->benches[i].fenced = false;
    }
    for (size_t i = 0; i < gk_json_count(fenced); i++) {
        const struct gk_json *item = gk_json_at(fenced, i);
        int64_t device = gk_json_get_int(item, "device", -1);
        if (device >= 0 && device < (int64_t)worker->bench_count &&
            strcmp(gk_json_get_string(item, "origin", "operator"), "operator") != 0) {
            worker->benches[device].fenced = true;
            bench_test(&worker->benches[device]);
        }
    }
}

static void take_welcome(struct worker *worker, const struct gk_message *message)
{
    if (is_ghost(worker, message)) {
        session_disconnect(worker);
        return;
    }
    const struct gk_json *drop = gk_json_get(message->body, "drop");
    uint32_t damaged = 0;
    worker->epoch = message->epoch;
    worker->session = message->session;
    worker->welcome = true;
    worker->welcome_at++;
    worker->attempts = 0;
    int64_t beat = gk_json_get_int(message->body, "heartbeat_ms", HEARTBEAT_DEFAULT_MS);
    int64_t live = gk_json_get_int(message->body, "liveness", LIVENESS_DEFAULT);
    worker->heartbeat_ms = (uint64_t)(beat >= 10 && beat <= 60000 ? beat : HEARTBEAT_DEFAULT_MS);
    worker->liveness = (uint64_t)(live >= 1 && live <= 100 ? live : LIVENESS_DEFAULT);
    for (size_t i = 0; i < gk_json_count(drop); i++) {
        drop_token(worker, gk_json_int(gk_json_at(drop, i), 0));
    }
    (void)gk_spool_each(worker->spool, send_spooled, worker, &damaged,
                        NULL); /* out of memory: at the next session */
    if (damaged) {
        worker_log(worker, GK_WORKER_SPOOL, "spool: %u damaged results removed", damaged);
    }
    for (uint32_t i = 0; i < worker->bench_count; i++) {
        worker->benches[i].credit_sent = -1;
    }
    test_fenced(worker, gk_json_get(message->body, "fenced"));
    session_credit(worker);
    if (!worker->was_ready) {
        worker->was_ready = true;
        worker->options->ready(worker->options->context);
    }
    leases_advance(worker);
}

static void take_leases(struct worker *worker, const struct gk_json *body)
{
    const struct gk_json *leases = gk_json_get(body, "leases");
    for (size_t i = 0; i < gk_json_count(leases); i++) {
        struct gk_err err = {0};
        if (worker->draining) { /* it was on its way */
            session_release(worker, gk_json_get_int(gk_json_at(leases, i), "token", 0),
                            worker->drain_reason);
        } else if (lease_take(worker, gk_json_at(leases, i), &err) != GK_OK) {
            worker_log(worker, GK_WORKER_LEASE, "%s", err.text);
        }
    }
    /* The daemon took one off for each lease. If as many have begun or ended since, the number is
     * the one we sent last, and still has to be said again, or its side runs dry. */
    for (uint32_t i = 0; i < worker->bench_count; i++) {
        worker->benches[i].credit_sent = -1;
    }
    session_credit(worker);
}

static void take_ack(struct worker *worker, const struct gk_message *message)
{
    const struct gk_json *results = gk_json_get(message->body, "results");
    for (size_t i = 0; i < gk_json_count(results); i++) {
        const struct gk_json *result = gk_json_at(results, i);
        int64_t token = gk_json_get_int(result, "token", 0),
                pass = gk_json_get_int(result, "pass", 0);
        bool go_on =
            gk_json_get_bool(message->body, "go_on", gk_json_get_bool(result, "go_on", false));
        bool stale = strcmp(gk_json_get_string(result, "status", ""), "stale") == 0;
        struct lease *lease = lease_find(worker, token);
        gk_spool_remove(worker->spool, token, pass);
        if (lease && lease->is_final && pass == lease->pass) {
            lease_leave_out(lease, gk_json_get(message->body, "drop"));
            lease_acknowledged(worker, lease, go_on && !stale);
        } else if (!lease && pass > 0 && go_on) {
            session_release(worker, token, "the worker restarted within the final round");
        }
    }
}

static void take_cancel(struct worker *worker, const struct gk_json *body)
{
    const struct gk_json *tokens = gk_json_get(body, "tokens");
    for (size_t i = 0; i < gk_json_count(tokens); i++) {
        drop_token(worker, gk_json_int(gk_json_at(tokens, i), 0));
    }
    for (uint32_t i = 0; i < worker->bench_count; i++) {
        bench_advance(&worker->benches[i]);
    }
}

static void take_reject(struct worker *worker, const struct gk_json *body)
{
    const char *text = gk_json_get_string(body, "text", "no reason given");
    int64_t retry_ms = gk_json_get_int(body, "retry_after_ms", 0);
    worker_log(worker, GK_WORKER_REJECTED, "the daemon refuses this worker: %s", text);
    if (retry_ms <= 0) {
        worker_end(worker, GK_DENIED, text);
    } else {
        worker->hold_ms = (uint64_t)(retry_ms < HOLD_MAX_MS ? retry_ms : HOLD_MAX_MS);
        session_disconnect(worker);
    }
}

/* The daemon has forgotten the session (it was restarted, or thought us dead): the connection is
 * good, so a new session begins on it at once. */
static void begin_again(struct worker *worker)
{
    worker->welcome = false;
    worker->epoch = worker->session = worker->seq = 0;
    say_hello(worker);
}

/* libzmq has made another connection by itself. To the daemon it is a stranger's, and what was on
 * its way is lost: waiting for the next PING to be told so would take seconds. */
static void look_at_connection(struct worker *worker)
{
    uint32_t connections = gk_link_connections(worker->link);
    if (connections > worker->connections && worker->connections > 0) {
        worker_log(worker, GK_WORKER_SESSION, "connected anew; a new session begins");
        begin_again(worker);
    }
    worker->connections = connections;
}

static void take_error(struct worker *worker, const struct gk_json *body)
{
    const char *text = gk_json_get_string(body, "text", "");
    const char *status = gk_json_get_string(body, "status", "ERROR");
    if (strcmp(status, gk_status_name(GK_STALE)) == 0) {
        if (worker->welcome) { /* else: answers to what was sent before the new HELLO */
            worker_log(worker, GK_WORKER_SESSION, "%s; a new session begins", text);
            begin_again(worker);
        }
        return;
    }
    worker_log(worker, GK_WORKER_DAEMON_ERROR, "the daemon says: %s: %s", status, text);
    if (!worker->welcome) {
        session_disconnect(worker); /* it did not take HELLO */
    } else {
        bundle_error(worker, text);
    }
}

/* An operator has lifted a fence. Whether the device works shows with its next lease. */
static void take_unfenced(struct worker *worker, const struct gk_json *body)
{
    int64_t device = gk_json_get_int(body, "device", -1);
    if (device < 0 || device >= (int64_t)worker->bench_count ||
        strcmp(gk_json_get_string(body, "state", ""), "ok") != 0) {
        worker_log(worker, GK_WORKER_MALFORMED, "a DEVICE_EVENT that lifts no fence of ours");
        return;
    }
    worker_log(worker, GK_WORKER_DEVICE, "the fence of device %s was lifted: %s",
               worker->benches[device].props.device, gk_json_get_string(body, "cause", "-"));
    bench_unfence(&worker->benches[device]);
    session_credit(worker);
}

/* Of an older session only what ends it matters; its leases come again. One that is still on its
 * way when HELLO is said is not in that HELLO, so the daemon gives it to others: it must not run.
 */
static bool is_for_us(const struct worker *worker, const struct gk_message *message)
{
    switch (message->type) {
    case GK_MSG_ERROR:
    case GK_MSG_REJECT:
    case GK_MSG_BYE:
        return true;
    case GK_MSG_WELCOME:
        return !worker->welcome || message->session == worker->session;
    default:
        return worker->welcome && message->session == worker->session;
    }
}

static void take_message(struct worker *worker, const struct gk_message *message)
{
    switch (message->type) {
    case GK_MSG_WELCOME:
        take_welcome(worker, message);
        break;
    case GK_MSG_REJECT:
        take_reject(worker, message->body);
        break;
    case GK_MSG_LEASE:
        take_leases(worker, message->body);
        break;
    case GK_MSG_ACK:
        take_ack(worker, message);
        break;
    case GK_MSG_CANCEL:
        take_cancel(worker, message->body);
        break;
    case GK_MSG_DEVICE_EVENT:
        take_unfenced(worker, message->body);
        break;
    case GK_MSG_BLOB:
        bundle_blob(worker, message->body);
        break;
    case GK_MSG_PING:
        session_send(worker, GK_MSG_PONG, 0, gk_json_new_object());
        break;
    case GK_MSG_PONG:
        break;
    case GK_MSG_BYE:
        worker_log(worker, GK_WORKER_CONNECTING, "the daemon ended: %s",
                   gk_json_get_string(message->body, "reason", "-"));
        session_disconnect(worker); /* another may come; a private worker ends with its parent */
        break;
    case GK_MSG_ERROR:
        take_error(worker, message->body);
        break;
    default:
        worker_log(worker, GK_WORKER_MALFORMED, "%s is not for workers",
                   gk_message_name(message->type));
        break;
    }
}

static void on_ready(void *context)
{
    struct worker *worker = context;
    if (!worker->closing && !worker->ending) {
        look_at_connection(worker);
    }
    for (uint32_t i = 0; i < RECEIVE_MAX && !worker->closing && !worker->ending; i++) {
        struct gk_peer peer;
        struct gk_message message = {0};
        struct gk_err err = {0};
        enum gk_status status = gk_link_receive(worker->link, &peer, &message, &err);
        if (status == GK_AGAIN) {
            return;
        }
        if (status != GK_OK) {
            worker_log(worker, GK_WORKER_MALFORMED, "a malformed message was dropped: %s",
                       err.text);
            continue;
        }
        worker->heard_ms = uv_now(&worker->loop);
        if (is_for_us(worker, &message)) {
            take_message(worker, &message);
        }
        gk_message_fini(&message);
    }
}

/* ------------------------------------------------------------------ the connection */

enum gk_status session_connect(struct worker *worker, struct gk_err *err)
{
    enum gk_status status = gk_link_connect_as(worker->options->endpoint, worker->options->key,
                                               NULL, &worker->link, err);
    if (status == GK_OK) {
        status = gk_loop_watch(&worker->loop, worker->link, on_ready, worker, &worker->watch, err);
    }
    if (status != GK_OK) {
        gk_link_destroy(worker->link);
        worker->link = NULL;
        return status;
    }
    worker->welcome = false;
    worker->connections = 0;
    worker->epoch = worker->session = worker->seq = 0;
    worker->heard_ms = uv_now(&worker->loop);
    worker->heartbeat_ms = HEARTBEAT_DEFAULT_MS;
    worker->liveness = LIVENESS_DEFAULT;
    say_hello(worker);
    return GK_OK;
}

static uint64_t back_off_ms(struct worker *worker)
{
    uint32_t random = 0;
    gk_random_bytes(&random, sizeof random);
    uint64_t wait_ms = gk_back_off_ms(worker->attempts++, random) + worker->hold_ms;
    worker->hold_ms = 0;
    return wait_ms;
}

static void close_link(struct worker *worker)
{
    gk_loop_unwatch(worker->watch);
    gk_link_destroy(worker->link);
    worker->watch = NULL;
    worker->link = NULL;
    worker->closing = false;
}

/* Closes what session_disconnect() gave up, then, a back-off later, connects. */
static void on_reconnect(uv_timer_t *timer)
{
    struct worker *worker = timer->data;
    struct gk_err err = {0};
    bool was_closing = worker->closing;
    if (was_closing) {
        close_link(worker);
    }
    if (worker->ending) {
        return;
    }
    if (!was_closing && !worker->link) {
        if (session_connect(worker, &err) == GK_OK) {
            return;
        }
        worker_log(worker, GK_WORKER_CONNECTING, "connecting: %s", err.text);
    }
    (void)uv_timer_start(timer, on_reconnect, back_off_ms(worker),
                         0); /* fails only without a callback */
}

/* May be called while the link delivers, when it must not be closed: the timer does that. */
void session_disconnect(struct worker *worker)
{
    worker->welcome = false;
    if (worker->link && !worker->closing) {
        worker->closing = true;
        (void)uv_timer_start(&worker->reconnect, on_reconnect, 0, 0);
    }
}

void session_close(struct worker *worker)
{
    close_link(worker);
}

void session_beat(struct worker *worker)
{
    uint64_t silent_ms = uv_now(&worker->loop) - worker->heard_ms;
    struct gk_err refused = {0};
    if (!worker->link || worker->closing) {
        return;
    }
    if (gk_link_refused(worker->link, &refused) != GK_OK) {
        worker_log(worker, GK_WORKER_REJECTED, "%s; trying again later",
                   refused.text); /* it may be admitted yet */
        worker->attempts =
            worker->attempts < REFUSED_ATTEMPTS ? REFUSED_ATTEMPTS : worker->attempts;
        session_disconnect(worker);
        return;
    }
    look_at_connection(worker); /* asking for refusals may have taken the event */
    if (silent_ms > worker->heartbeat_ms * worker->liveness) {
        worker_log(worker, GK_WORKER_CONNECTING,
                   "no word from the daemon for %llu ms; connecting again",
                   (unsigned long long)silent_ms);
        session_disconnect(worker);
        return;
    }
    if (uv_now(&worker->loop) - worker->pinged_ms >= worker->heartbeat_ms) {
        worker->pinged_ms = uv_now(&worker->loop);
        session_send(worker, GK_MSG_PING, 0, gk_json_new_object());
    }
}
