/*
 * The command line's side of the protocol: find or start a daemon, ask, page through listings,
 * follow events.
 *
 * Which daemon: --connect; else the one whose lock file in the state folder names a socket that
 * answers; else a private one, started for this command's duration. A private daemon that dies is
 * started again and the request sent again: every request may be repeated.
 */
#ifndef GK_CLI_CLIENT_H
#define GK_CLI_CLIENT_H

#include "cli/programs.h"
#include "cli/command.h"

#define GK_REPLY_MS                                                                                \
    5000 /* a named daemon that is silent for longer is unreachable: exit status 3 */

struct gk_client;

/* GK_UNREACHABLE, or what stopped a private daemon from starting. */
enum gk_status gk_client_open(struct gk_cli *cli, struct gk_client **client_out,
                              struct gk_err *err);
/* Sends a request to the daemon of the state folder, if there is one; never starts one. The body is
 * taken. */
enum gk_status gk_client_tell(struct gk_cli *cli, const char *verb, struct gk_json *body,
                              bool *told_out, struct gk_err *err);
/* Ends a private daemon; it finishes its commits first. */
void gk_client_close(struct gk_client *client);

/* Whether a daemon is named, or one holds the state folder: opening a client starts none. */
bool gk_client_is_served(const struct gk_cli *cli);
bool gk_client_is_private(const struct gk_client *client);
const char *gk_client_endpoint(const struct gk_client *client);
/* Counts up when the daemon was replaced: whoever watches must watch again. */
uint32_t gk_client_generation(const struct gk_client *client);
/* Looks after a private daemon, and takes over the state folder when its holder is gone. Fast when
 * all is well. */
enum gk_status gk_client_mend(struct gk_client *client, struct gk_err *err);

/* Sends a REQUEST (body is taken; "verb" is set) and waits for its REPLY. A reply whose status is
 * not OK becomes that status and its text. timeout_ms 0: GK_REPLY_MS. reply_out may be NULL. */
enum gk_status gk_client_request(struct gk_client *client, const char *verb, struct gk_json *body,
                                 int timeout_ms, struct gk_json **reply_out, struct gk_err *err);
/* Next EVENT; GK_TIMEOUT. The caller frees it. */
enum gk_status gk_client_event(struct gk_client *client, int timeout_ms, struct gk_json **event_out,
                               struct gk_err *err);

/* Walks a paged listing: each row of member `list` of each page is handed to row(). body is taken.
 */
typedef enum gk_status (*gk_client_row)(void *context, const struct gk_json *row,
                                        struct gk_err *err);
enum gk_status gk_client_pages(struct gk_client *client, const char *verb, struct gk_json *body,
                               const char *list, gk_client_row row, void *context,
                               struct gk_err *err);

/* Puts every file of the bundle that the daemon lacks. */
enum gk_status gk_client_put_bundle(struct gk_client *client, const struct gk_catalog *catalog,
                                    const struct gk_bundle *bundle, struct gk_err *err);
/* Fetches a blob and verifies its hash; malloc'd. */
enum gk_status gk_client_get_blob(struct gk_client *client, const struct gk_hash *hash,
                                  char **bytes_out, size_t *size_out, struct gk_err *err);

#endif
