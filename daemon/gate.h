/*
 * The daemon's door: where it listens, with which key, and whom it admits. Reads server.key and
 * keys.json of the state folder; the core asks it through struct gk_core_keys.
 */
#ifndef GK_DAEMON_GATE_H
#define GK_DAEMON_GATE_H

#include "core/link.h"
#include "daemon/core.h"

struct gk_gate {
    const char *state_dir; /* borrowed */
    struct gk_link *link;  /* owned; NULL until it is open */
    bool has_keys;         /* one of the endpoints is tcp */
};

/* Listens on all endpoints: ipc ones first, which stand first in the link's list. With a tcp one
 * among them the daemon's key is read, or made at the first time, and keys.json. */
enum gk_status gk_gate_open(struct gk_gate *gate, const char *state_dir,
                            const char *const *endpoints, uint32_t count, struct gk_err *err);
void gk_gate_close(struct gk_gate *gate);
/* For the core's setup; the gate must outlive the core. */
struct gk_core_keys gk_gate_keys(struct gk_gate *gate);
#endif
