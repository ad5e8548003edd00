/*
 * Seats: how the workers of one host share its cores.
 *
 * A seat is a core that a process of ours keeps busy. A device keeps one for its executor, a
 * compile process has one while it compiles: so the workers of a host together compile with as many
 * processes as there are cores left, and whoever has work may use all of them. A seat is an
 * abstract unix socket named after the core, as the lock of a GPU is (cuda/gpu_lock.h): the kernel
 * takes it back from whatever dies. Cores are those that this process may run on, so workers in
 * cpusets of their own (tasks of Slurm) meet where their cpusets do and nowhere else. Nothing is
 * pinned: a seat counts. Limit: names belong to a network namespace; a container counts alone, by
 * its quota.
 *
 * Who finds no seat asks for one: its holder hears of that when it next gives the seat back, and
 * leaves it. Every worker compiles with one process without a seat, so none waits for another.
 */
#ifndef GK_WORKER_SEATS_H
#define GK_WORKER_SEATS_H

#include "core/status.h"

#define GK_SEAT_NONE     (-1)
#define GK_SEAT_AGAIN_MS 25 /* between two looks for a seat that was not to be had */

struct gk_seats;

/* Cores that this process may use: those of its affinity, no more than its control group's quota;
 * 1 at least. */
uint32_t gk_cores_allowed(void);

/* One object a process; frees with gk_seats_destroy() (NULL is accepted), which gives nothing
 * back. prefix: of the names, "gktune-core" but in tests. */
enum gk_status gk_seats_create(const char *prefix, struct gk_seats **seats_out, struct gk_err *err);
void gk_seats_destroy(struct gk_seats *seats);
uint32_t gk_seats_count(const struct gk_seats *seats);
/* A seat, a descriptor that is not inherited; GK_SEAT_NONE where all are taken: then one of the
 * holders was asked, another one each time. */
int gk_seat_take(struct gk_seats *seats);
/* Gives it back (GK_SEAT_NONE is accepted). True if somebody had asked: let others have it first.
 */
bool gk_seat_give(int seat);

#endif
