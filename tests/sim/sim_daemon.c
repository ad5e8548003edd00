/* The daemon of the simulation: the production core and store; this file is what the shell is
 * to them. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/sim.h"

#define STORE "store.db"

static bool files_has(void *context, const struct gk_hash *hash)
{
    (void)context;
    (void)hash;
    return true;
}

static enum gk_status files_put(void *context, const struct gk_hash *hash, int64_t offset,
                                int64_t size, const void *bytes, size_t count, struct gk_err *err)
{
    (void)context, (void)hash, (void)offset, (void)size, (void)bytes, (void)count, (void)err;
    return GK_OK;
}

static enum gk_status files_get(void *context, const struct gk_hash *hash, int64_t offset,
                                char **bytes_out, size_t *count_out, int64_t *size_out,
                                struct gk_err *err)
{
    (void)context, (void)hash, (void)offset, (void)bytes_out, (void)count_out, (void)size_out;
    return gk_fail(err, GK_NOT_FOUND, "no file in this simulation");
}

static enum gk_status files_catalog(void *context, const struct gk_json *files, const char *id,
                                    const struct gk_catalog **catalog_out, struct gk_err *err)
{
    (void)files, (void)id, (void)err;
    *catalog_out = ((struct sim *)context)->catalog;
    return GK_OK;
}

/* The daemon's monotonic clock: another one after each start, as after a reboot. */
static uint64_t core_now(const struct sim *sim)
{
    return sim->now_ns - sim->boot_ns;
}

static enum gk_status make_core(struct sim *sim, const struct gk_core_counters *counters,
                                struct gk_err *err)
{
    struct gk_core_setup setup = {
        .db = sim->db,
        .files = {files_has, files_put, files_get, files_catalog, NULL, sim},
        .epoch = sim->epoch,
        .now_ns = core_now(sim),
        .wall_ms = sim->wall_ms,
        .version = "simulated",
        .pid = 1,
        .counters = counters};
    return gk_core_create(&setup, &sim->core, err);
}

/* A failure that the disk explains. */
static bool explained(const struct sim *sim, enum gk_status status)
{
    (void)sim;
    return disk_is_dead() || disk_fault_hit() || status == GK_FULL;
}

static void again_at(struct sim *sim)
{
    sim->start_ns = sim->now_ns + 100 * MS_NS + sim_below(sim, 20) * 400 * MS_NS;
}

void daemon_kill(struct sim *sim, bool power_lost)
{
    if (!sim->up && !sim->db) {
        return;
    }
    sim_say(sim, "daemon ends%s", power_lost ? ", the power too" : "");
    disk_die_now(); /* closing the handles writes nothing */
    gk_core_destroy(sim->core);
    gk_db_close(sim->db);
    sim->core = NULL;
    sim->db = NULL;
    sim->up = sim->syncing = false;
    disk_revive(power_lost);
    uint32_t count = sim->conn_count; /* who is cut off connects again, at the end of the list */
    for (uint32_t c = 0; c < count; c++) {
        if (sim->conns[c].open) {
            sim_disconnect(sim, c);
        }
    }
    again_at(sim);
}

/* The program ends by itself after an error of the store: its handle is closed in an orderly way.
 */
static void daemon_gives_up(struct sim *sim, enum gk_status status, const struct gk_err *err)
{
    if (!explained(sim, status)) {
        sim_red(sim, "the daemon ends with %s, and nothing was wrong with the disk: %s",
                gk_status_name(status), err->text);
    }
    sim_say(sim, "daemon gives up: %s", err->text);
    if (!disk_is_dead()) {
        gk_core_destroy(sim->core);
        sim->core = NULL;
        gk_db_close(sim->db);
        sim->db = NULL;
    }
    sim->up = true;
    /* What could not be synced may be gone though the process lives. */
    daemon_kill(sim, sim->power_next || disk_sync_failed());
    sim->up = false;
}

void daemon_start(struct sim *sim)
{
    struct gk_err err = {0};
    sim->stalled_from_ns = sim->now_ns < sim->stalled_until_ns ? sim->now_ns : 0;
    if (sim->now_ns >= sim->full_until_ns) {
        disk_make_room();
    }
    enum gk_status status = gk_db_open(STORE, true, &sim->db, &err);
    int64_t epoch = 0;
    if (status == GK_OK) {
        status = gk_db_start(sim->db, &epoch, &err);
    }
    if (status == GK_OK) {
        if (epoch <= sim->epoch_seen) {
            sim_red(sim, "epoch %lld after %lld was in use", (long long)epoch,
                    (long long)sim->epoch_seen);
        }
        sim->epoch = sim->epoch_seen = epoch;
        sim->boot_ns = sim->now_ns - (1 + sim_below(sim, 900)) * SECOND_NS;
        if (sim->canary == CANARY_FORGET_LEASE) {
            check_forget_leases(sim);
        }
        status = make_core(sim, NULL, &err);
    }
    if (status == GK_OK) {
        status = gk_db_commit(sim->db, &err);
    }
    sim->apart = sim->seed % 2 == 0;
    if (status == GK_OK && sim->apart) {
        status = gk_db_sync_apart(sim->db, &err);
    }
    if (status != GK_OK) {
        daemon_gives_up(sim, status, &err);
        return;
    }
    sim->up = true;
    sim->restarts++;
    sim->timer_ns = sim->now_ns;
    sim_say(sim, "daemon starts, epoch %lld", (long long)epoch);
    check_open(sim);
    check_promises(sim);
}

/* What the core believes is not what the store holds. */
static bool renew_core(struct sim *sim)
{
    struct gk_err err = {0};
    struct gk_core_counters counters = gk_core_counters(sim->core);
    gk_core_destroy(sim->core);
    sim->core = NULL;
    sim->covered = 0; /* they were of that core */
    enum gk_status status = make_core(sim, &counters, &err);
    if (status != GK_OK) {
        daemon_gives_up(sim, status, &err);
    }
    return status == GK_OK;
}

/* The tick cannot be stored: as tick_store_failed() of the shell. */
static void store_failed(struct sim *sim, enum gk_status status, const struct gk_err *why)
{
    gk_db_rollback(sim->db);
    if (status != GK_FULL || disk_is_dead()) {
        daemon_gives_up(sim, status, why);
        return;
    }
    sim->full = true;
    if (renew_core(sim)) {
        gk_db_rollback(sim->db);
        gk_core_set_disk(sim->core, GK_CORE_DISK_FULL, 0, 0);
        sim->timer_ns = sim->now_ns + SECOND_NS;
    }
}

/* Sends the first `count` of what the core has to say. part: dies after so many messages. */
static void flush(struct sim *sim, uint32_t count, uint64_t part)
{
    struct gk_peer peer;
    struct gk_message message;
    for (; count > 0 && sim->core && gk_core_take(sim->core, &peer, &message); count--) {
        uint32_t conn = 0;
        memcpy(&conn, peer.bytes, sizeof conn);
        if (part == 0) {
            gk_message_fini(&message);
            daemon_kill(sim, false);
            return;
        }
        part -= part != UINT64_MAX;
        if (!sim->apart) { /* else a fence may have come while the lease waited for the sync */
            check_out(sim, conn, &message);
        }
        if (sim->conns[conn].open) {
            sim_send(sim, conn, false, &message);
            continue;
        }
        struct gk_err err = {0};
        gk_message_fini(&message);
        enum gk_status status = gk_core_peer_gone(sim->core, &peer, core_now(sim), &err);
        if (status != GK_OK) {
            store_failed(sim, status, &err);
            return;
        }
    }
}

/* After the commit, before or between the messages that tell of it. */
static void flush_or_die(struct sim *sim, uint32_t count)
{
    bool torn = sim_chance(sim, sim->rates.kill / 2);
    flush(sim, count, torn ? sim_below(sim, 4) : UINT64_MAX);
}

/* The sync is on its way: it happens, or fails, at its end. */
static void begin_sync(struct sim *sim)
{
    struct gk_err err = {0};
    enum gk_status status = gk_db_sync_begin(sim->db, &sim->sync, &err);
    if (status != GK_OK) {
        store_failed(sim, status, &err);
        return;
    }
    sim->syncing = true;
    sim->covered = gk_core_waiting(sim->core);
    sim->sync_end_ns = sim->now_ns + sim_below(sim, 300) * MS_NS;
    if (sim->canary == CANARY_SEND_UNSYNCED) {
        flush(sim, sim->covered, UINT64_MAX);
        sim->covered = 0;
    }
}

static void end_sync(struct sim *sim)
{
    struct gk_err err = {0};
    uint32_t covered = sim->covered;
    sim->syncing = false;
    sim->covered = 0;
    gk_db_sync_run(&sim->sync);
    enum gk_status status = gk_db_sync_end(sim->db, &sim->sync, &err);
    if (status != GK_OK) {
        store_failed(sim, status, &err);
    } else {
        flush_or_die(sim, covered);
    }
}

/* As send_and_copy() of the shell, whatever the length of the log. The sync of the store's file
 * happens, or fails, at its end. */
static void sync_and_copy(struct sim *sim)
{
    struct gk_err err = {0};
    bool copied = false;
    begin_sync(sim);
    if (sim->up && sim->syncing) {
        end_sync(sim);
    }
    if (!sim->up || !sim->core) {
        return;
    }
    enum gk_status status = gk_db_copy_log(sim->db, &sim->sync, &copied, &err);
    if (status != GK_OK) {
        store_failed(sim, status, &err);
    } else if (copied) {
        sim->syncing = true;
        sim->sync_end_ns = sim->now_ns + sim_below(sim, 300) * MS_NS;
    }
}

/* Leases as the core hands them out, before anybody knows of them. */
static void tick_and_commit(struct sim *sim)
{
    struct gk_err err = {0};
    enum gk_status status =
        gk_core_tick(sim->core, core_now(sim), sim->wall_ms, &sim->timer_ns, &err);
    sim->timer_ns += sim->boot_ns;
    if (status == GK_OK && sim->canary == CANARY_COUNT_TWICE) {
        check_miscount(sim);
    }
    bool dirty = gk_db_is_dirty(sim->db);
    if (status == GK_OK && sim->canary == CANARY_ACK_FIRST && dirty) {
        flush(sim, UINT32_MAX, UINT64_MAX);
    }
    bool dies = sim_chance(sim, sim->rates.kill / 2);
    if (status == GK_OK && dies && dirty) { /* between the step and the commit */
        daemon_kill(sim, sim_chance(sim, 500));
        return;
    }
    if (status == GK_OK && sim->core) {
        status = gk_db_commit(sim->db, &err);
    }
    bool moves = status == GK_OK && sim->core && sim_chance(sim, sim->rates.checkpoint);
    bool copies = moves && dirty && sim->apart && sim->seed % 4 == 0; /* others checkpoint */
    if (moves && !copies) {
        status = gk_db_checkpoint(sim->db, true, &err);
    }
    if (status != GK_OK) {
        store_failed(sim, status, &err);
        return;
    }
    if (dirty && sim->core) {
        check_commit(sim);
    }
    if (copies) {
        sync_and_copy(sim);
    } else if (dirty && sim->apart && sim->core) {
        begin_sync(sim);
    } else {
        flush_or_die(sim, UINT32_MAX);
    }
    if (sim->up && sim->timer_ns > sim->now_ns + 10 * SECOND_NS) {
        sim->timer_ns = sim->now_ns + 10 * SECOND_NS;
    }
}

/* For the canary: what fencing prevents. */
static void forge(struct sim *sim, struct packet *packet)
{
    int64_t token = (int64_t)packet->message.token;
    if (packet->message.type != GK_MSG_RESULT || token <= 0 || token >= SIM_TOKENS_MAX) {
        return;
    }
    for (int64_t t = sim->token_max; t > token; t--) {
        const struct token_log *other = &sim->tokens[t], *own = &sim->tokens[token];
        const struct sim_worker *holder = &sim->workers[other->worker];
        if (!other->is_final && other->trial > 0 && other->trial == own->trial &&
            other->worker != own->worker && holder->welcome && !other->sent) {
            packet->message.token = (uint64_t)t;
            packet->message.session = holder->session;
            packet->conn = holder->conn;
            return;
        }
    }
}

static void leave_full(struct sim *sim)
{
    struct gk_err err = {0};
    disk_make_room();
    if (sim->syncing) {
        end_sync(sim); /* of pages: nothing may be committed before */
    }
    if (!sim->up || !sim->core) {
        return;
    }
    sim->full = false;
    if (renew_core(sim)) {
        enum gk_status status = gk_db_commit(sim->db, &err);
        if (status != GK_OK) {
            store_failed(sim, status, &err);
        }
    }
}

/* As the daemon's shell does: time in which its loop was held up counts as a second at most. */
static void leave_stall(struct sim *sim)
{
    uint64_t away = sim->now_ns - sim->stalled_from_ns;
    if (sim->stalled_from_ns > 0 && away > SECOND_NS) {
        sim->boot_ns += away - SECOND_NS;
    }
    sim->stalled_from_ns = 0;
}

void daemon_turn(struct sim *sim, struct packet *packets, uint32_t count)
{
    leave_stall(sim);
    if (sim->syncing && sim->now_ns >= sim->sync_end_ns) {
        end_sync(sim);
    }
    if (!sim->up || !sim->core) {
        return;
    }
    if (sim->full && sim->now_ns >= sim->full_until_ns) {
        leave_full(sim);
    }
    if (!sim->up || !sim->core) {
        return;
    }
    for (uint32_t i = 0; i < count && sim->up; i++) {
        struct gk_err err = {0};
        if (sim->canary == CANARY_STALE_TOKEN) {
            forge(sim, &packets[i]);
        }
        struct gk_peer peer = {.size = sizeof packets[i].conn, .roles = GK_ROLES_ALL};
        memcpy(peer.bytes, &packets[i].conn, sizeof packets[i].conn);
        check_in(sim, packets[i].conn, &packets[i].message);
        enum gk_status status = gk_core_message(sim->core, &peer, &packets[i].message,
                                                core_now(sim), sim->wall_ms, &err);
        if (status != GK_OK) {
            store_failed(sim, status, &err);
            break;
        }
    }
    if (sim->up && sim->syncing) {
        sim->timer_ns = sim->sync_end_ns; /* messages are taken, and stepped then */
    } else if (sim->up && sim->core) {
        tick_and_commit(sim);
    }
}
