/*
 * Many workers in one thread: each a DEALER of its own that speaks the whole protocol of
 * schemas/PROTOCOL.md (HELLO with what it holds, READY, STARTED, RESULT, PONG), keeps what is not
 * acknowledged and sends it again after a reconnect. What a trial would take is waited for, never
 * computed: its record is one of a set made beforehand.
 */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "bench/service/load.h"
#include "core/device_props.h"
#include "tests/support/sample_trials.h"

#define RECORDS      64
#define HELD_MAX     8
#define SPOOL_MAX    16
#define TRIALS_MAX   (1u << 24) /* whose holders are remembered */
#define HEARTBEAT_NS UINT64_C(2000000000)
#define SILENCE_NS   (3 * HEARTBEAT_NS)
#define EVENTS       256

struct held {
    int64_t token, trial, pass;
    uint64_t due_ns;
    bool is_final, waits_for_ack;
    struct gk_json *lease; /* of a final round */
};

struct spooled {
    int64_t token, pass;
    char *body; /* of a pass; NULL: the record of the token */
};

struct sim {
    struct gk_link *link;
    uint32_t index, held_count, spool_count;
    uint64_t session, epoch, seq, heard_ns, pinged_ns, hello_ns, sent_ns;
    int64_t credit_said;
    bool welcome, silent, had_lease;
    struct held held[HELD_MAX];
    struct spooled spool[SPOOL_MAX];
};

struct load_fleet {
    struct load_options options;
    struct gk_device_props props;
    struct sim *sims;
    int epoll;
    struct gk_buf text, records[RECORDS];
    struct load_histogram cycles;
    struct load_counts counts;
    uint32_t *holders; /* of each trial: worker + 1, 0 nobody */
    uint64_t above, epoch, now_ns, looked_ns;
    bool draining;
};

/* ------------------------------------------------------------------ sending */

static void send_text(struct sim *sim, enum gk_message_type type, int64_t token, const char *body,
                      size_t size)
{
    struct gk_message message = {.type = type,
                                 .epoch = sim->epoch,
                                 .session = sim->session,
                                 .seq = ++sim->seq,
                                 .token = (uint64_t)token};
    struct gk_err err = {0};
    enum gk_status status = gk_link_send_text(sim->link, NULL, &message, body, size, &err);
    if (status != GK_OK && status != GK_AGAIN) { /* full: it is sent again after the next HELLO */
        load_die("%s", err.text);
    }
}

static void say_hello(struct load_fleet *fleet, struct sim *sim)
{
    struct gk_json *body = gk_json_new_object(), *held = gk_json_new_array(),
                   *devices = gk_json_new_array();
    char spool[32], *text;
    bool ok = gk_json_push(devices, gk_device_props_to_json(&fleet->props));
    for (uint32_t i = 0; i < sim->held_count + sim->spool_count; i++) {
        bool done = i >= sim->held_count;
        struct gk_json *item = gk_json_new_object();
        const char *state = done ? "finished" : fleet->options.run_ns ? "running" : "queued";
        int64_t token = done ? sim->spool[i - sim->held_count].token : sim->held[i].token;
        ok = gk_json_set_int(item, "token", token) && gk_json_set_string(item, "state", state) &&
             gk_json_push(held, item) && ok;
    }
    (void)snprintf(spool, sizeof spool, "sim-%d-%u", (int)getpid(), sim->index);
    ok = ok && gk_json_set_int(body, "version_min", GK_WIRE_VERSION_MIN) &&
         gk_json_set_int(body, "version_max", GK_WIRE_VERSION) &&
         gk_json_set_string(body, "build", "bench_load") &&
         gk_json_set_int(body, "pid", getpid()) && gk_json_set_string(body, "host", "bench") &&
         gk_json_set_string(body, "boot_id", "bench") &&
         gk_json_set_string(body, "spool_id", spool) && gk_json_set_string(body, "nvrtc", "13.0") &&
         gk_json_set_bool(body, "keeps_bundle", true) && gk_json_set_int(body, "cores", 16);
    ok = gk_json_set(body, "devices", devices) && ok;
    ok = gk_json_set(body, "held", held) && ok;
    if (!ok || !(text = gk_json_text(body))) {
        load_die("out of memory");
    }
    sim->welcome = false;
    sim->session = 0;
    sim->credit_said = -1;
    sim->hello_ns = fleet->now_ns;
    send_text(sim, GK_MSG_HELLO, 0, text, strlen(text));
    free(text);
    gk_json_free(body);
}

static void say_ready(struct load_fleet *fleet, struct sim *sim)
{
    char text[64];
    int64_t credit =
        fleet->draining ? 0 : (int64_t)fleet->options.held_max - (int64_t)sim->held_count;
    credit = credit < 0 ? 0 : credit;
    if (sim->welcome && credit != sim->credit_said) {
        int size = snprintf(text, sizeof text, "{\"credit\":%" PRId64 ",\"device\":0}", credit);
        sim->credit_said = credit;
        send_text(sim, GK_MSG_READY, 0, text, (size_t)size);
    }
}

static void send_spooled(struct load_fleet *fleet, struct sim *sim, const struct spooled *spooled)
{
    const struct gk_buf *record = &fleet->records[(uint64_t)spooled->token % RECORDS];
    const char *body = spooled->body ? spooled->body : record->data;
    send_text(sim, GK_MSG_RESULT, spooled->token, body,
              spooled->body ? strlen(spooled->body) : record->size);
}

/* A pass of a final round: one sample of each entry; the vendor's library is missing. */
static char *pass_body(struct load_fleet *fleet, const struct held *held)
{
    struct gk_buf text = {0};
    const struct gk_json *configs = gk_json_get(held->lease, "configs");
    bool any = false;
    gk_buf_printf(&text,
                  "{\"environment\":{\"gpu_ns\":3000000.0,\"regime\":\"burst\"},\"failed\":[");
    for (size_t i = 0; i < gk_json_count(configs); i++) {
        if (!gk_json_get(gk_json_at(configs, i), "config")) {
            struct gk_json *record = sample_vendor_failure();
            char *record_text = gk_json_text(record);
            gk_buf_printf(&text, "{\"record\":%s,\"trial\":0}", record_text ? record_text : "");
            free(record_text);
            gk_json_free(record);
        }
    }
    gk_buf_printf(&text,
                  "],\"last\":false,\"pass\":%" PRId64 ",\"record_kind\":\"pass\",\"samples\":[",
                  held->pass);
    for (size_t i = 0; i < gk_json_count(configs); i++) {
        int64_t trial = gk_json_get_int(gk_json_at(configs, i), "trial", 0);
        if (gk_json_get(gk_json_at(configs, i), "config")) {
            int64_t ns = 10000 + (trial < 0 ? -trial : trial) % 977 + held->pass % 3;
            gk_buf_printf(&text, "%s{\"ns\":[%" PRId64 ".0],\"trial\":%" PRId64 "}", any ? "," : "",
                          ns, trial);
            any = true;
        }
    }
    gk_buf_puts(&text, "]}");
    fleet->counts.passes++;
    return gk_buf_detach(&text);
}

/* The trial at `at` has run: its record goes to the spool and to the daemon. */
static void finish(struct load_fleet *fleet, struct sim *sim, uint32_t at)
{
    struct held *held = &sim->held[at];
    struct spooled *spooled = &sim->spool[sim->spool_count];
    if (sim->spool_count == SPOOL_MAX || held->waits_for_ack || !sim->welcome) {
        return;
    }
    if (fleet->options.started && held->pass <= 1) {
        static const char compile[] = "{\"phase\":\"compile\"}", run[] = "{\"phase\":\"run\"}";
        send_text(sim, GK_MSG_STARTED, held->token, compile, sizeof compile - 1);
        send_text(sim, GK_MSG_STARTED, held->token, run, sizeof run - 1);
    }
    *spooled = (struct spooled){.token = held->token, .pass = held->pass};
    if (held->is_final && !(spooled->body = pass_body(fleet, held))) {
        load_die("out of memory");
    }
    sim->spool_count++;
    send_spooled(fleet, sim, spooled);
    fleet->counts.results++;
    if (held->is_final) {
        held->waits_for_ack = true;
        return;
    }
    if (held->trial < (int64_t)TRIALS_MAX) {
        fleet->holders[held->trial] = 0;
    }
    *held = sim->held[--sim->held_count];
    sim->sent_ns = load_now_ns();
    say_ready(fleet, sim);
}

/* ------------------------------------------------------------------ receiving */

/* The number behind `"key":` from *at on, which moves behind it; -1: none before `end`. Bodies are
 * canonical text. */
static int64_t number_after(const char **at, const char *key)
{
    const char *found = strstr(*at, key);
    if (!found) {
        return -1;
    }
    *at = found + strlen(key);
    return strtoll(*at, NULL, 10);
}

static void hold(struct load_fleet *fleet, struct sim *sim, struct held held)
{
    fleet->counts.leases++;
    if (sim->held_count == HELD_MAX) {
        load_die("worker %u got more leases than its credit", sim->index);
    }
    held.due_ns = fleet->now_ns + fleet->options.run_ns;
    if (!held.is_final && held.trial < (int64_t)TRIALS_MAX) {
        fleet->counts.twice += fleet->holders[held.trial] != 0;
        fleet->holders[held.trial] = sim->index + 1;
    }
    sim->held[sim->held_count++] = held;
    sim->had_lease = true;
}

static void on_lease(struct load_fleet *fleet, struct sim *sim)
{
    const char *text = gk_buf_text(&fleet->text);
    uint64_t now = load_now_ns();
    if (sim->sent_ns) {
        load_histogram_add(&fleet->cycles, now - sim->sent_ns);
        sim->sent_ns = 0;
    }
    sim->credit_said = -1; /* used up: what is left is said anew */
    if (strstr(text, "\"kind\":\"final\"")) {
        struct gk_json *body = NULL;
        struct gk_err err = {0};
        load_need(gk_json_parse(text, strlen(text), "LEASE", &body, &err), &err);
        const struct gk_json *leases = gk_json_get(body, "leases");
        for (size_t i = 0; i < gk_json_count(leases); i++) {
            const struct gk_json *lease = gk_json_at(leases, i);
            bool final = gk_json_get(lease, "configs") != NULL;
            hold(fleet, sim,
                 (struct held){.token = gk_json_get_int(lease, "token", 0),
                               .trial = gk_json_get_int(lease, "trial", 0),
                               .pass = final,
                               .is_final = final,
                               .lease = final ? gk_json_copy(lease) : NULL});
        }
        gk_json_free(body);
    } else {
        for (int64_t token; (token = number_after(&text, "\"token\":")) > 0;) {
            hold(fleet, sim,
                 (struct held){.token = token, .trial = number_after(&text, "\"trial\":")});
        }
    }
    for (uint32_t i = sim->held_count; fleet->options.run_ns == 0 && i-- > 0;) {
        finish(fleet, sim, i);
    }
    say_ready(fleet, sim);
}

static void forget(struct load_fleet *fleet, struct sim *sim, int64_t token, bool spooled_too)
{
    for (uint32_t i = sim->held_count; i-- > 0;) {
        if (sim->held[i].token == token) {
            gk_json_free(sim->held[i].lease);
            if (!sim->held[i].is_final && sim->held[i].trial < (int64_t)TRIALS_MAX) {
                fleet->holders[sim->held[i].trial] = 0;
            }
            sim->held[i] = sim->held[--sim->held_count];
        }
    }
    for (uint32_t i = sim->spool_count; spooled_too && i-- > 0;) {
        if (sim->spool[i].token == token) {
            free(sim->spool[i].body);
            sim->spool[i] = sim->spool[--sim->spool_count];
        }
    }
}

static void on_ack(struct load_fleet *fleet, struct sim *sim, int64_t token)
{
    const char *text = gk_buf_text(&fleet->text);
    bool go_on = strstr(text, "\"go_on\":true") != NULL;
    fleet->counts.stored += strstr(text, "\"stored\"") != NULL;
    fleet->counts.duplicate += strstr(text, "\"duplicate\"") != NULL;
    fleet->counts.stale += strstr(text, "\"stale\"") != NULL;
    fleet->counts.dropped += strstr(text, "\"dropped\"") != NULL;
    for (uint32_t i = sim->spool_count; i-- > 0;) {
        if (sim->spool[i].token == token) {
            free(sim->spool[i].body);
            sim->spool[i] = sim->spool[--sim->spool_count];
        }
    }
    for (uint32_t i = 0; i < sim->held_count; i++) {
        struct held *held = &sim->held[i];
        if (held->token == token && held->is_final && held->waits_for_ack) {
            held->waits_for_ack = false;
            held->pass++;
            held->due_ns = fleet->now_ns + fleet->options.run_ns;
            if (!go_on) {
                forget(fleet, sim, token, false);
            } else if (fleet->options.run_ns == 0) {
                finish(fleet, sim, i);
            }
            break;
        }
    }
    say_ready(fleet, sim);
}

static void on_welcome(struct load_fleet *fleet, struct sim *sim, const struct gk_message *message)
{
    struct gk_json *body = NULL;
    struct gk_err err = {0};
    load_need(gk_json_parse(gk_buf_text(&fleet->text), fleet->text.size, "WELCOME", &body, &err),
              &err);
    const struct gk_json *drop = gk_json_get(body, "drop");
    sim->welcome = true;
    sim->credit_said = -1; /* another session knows of none */
    sim->session = message->session;
    sim->epoch = message->epoch;
    fleet->epoch = message->epoch > fleet->epoch ? message->epoch : fleet->epoch;
    for (size_t i = 0; i < gk_json_count(drop); i++) {
        int64_t token = gk_json_int(gk_json_at(drop, i), 0);
        bool in_spool = false;
        for (uint32_t s = 0; s < sim->spool_count; s++) {
            in_spool = in_spool || sim->spool[s].token == token;
        }
        /* Stored before the connection was lost, or never known: either way it is over. */
        fleet->counts.duplicate += in_spool;
        fleet->counts.cancelled += !in_spool;
        forget(fleet, sim, token, true);
    }
    gk_json_free(body);
    for (uint32_t i = 0; i < sim->spool_count; i++) {
        fleet->counts.resent++;
        send_spooled(fleet, sim, &sim->spool[i]);
    }
    say_ready(fleet, sim);
}

static void on_message(struct load_fleet *fleet, struct sim *sim, const struct gk_message *message)
{
    static const char empty[] = "{}";
    const char *text = gk_buf_text(&fleet->text);
    sim->heard_ns = fleet->now_ns;
    bool ends = message->type == GK_MSG_ERROR || message->type == GK_MSG_REJECT ||
                message->type == GK_MSG_BYE;
    bool begins = message->type == GK_MSG_WELCOME && !sim->welcome;
    if (sim->silent || !(ends || begins || (sim->welcome && message->session == sim->session))) {
        return;
    }
    switch (message->type) {
    case GK_MSG_WELCOME:
        on_welcome(fleet, sim, message);
        break;
    case GK_MSG_LEASE:
        on_lease(fleet, sim);
        break;
    case GK_MSG_ACK:
        on_ack(fleet, sim, (int64_t)message->token);
        break;
    case GK_MSG_CANCEL:
        for (int64_t token = number_after(&text, "\"tokens\":["); token > 0; token = 0) {
            forget(fleet, sim, token, true);
            fleet->counts.cancelled++;
        }
        say_ready(fleet, sim);
        break;
    case GK_MSG_PING:
        send_text(sim, GK_MSG_PONG, 0, empty, sizeof empty - 1);
        break;
    case GK_MSG_REJECT:
        fleet->counts.rejects++;
        break;
    case GK_MSG_ERROR:
        fleet->counts.errors++;
        /* Before WELCOME these are answers to what was sent before the HELLO: as the worker does.
         */
        if (strstr(text, "say HELLO") && sim->welcome) {
            say_hello(fleet, sim);
        }
        break;
    case GK_MSG_BYE:
        sim->welcome = false;
        break;
    default: /* a newer daemon may say more than we know */
        break;
    }
}

static void drain_link(struct load_fleet *fleet, struct sim *sim)
{
    for (;;) {
        struct gk_message message = {0};
        struct gk_err err = {0};
        enum gk_status status = gk_link_receive_text(sim->link, NULL, &message, &fleet->text, &err);
        if (status == GK_AGAIN) {
            return;
        }
        load_need(status, &err);
        on_message(fleet, sim, &message);
    }
}

/* ------------------------------------------------------------------ time */

static void look(struct load_fleet *fleet, struct sim *sim)
{
    static const char empty[] = "{}";
    if (sim->silent) {
        return;
    }
    for (uint32_t i = sim->held_count; fleet->options.run_ns > 0 && i-- > 0;) {
        if (sim->held[i].due_ns <= fleet->now_ns) {
            finish(fleet, sim, i);
        }
    }
    if (!sim->welcome && fleet->now_ns - sim->hello_ns > 15000000000u) {
        say_hello(fleet, sim);
    } else if (fleet->now_ns - sim->heard_ns > SILENCE_NS) {
        sim->heard_ns = fleet->now_ns;
        say_hello(fleet, sim);
    } else if (sim->welcome && fleet->now_ns - sim->pinged_ns > HEARTBEAT_NS) {
        sim->pinged_ns = fleet->now_ns;
        send_text(sim, GK_MSG_PING, 0, empty, sizeof empty - 1);
    }
    drain_link(fleet, sim); /* a send may have taken the descriptor's edge */
}

void load_fleet_run(struct load_fleet *fleet, uint64_t ns,
                    bool (*done)(struct load_fleet *fleet, void *context), void *context)
{
    struct epoll_event events[EVENTS];
    fleet->now_ns = load_now_ns();
    uint64_t until = fleet->now_ns + ns;
    while (fleet->now_ns < until && !(done && done(fleet, context))) {
        int ready = epoll_wait(fleet->epoll, events, EVENTS, 10);
        fleet->now_ns = load_now_ns();
        for (int i = 0; i < ready; i++) {
            drain_link(fleet, &fleet->sims[events[i].data.u32]);
        }
        if (fleet->now_ns - fleet->looked_ns > 20000000u) {
            fleet->looked_ns = fleet->now_ns;
            for (uint32_t i = 0; i < fleet->options.workers; i++) {
                look(fleet, &fleet->sims[i]);
            }
        }
    }
}

static bool nothing_out(struct load_fleet *fleet, void *context)
{
    (void)context;
    for (uint32_t i = 0; i < fleet->options.workers; i++) {
        const struct sim *sim = &fleet->sims[i];
        if (!sim->silent && sim->held_count + sim->spool_count > 0) {
            return false;
        }
    }
    return true;
}

void load_fleet_drain(struct load_fleet *fleet, uint64_t ns)
{
    fleet->draining = true;
    for (uint32_t i = 0; i < fleet->options.workers; i++) {
        if (!fleet->sims[i].silent) {
            say_ready(fleet, &fleet->sims[i]);
        }
    }
    load_fleet_run(fleet, ns, nothing_out, NULL);
}

/* ------------------------------------------------------------------ life */

static void make_props(const char *device, struct gk_device_props *props)
{
    struct gk_err err = {0};
    bool gpu = strncmp(device, "cuda:", 5) == 0;
    load_need(gk_device_props_builtin(gpu ? "mock:sm_80" : device, props, &err), &err);
    if (gpu) {
        (void)snprintf(props->device, sizeof props->device, "%s", device);
        (void)snprintf(props->arch, sizeof props->arch, "sm_80");
        (void)snprintf(props->gpu, sizeof props->gpu, "a100-108sm");
        (void)snprintf(props->name, sizeof props->name, "a simulated A100");
        props->modelled = false;
        props->sms = 108;
        props->l2_bytes = INT64_C(40) << 20;
        props->mem_bytes = INT64_C(80) << 30;
        props->clock_khz = 1410000;
        props->mem_bytes_per_us = 2039000;
    }
}

static void make_records(struct load_fleet *fleet)
{
    struct gk_prng prng;
    struct gk_err err = {0};
    gk_prng_init(&prng, 11, 0);
    for (uint32_t i = 0; i < RECORDS; i++) {
        struct gk_json *body = gk_json_new_object(), *record = sample_record(&prng, i % 4);
        if (!gk_json_set_bool(record, "modelled", fleet->props.modelled) ||
            !gk_json_set(body, "record", record)) {
            load_die("out of memory");
        }
        load_need(gk_json_canonical(body, &fleet->records[i], &err), &err);
        gk_json_free(body);
    }
}

struct load_fleet *load_fleet_create(const struct load_options *options)
{
    struct load_fleet *fleet = calloc(1, sizeof *fleet);
    struct gk_err err = {0};
    if (!fleet || !(fleet->sims = calloc(options->workers, sizeof *fleet->sims)) ||
        !(fleet->holders = calloc(TRIALS_MAX, sizeof *fleet->holders))) {
        load_die("out of memory for %u workers", options->workers);
    }
    fleet->options = *options;
    if (options->held_max < 1 || options->held_max > HELD_MAX) {
        load_die("--held %u: 1 to %d are allowed", options->held_max, HELD_MAX);
    }
    make_props(options->device, &fleet->props);
    make_records(fleet);
    load_histogram_init(&fleet->cycles);
    fleet->epoll = epoll_create1(EPOLL_CLOEXEC);
    fleet->now_ns = load_now_ns();
    for (uint32_t i = 0; i < options->workers; i++) {
        struct sim *sim = &fleet->sims[i];
        struct epoll_event event = {.events = EPOLLIN, .data = {.u32 = i}};
        sim->index = i;
        sim->heard_ns = fleet->now_ns;
        /* Spread: a fleet's heartbeats do not come at one moment. */
        sim->pinged_ns = fleet->now_ns - HEARTBEAT_NS * i / options->workers;
        load_need(gk_link_connect_as(options->endpoint, options->key,
                                     i ? fleet->sims[0].link : NULL, &sim->link, &err),
                  &err);
        if (epoll_ctl(fleet->epoll, EPOLL_CTL_ADD, gk_link_fd(sim->link), &event) != 0) {
            load_die("epoll: %s", strerror(errno));
        }
        say_hello(fleet, sim);
    }
    return fleet;
}

void load_fleet_destroy(struct load_fleet *fleet)
{
    if (!fleet) {
        return;
    }
    for (uint32_t i = fleet->options.workers; i-- > 0;) { /* the first one has the context */
        struct sim *sim = &fleet->sims[i];
        gk_link_destroy(sim->link);
        for (uint32_t k = 0; k < sim->held_count; k++) {
            gk_json_free(sim->held[k].lease);
        }
        for (uint32_t k = 0; k < sim->spool_count; k++) {
            free(sim->spool[k].body);
        }
    }
    for (uint32_t i = 0; i < RECORDS; i++) {
        gk_buf_fini(&fleet->records[i]);
    }
    gk_buf_fini(&fleet->text);
    load_histogram_fini(&fleet->cycles);
    (void)close(fleet->epoll); /* nothing is kept in it */
    free(fleet->holders);
    free(fleet->sims);
    free(fleet);
}

struct load_counts load_fleet_counts(const struct load_fleet *fleet)
{
    struct load_counts counts = fleet->counts;
    for (uint32_t i = 0; i < fleet->options.workers; i++) {
        const struct sim *sim = &fleet->sims[i];
        counts.connected += sim->welcome && sim->epoch > fleet->above;
        counts.leased += sim->had_lease;
        counts.held += sim->held_count;
        counts.unacknowledged += sim->spool_count;
    }
    return counts;
}

struct load_histogram *load_fleet_cycles(struct load_fleet *fleet)
{
    return &fleet->cycles;
}

void load_fleet_expect_epoch(struct load_fleet *fleet, uint64_t above)
{
    fleet->above = above;
    for (uint32_t i = 0; i < fleet->options.workers; i++) {
        fleet->sims[i].had_lease = fleet->sims[i].held_count > 0;
    }
}

uint64_t load_fleet_epoch(const struct load_fleet *fleet)
{
    return fleet->epoch;
}

void load_fleet_silence(struct load_fleet *fleet, uint32_t worker)
{
    fleet->sims[worker].silent = true;
}
