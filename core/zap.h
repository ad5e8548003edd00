/*
 * Who may connect: the handler of ZeroMQ's authentication protocol (ZAP, RFC 27), and the admitted
 * keys as the daemon knows them now.
 *
 * CURVE alone proves that a peer owns some key; this decides whether it is one of ours. The handler
 * is bound before any socket that asks it, and every such socket enforces it
 * (gk_zap_guard): without either, libzmq lets any key in. It runs on a thread of its own, so a
 * busy loop delays no handshake. If it ends, new connections are refused and gk_zap_alive() is
 * false: the program must end.
 *
 * Also on that thread: near the limit of file descriptors new connections are left in the kernel's
 * queue. At the limit libzmq would try to accept them for ever, with a full core (measured), and
 * the store could open no file. It has no call for that, and unbinding would cut all sessions, so
 * the listening descriptor is masked in libzmq's epoll set; where that cannot be found, nothing is
 * done. A burst may take all of them before it is noticed, so some are held open and given back
 * then.
 */
#ifndef GK_CORE_ZAP_H
#define GK_CORE_ZAP_H

#include "core/key_list.h"

struct gk_zap;

/* Starts the handler in this ZeroMQ context, with an empty list: nobody is let in. */
enum gk_status gk_zap_start(void *context, struct gk_zap **zap_out, struct gk_err *err);
/* Ends the handler: what it guards refuses everybody from then on. */
void gk_zap_stop(struct gk_zap *zap);
bool gk_zap_alive(const struct gk_zap *zap);
/* Stops it first. Accepts NULL. After the guarded socket is closed, before its context ends. */
void gk_zap_destroy(struct gk_zap *zap);

/* Makes a socket a CURVE server that asks the handler about everybody. Before it is bound. */
enum gk_status gk_zap_guard(void *socket, const struct gk_key *key, struct gk_err *err);
/* New connections to this descriptor of libzmq wait while few descriptors are left. */
void gk_zap_tend(struct gk_zap *zap, int listening_fd);

/* Replaces the admitted keys; takes the list. Any thread. */
enum gk_status gk_zap_set_keys(struct gk_zap *zap, struct gk_key_list *list, struct gk_err *err);
/* Whose key that is, as the list says now: fills key, roles and is_pool of the peer. GK_DENIED
 * names the reason. */
enum gk_status gk_zap_who(struct gk_zap *zap, const char *public_key, const char *address,
                          struct gk_peer *peer, struct gk_err *err);

/* What was refused since the start, and up to GK_REFUSALS_KEPT lines about it since the last call:
 * what came beyond them was only counted. Returns the number of lines. */
uint32_t gk_zap_refusals(struct gk_zap *zap, struct gk_link_refusals *out);

#endif
