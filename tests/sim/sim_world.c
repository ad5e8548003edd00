/* Time, the wire, and what goes wrong. See sim.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

#define HEAL_EVENTS_MAX 60000
#define TURN_MAX        256 /* messages a turn of the daemon, as in the shell */

uint64_t sim_below(struct sim *sim, uint64_t bound)
{
    return gk_prng_below(&sim->prng, bound);
}

bool sim_chance(struct sim *sim, uint32_t of_1000)
{
    return !sim->healing && of_1000 > 0 && sim_below(sim, 1000) < of_1000;
}

void sim_red(struct sim *sim, const char *format, ...)
{
    va_list ap;
    if (sim->red[0]) {
        return; /* the first one counts: others follow from it */
    }
    va_start(ap, format);
    (void)vsnprintf(sim->red, sizeof sim->red, format, ap); /* a cut message still says it */
    va_end(ap);
}

void sim_say(const struct sim *sim, const char *format, ...)
{
    va_list ap;
    if (!sim->verbose) {
        return;
    }
    va_start(ap, format);
    (void)printf("%10.3f ", (double)sim->now_ns / 1e9); /* for people */
    (void)vprintf(format, ap);
    (void)printf("\n");
    va_end(ap);
}

/* ------------------------------------------------------------------ the wire */

static bool before(const struct packet *a, const struct packet *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->order < b->order;
}

static void swap(struct packet *a, struct packet *b)
{
    struct packet other = *a;
    *a = *b;
    *b = other;
}

static void push(struct sim *sim, const struct packet *packet)
{
    if (sim->queue_count == sim->queue_capacity) {
        sim->queue_capacity = sim->queue_capacity ? sim->queue_capacity * 2 : 256;
        sim->queue = realloc(sim->queue, sim->queue_capacity * sizeof *sim->queue);
        GK_ASSERT(sim->queue);
    }
    uint32_t at = sim->queue_count++;
    sim->queue[at] = *packet;
    while (at > 0 && before(&sim->queue[at], &sim->queue[(at - 1) / 2])) {
        swap(&sim->queue[at], &sim->queue[(at - 1) / 2]);
        at = (at - 1) / 2;
    }
}

static struct packet pop(struct sim *sim)
{
    struct packet first = sim->queue[0];
    uint32_t at = 0;
    sim->queue[0] = sim->queue[--sim->queue_count];
    for (;;) {
        uint32_t least = at;
        for (uint32_t child = 2 * at + 1; child <= 2 * at + 2; child++) {
            if (child < sim->queue_count && before(&sim->queue[child], &sim->queue[least])) {
                least = child;
            }
        }
        if (least == at) {
            return first;
        }
        swap(&sim->queue[at], &sim->queue[least]);
        at = least;
    }
}

uint32_t sim_connect(struct sim *sim, bool is_worker, uint32_t party)
{
    GK_ASSERT(sim->conn_count < SIM_CONNS_MAX);
    uint32_t conn = sim->conn_count++;
    sim->conns[conn] = (struct conn){.open = true, .is_worker = is_worker, .party = party};
    if (is_worker) {
        sim->workers[party].conn = conn;
    } else {
        sim->clients[party].conn = conn;
    }
    return conn;
}

/* What is on its way is lost; the party's socket connects again by itself, under another name. */
void sim_disconnect(struct sim *sim, uint32_t conn)
{
    struct conn *old = &sim->conns[conn];
    if (!old->open) {
        return;
    }
    old->open = false;
    uint32_t current =
        old->is_worker ? sim->workers[old->party].conn : sim->clients[old->party].conn;
    if (current == conn) {
        (void)sim_connect(sim, old->is_worker, old->party); /* the party holds the number */
    }
}

static void copy_message(struct sim *sim, struct packet *packet, const struct gk_message *message)
{
    unsigned char header[GK_HEADER_SIZE];
    struct gk_buf body = {0};
    struct gk_err err = {0};
    if (gk_wire_encode(message, header, &body, &err) != GK_OK ||
        gk_wire_decode(header, sizeof header, body.data, body.size, &packet->message, &err) !=
            GK_OK) {
        sim_red(sim, "a message does not travel: %s", err.text);
        packet->message = (struct gk_message){.type = message->type, .body = gk_json_new_object()};
    }
    gk_buf_fini(&body);
}

void sim_send(struct sim *sim, uint32_t conn, bool to_daemon, struct gk_message *message)
{
    struct conn *way = &sim->conns[conn];
    uint64_t delay = 50000 + sim_below(sim, sim_chance(sim, 30) ? 3 * SECOND_NS : 4 * MS_NS);
    uint64_t at = sim->now_ns + delay;
    at = at > way->last_at_ns[to_daemon] ? at : way->last_at_ns[to_daemon] + 1;
    way->last_at_ns[to_daemon] = at;
    struct packet packet = {
        .at_ns = at, .order = ++sim->order, .conn = conn, .to_daemon = to_daemon};
    if (sim_chance(sim, sim->rates.duplicate)) {
        struct packet twin = packet;
        copy_message(sim, &twin, message);
        /* A whole session begins with HELLO: only what is keyed may come again much later. */
        bool keyed = message->type == GK_MSG_RESULT || message->type == GK_MSG_ACK;
        twin.at_ns += !keyed || sim_below(sim, 2) ? 1 : sim_below(sim, 20 * SECOND_NS);
        twin.order = ++sim->order;
        push(sim, &twin);
        sim->faults++;
    }
    copy_message(sim, &packet, message);
    gk_message_fini(message);
    push(sim, &packet);
}

static void note(struct sim *sim, const struct packet *packet)
{
    const uint64_t facts[] = {sim->now_ns, packet->message.type, packet->conn,
                              packet->message.token, packet->to_daemon};
    for (size_t i = 0; i < GK_ARRAY_COUNT(facts); i++) {
        sim->trace = (sim->trace ^ facts[i]) * 1099511628211u;
    }
    sim->messages++;
}

/* False: it waits longer (then *packet is back in the queue), or is lost. */
static bool arrives(struct sim *sim, struct packet *packet)
{
    struct conn *conn = &sim->conns[packet->conn];
    uint64_t until = conn->blocked_until_ns[packet->to_daemon];
    uint64_t held = conn->held_until_ns[packet->to_daemon]; /* an earlier one waits so long */
    until = until > held ? until : held;
    if (!conn->open) {
        gk_message_fini(&packet->message);
        return false;
    }
    if (packet->to_daemon) {
        until = until > sim->stalled_until_ns ? until : sim->stalled_until_ns;
        until = sim->up ? until : until > sim->start_ns ? until : sim->start_ns;
    } else if (conn->is_worker && sim->workers[conn->party].state == WORKER_HUNG) {
        until =
            until > sim->workers[conn->party].back_ns ? until : sim->workers[conn->party].back_ns;
    }
    if (until > sim->now_ns || (packet->to_daemon && !sim->up)) {
        packet->at_ns = until > sim->now_ns ? until : sim->now_ns + MS_NS;
        if (conn->last_at_ns[packet->to_daemon] < packet->at_ns) { /* nothing overtakes it */
            conn->last_at_ns[packet->to_daemon] = packet->at_ns;
        }
        conn->held_until_ns[packet->to_daemon] = packet->at_ns;
        push(sim, packet);
        return false;
    }
    return true;
}

static void deliver(struct sim *sim)
{
    struct packet turn[TURN_MAX];
    uint32_t count = 0;
    while (sim->queue_count > 0 && sim->queue[0].at_ns <= sim->now_ns && count < TURN_MAX) {
        struct packet packet = pop(sim);
        if (!arrives(sim, &packet)) {
            continue;
        }
        note(sim, &packet);
        if (packet.to_daemon) {
            turn[count++] = packet;
            continue;
        }
        const struct conn *conn = &sim->conns[packet.conn];
        if (conn->is_worker) {
            worker_message(sim, conn->party, &packet.message);
        } else {
            client_message(sim, conn->party, &packet.message);
        }
        gk_message_fini(&packet.message);
    }
    if (count > 0) {
        daemon_turn(sim, turn, count);
    }
    for (uint32_t i = 0; i < count; i++) {
        gk_message_fini(&turn[i].message);
    }
}

/* ------------------------------------------------------------------ what goes wrong */

static void partition(struct sim *sim)
{
    bool is_worker = sim_below(sim, 4) > 0;
    uint32_t party = (uint32_t)sim_below(sim, is_worker ? sim->worker_count : sim->client_count);
    struct conn *conn =
        &sim->conns[is_worker ? sim->workers[party].conn : sim->clients[party].conn];
    uint64_t until = sim->now_ns + SECOND_NS + sim_below(sim, 40 * SECOND_NS);
    uint64_t ways = 1 + sim_below(sim, 3);
    for (uint32_t way = 0; way < 2; way++) {
        if (ways & (1u << way)) {
            conn->blocked_until_ns[way] = until;
        }
    }
    if (is_worker) {
        sim->workers[party].trouble_ns = until;
    }
    sim_say(sim, "partition of %s %u", is_worker ? "worker" : "client", party);
}

static void hang(struct sim *sim, struct sim_worker *worker)
{
    if (worker->state == WORKER_UP) {
        worker->state = WORKER_HUNG;
        worker->back_ns = sim->now_ns + SECOND_NS + sim_below(sim, 60 * SECOND_NS);
        worker->wake_ns = worker->back_ns;
        worker->trouble_ns = worker->back_ns;
    }
}

static void arm_disk(struct sim *sim)
{
    const struct sim_rates *rates = &sim->rates;
    enum disk_fault fault = sim_chance(sim, rates->disk_death)  ? DISK_DIES
                            : sim_chance(sim, rates->disk_eio)  ? DISK_EIO
                            : sim_chance(sim, rates->disk_full) ? DISK_FULL
                                                                : DISK_FINE;
    if (fault != DISK_FINE) {
        sim->faults++;
        sim->power_next = sim_below(sim, 2) == 0;
        sim->full_until_ns = sim->now_ns + SECOND_NS + sim_below(sim, 30 * SECOND_NS);
        disk_arm(fault, 1 + sim_below(sim, 30));
        sim_say(sim, "the disk will fail: %d", (int)fault);
    }
}

static void daemon_trouble(struct sim *sim)
{
    const struct sim_rates *rates = &sim->rates;
    if (sim->up && sim_chance(sim, rates->kill)) {
        daemon_kill(sim, false);
        sim->faults++;
    }
    if (sim->up && sim_chance(sim, rates->power)) {
        daemon_kill(sim, true);
        sim->faults++;
    }
    if (sim_chance(sim, rates->stall)) {
        if (sim->now_ns >= sim->stalled_until_ns && sim->up) {
            sim->stalled_from_ns = sim->now_ns;
        }
        sim->stalled_until_ns = sim->now_ns + SECOND_NS + sim_below(sim, 60 * SECOND_NS);
        sim->faults++;
    }
    if (sim_chance(sim, rates->clock_jump)) {
        uint64_t day_ms = 24u * 3600 * 1000;
        sim->wall_ms += sim_below(sim, 2) ? day_ms : (uint64_t)0 - day_ms;
        sim->faults++;
    }
    arm_disk(sim);
}

static void nemesis(struct sim *sim)
{
    const struct sim_rates *rates = &sim->rates;
    uint32_t index = (uint32_t)sim_below(sim, sim->worker_count);
    struct sim_worker *worker = &sim->workers[index];
    uint64_t faults = sim->faults;
    daemon_trouble(sim);
    if (sim_chance(sim, rates->worker_crash)) {
        worker_crash(sim, index, sim->now_ns + SECOND_NS / 2 + sim_below(sim, 40 * SECOND_NS));
        sim->faults++;
    }
    if (sim_chance(sim, rates->worker_hang)) {
        hang(sim, worker);
        sim->faults++;
    }
    if (sim_chance(sim, rates->worker_drain)) {
        worker_drain(sim, index);
        sim->faults++;
    }
    if (sim_chance(sim, rates->partition)) {
        partition(sim);
        sim->faults++;
    }
    if (sim_chance(sim, rates->disconnect)) {
        worker->trouble_ns = worker->trouble_ns > sim->now_ns ? worker->trouble_ns : sim->now_ns;
        sim_disconnect(sim, worker->conn);
        sim->faults++;
    }
    if (sim_chance(sim, rates->fence)) {
        worker_fence(sim, index, !worker->fenced);
        sim->faults++;
    }
    if (sim_chance(sim, rates->rogue)) {
        worker_rogue(sim, index);
        sim->faults++;
    }
    if (sim->faults != faults) {
        sim_say(sim, "worker %u, %s; faults %llu", index, worker->welcome ? "in" : "out",
                (unsigned long long)sim->faults);
    }
}

/* ------------------------------------------------------------------ the loop */

static uint64_t next_time(const struct sim *sim)
{
    uint64_t next =
        sim->up ? (sim->timer_ns > sim->stalled_until_ns ? sim->timer_ns : sim->stalled_until_ns)
                : sim->start_ns;
    if (sim->queue_count > 0 && sim->queue[0].at_ns < next) {
        next = sim->queue[0].at_ns;
    }
    for (uint32_t i = 0; i < sim->worker_count; i++) {
        next = sim->workers[i].wake_ns < next ? sim->workers[i].wake_ns : next;
    }
    for (uint32_t i = 0; i < sim->client_count; i++) {
        next = sim->clients[i].next_ns < next ? sim->clients[i].next_ns : next;
    }
    return next > sim->now_ns ? next : sim->now_ns;
}

static void step(struct sim *sim)
{
    uint64_t next = next_time(sim);
    sim->wall_ms += (next - sim->now_ns) / MS_NS;
    sim->now_ns = next;
    if (!sim->up && sim->now_ns >= sim->start_ns) {
        daemon_start(sim);
    }
    bool stalled = sim->now_ns < sim->stalled_until_ns;
    /* Either the timer or the messages come first, as in a loop that was held up. */
    if (sim->up && !stalled && sim->now_ns >= sim->timer_ns) {
        sim->timer_ns = sim->now_ns + 10 * SECOND_NS;
        daemon_turn(sim, NULL, 0);
    }
    deliver(sim);
    for (uint32_t i = 0; i < sim->worker_count; i++) {
        if (sim->workers[i].wake_ns <= sim->now_ns) {
            worker_step(sim, i);
        }
    }
    for (uint32_t i = 0; i < sim->client_count; i++) {
        if (sim->clients[i].next_ns <= sim->now_ns) {
            client_step(sim, i);
        }
    }
}

/* Nothing fails any more; what was promised has to come true. */
static void heal(struct sim *sim)
{
    sim_say(sim, "healing");
    sim->healing = true;
    disk_arm(DISK_FINE, 0);
    sim->full_until_ns = sim->now_ns;
    sim->stalled_until_ns = sim->now_ns;
    for (uint32_t c = 0; c < sim->conn_count; c++) {
        for (int way = 0; way < 2; way++) {
            struct conn *conn = &sim->conns[c];
            conn->blocked_until_ns[way] = conn->blocked_until_ns[way] > sim->now_ns
                                              ? sim->now_ns
                                              : conn->blocked_until_ns[way];
        }
    }
    for (uint32_t i = 0; i < sim->worker_count; i++) {
        struct sim_worker *worker = &sim->workers[i];
        worker->back_ns = worker->wake_ns = sim->now_ns;
        worker_fence(sim, i, false);
    }
}

void sim_run(struct sim *sim)
{
    while (sim->events < sim->events_max && !sim->red[0]) {
        step(sim);
        nemesis(sim);
        sim->events++;
    }
    heal(sim);
    uint64_t healed = sim->events;
    while (!sim->red[0] && (!sim->up || sim->syncing || check_open_jobs(sim) > 0)) {
        step(sim);
        if (++sim->events - healed > HEAL_EVENTS_MAX) {
            sim_red(sim, "%lld jobs did not end though nothing fails any more",
                    (long long)(sim->up ? check_open_jobs(sim) : -1));
        }
    }
    if (!sim->red[0]) { /* one more start: what is there was durable */
        daemon_kill(sim, true);
        sim->now_ns = sim->start_ns;
        daemon_start(sim);
    }
    if (!sim->red[0]) {
        check_end(sim);
    }
}

/* Each kind of fault is in a third of the seeds, so that each also meets none of the others. */
static void draw_rates(struct sim *sim)
{
    uint32_t *rates[] = {
        &sim->rates.kill,        &sim->rates.power,        &sim->rates.disk_death,
        &sim->rates.disk_eio,    &sim->rates.disk_full,    &sim->rates.worker_crash,
        &sim->rates.worker_hang, &sim->rates.worker_drain, &sim->rates.partition,
        &sim->rates.disconnect,  &sim->rates.duplicate,    &sim->rates.stall,
        &sim->rates.clock_jump,  &sim->rates.fence,        &sim->rates.rogue,
        &sim->rates.checkpoint};
    for (size_t i = 0; i < GK_ARRAY_COUNT(rates); i++) {
        *rates[i] = sim_below(sim, 3) ? 0 : 1 + (uint32_t)sim_below(sim, 20);
    }
    if (sim->canary == CANARY_ACK_FIRST || sim->canary == CANARY_FORGET_LEASE) {
        sim->rates.kill = 20;
    }
    if (sim->canary == CANARY_NO_SYNC || sim->canary == CANARY_SEND_UNSYNCED) {
        sim->rates.power = 10;
    }
    if (sim->canary == CANARY_STALE_TOKEN) {
        sim->rates.worker_hang = sim->rates.partition = 40;
        sim->rates.fence = sim->rates.worker_drain = 0;
    }
}

static void load_catalog(struct sim *sim)
{
    struct gk_err err = {0};
    struct gk_diag diag;
    struct gk_bundle bundle;
    char path[1024];
    gk_diag_init(&diag);
    (void)snprintf(path, sizeof path, "%s/tests/data/kernels/toy", GK_SOURCE_DIR);
    if (gk_hash_setup(&err) != GK_OK || gk_catalog_load(path, &sim->catalog, &diag) != GK_OK ||
        gk_catalog_bundle(sim->catalog, &bundle, &err) != GK_OK) {
        (void)fprintf(stderr, "%s: %s %s\n", path, err.text, diag.kept ? diag.texts[0] : "");
        exit(2);
    }
    sim->bundle = gk_bundle_to_json(&bundle);
    gk_bundle_fini(&bundle);
    gk_diag_fini(&diag);
}

void sim_init(struct sim *sim, uint64_t seed, uint64_t events, enum canary canary, bool verbose)
{
    static const char *const devices[] = {"emu:sm_80", "mock:sm_90a", "emu:sm_80", "mock:sm_90a",
                                          "emu:sm_80"};
    memset(sim, 0, sizeof *sim);
    sim->seed = seed;
    sim->canary = canary;
    sim->verbose = verbose;
    sim->events_max = events;
    sim->now_ns = 1000 * SECOND_NS;
    sim->wall_ms = 1750000000000u;
    gk_prng_init(&sim->prng, seed, 1);
    disk_reset(&sim->prng);
    disk_ignore_syncs(canary == CANARY_NO_SYNC);
    draw_rates(sim);
    load_catalog(sim);
    sim->tokens = calloc(SIM_TOKENS_MAX, sizeof *sim->tokens);
    sim->conns = calloc(SIM_CONNS_MAX, sizeof *sim->conns);
    GK_ASSERT(sim->tokens && sim->conns);
    sim->worker_count = 2 + (uint32_t)sim_below(sim, SIM_WORKERS_MAX - 1);
    sim->client_count = 1 + (uint32_t)sim_below(sim, SIM_CLIENTS_MAX);
    sim->jobs_max = 2 + (uint32_t)sim_below(sim, 6);
    for (uint32_t i = 0; i < sim->worker_count; i++) {
        struct sim_worker *worker = &sim->workers[i];
        worker->device = devices[i];
        worker->wake_ns = worker->back_ns = sim->now_ns + sim_below(sim, 2 * SECOND_NS);
        (void)snprintf(worker->spool_id, sizeof worker->spool_id, "spool-%u", i);
        (void)sim_connect(sim, true, i); /* the worker holds the number */
    }
    for (uint32_t i = 0; i < sim->client_count; i++) {
        sim->clients[i].next_ns = sim->now_ns + sim_below(sim, SECOND_NS);
        (void)sim_connect(sim, false, i);
    }
    sim->start_ns = sim->now_ns;
}

void sim_fini(struct sim *sim)
{
    gk_core_destroy(sim->core);
    gk_db_close(sim->db);
    while (sim->queue_count > 0) {
        struct packet packet = pop(sim);
        gk_message_fini(&packet.message);
    }
    for (uint32_t i = 0; i < sim->worker_count; i++) {
        struct sim_worker *worker = &sim->workers[i];
        while (worker->lease_count > 0) {
            worker_forget(worker, worker->lease_count - 1);
        }
        for (uint32_t s = 0; s < worker->spool_count; s++) {
            gk_json_free(worker->spool[s].body);
        }
    }
    for (uint32_t i = 0; i < sim->client_count; i++) {
        gk_json_free(sim->clients[i].request);
    }
    gk_catalog_destroy(sim->catalog);
    gk_json_free(sim->bundle);
    free(sim->queue);
    free(sim->conns);
    free(sim->tokens);
    disk_reset(NULL);
}
