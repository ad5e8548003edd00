/*
 * The store alone, at every operation of its disk: it is made (all steps of the schema in one
 * transaction), written to, checkpointed and closed, and at operation N the process dies, the power
 * is lost, an operation fails or the disk is full. Afterwards it opens, is sound, and holds exactly
 * what was committed; and the next fault may come while it recovers.
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "db/db_internal.h"
#include "tests/sim/sim.h"

#define STORE  "store.db"
#define ROWS   12
#define POINTS 2000 /* far more than there are */

struct promise {
    bool opened;       /* gk_db_open() came back with a whole store */
    int64_t committed; /* problems whose commit came back */
    int64_t asked;     /* those whose commit was begun */
    int64_t epoch;
};

/* The name of problem `at`. */
static const char *name_of(int64_t at, char text[32])
{
    (void)snprintf(text, 32, "scale{\"N\":%" PRId64 "}", at);
    return text;
}

static enum gk_status work(struct promise *promise, struct gk_err *err)
{
    struct gk_db *db = NULL;
    char text[32];
    int64_t epoch = 0, problem = 0;
    enum gk_status status = gk_db_open(STORE, true, &db, err);
    if (status == GK_OK) {
        promise->opened = true;
        status = gk_db_start(db, &epoch, err);
        promise->epoch = status == GK_OK ? epoch : promise->epoch;
    }
    for (int64_t i = promise->committed + 1; status == GK_OK && i <= ROWS; i++) {
        status = gk_db_problem_put(db, "scale", name_of(i, text), &problem, err);
        promise->asked = i;
        if (status == GK_OK) {
            status = gk_db_commit(db, err);
        }
        if (status == GK_OK) {
            promise->committed = i;
            status = i % 5 == 0 ? gk_db_checkpoint(db, true, err) : GK_OK;
        }
    }
    gk_db_close(db);
    return status;
}

static const char *look(const struct promise *promise)
{
    static char why[512];
    struct gk_db *db = NULL;
    struct gk_json *report = NULL;
    struct gk_err err = {0};
    int64_t count = 0, epoch = 0;
    if (gk_db_open(STORE, true, &db, &err) != GK_OK || gk_db_check(db, &report, &err) != GK_OK) {
        (void)snprintf(why, sizeof why, "%.400s", err.text);
        gk_db_close(db);
        return why;
    }
    bool good = gk_json_get_bool(report, "ok", false);
    (void)snprintf(why, sizeof why, "%.400s",
                   gk_json_string(gk_json_at(gk_json_get(report, "problems"), 0), ""));
    gk_json_free(report);
    for (int64_t i = 1; good && i <= promise->asked; i++) {
        char text[32];
        good = db_int(db, &err, &count, "SELECT count(*) FROM problems WHERE canonical=?1", "s",
                      name_of(i, text)) == GK_OK &&
               (count == 1 || (count == 0 && i > promise->committed));
        (void)snprintf(why, sizeof why,
                       "row %" PRId64 " is there %" PRId64 " times, %" PRId64 " were committed", i,
                       count, promise->committed);
    }
    if (good && (gk_db_start(db, &epoch, &err) != GK_OK || epoch <= promise->epoch)) {
        good = false;
        (void)snprintf(why, sizeof why, "epoch %" PRId64 " after %" PRId64, epoch, promise->epoch);
    }
    gk_db_close(db);
    return good ? NULL : why;
}

/* True: the fault came. */
static bool one_point(enum disk_fault fault, bool power, uint64_t at, uint64_t again,
                      struct gk_prng *prng, const char **red_out)
{
    struct promise promise = {0};
    struct gk_err err = {0};
    disk_reset(prng);
    for (int round = 0; round < 2; round++) {
        disk_arm(fault, round == 0 ? at : again);
        (void)work(&promise, &err); /* whatever it says: the promises count */
        bool hit = disk_fault_hit();
        if (round == 0 && !hit) {
            return false;
        }
        disk_arm(DISK_FINE, 0);
        disk_revive(power || disk_sync_failed());
        disk_make_room();
    }
    *red_out = look(&promise);
    return true;
}

int sim_points(void)
{
    static const struct {
        const char *name;
        enum disk_fault fault;
        bool power;
    } kinds[] = {{"kill", DISK_DIES, false},
                 {"power", DISK_DIES, true},
                 {"eio", DISK_EIO, false},
                 {"full", DISK_FULL, false}};
    struct gk_err err = {0};
    struct gk_prng prng;
    uint64_t points = 0;
    if (gk_hash_setup(&err) != GK_OK) {
        (void)fprintf(stderr, "%s\n", err.text);
        return 2;
    }
    for (size_t k = 0; k < GK_ARRAY_COUNT(kinds); k++) {
        gk_prng_init(&prng, 1, k);
        for (uint64_t at = 1; at < POINTS; at++, points++) {
            const char *red = NULL;
            /* The second fault comes while the first is recovered from, at another place each time.
             */
            uint64_t again = 1 + gk_prng_below(&prng, 40);
            if (!one_point(kinds[k].fault, kinds[k].power, at, again, &prng, &red)) {
                break;
            }
            if (red) {
                (void)printf("%s at operation %" PRIu64 ", again at %" PRIu64 ": %s\n",
                             kinds[k].name, at, again, red);
                return 1;
            }
        }
    }
    disk_reset(NULL);
    (void)printf("sim: %" PRIu64 " points of the disk, two faults each: nothing lost\n", points);
    return points > 200 ? 0 : 1;
}
