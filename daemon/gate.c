/* The daemon's door: see gate.h. */
#include "daemon/gate.h"

#include <string.h>

#include "core/key_list.h"

static bool is_tcp(const char *endpoint)
{
    return strncmp(endpoint, "tcp://", 6) == 0;
}

enum gk_status gk_gate_open(struct gk_gate *gate, const char *state_dir,
                            const char *const *endpoints, uint32_t count, struct gk_err *err)
{
    struct gk_key key = {0};
    struct gk_key_list list = {0};
    enum gk_status status = GK_OK;
    *gate = (struct gk_gate){.state_dir = state_dir};
    for (uint32_t i = 0; i < count; i++) {
        gate->has_keys = gate->has_keys || is_tcp(endpoints[i]);
    }
    if (gate->has_keys) {
        status = gk_key_server(state_dir, &key, err);
        status = status == GK_OK ? gk_key_list_load(state_dir, &list, err) : status;
    }
    if (status == GK_OK) {
        const struct gk_link_server server = {.endpoints = endpoints,
                                              .endpoint_count = count,
                                              .key = gate->has_keys ? &key : NULL,
                                              .keys = &list};
        status = gk_link_serve(&server, &gate->link, err);
    }
    gk_key_list_fini(&list);
    gk_key_wipe(&key);
    return status;
}

void gk_gate_close(struct gk_gate *gate)
{
    gk_link_destroy(gate->link);
    gate->link = NULL;
}

static enum gk_status reload(void *context, uint32_t *valid_out, struct gk_err *err)
{
    struct gk_gate *gate = context;
    struct gk_key_list list = {0};
    uint32_t valid = 0;
    enum gk_status status = gk_key_list_load(gate->state_dir, &list, err);
    for (uint32_t i = 0; i < list.count; i++) {
        valid += list.keys[i].revoked_ms == 0;
    }
    if (status == GK_OK) {
        status = gk_link_set_keys(gate->link, &list, err);
    }
    gk_key_list_fini(&list);
    if (status == GK_OK) {
        *valid_out = valid;
    }
    return status;
}

static enum gk_status look(void *context, struct gk_peer *peer, struct gk_err *err)
{
    struct gk_gate *gate = context;
    return gk_link_look_again(gate->link, peer, err);
}

static enum gk_status list_keys(void *context, struct gk_json **rows_out, struct gk_err *err)
{
    struct gk_gate *gate = context;
    struct gk_key_list list = {0};
    struct gk_json *rows = gk_json_new_array();
    enum gk_status status = gk_key_list_load(gate->state_dir, &list, err);
    for (uint32_t i = 0; status == GK_OK && i < list.count; i++) {
        if (!gk_json_push(rows, gk_admitted_json(&list.keys[i]))) {
            status = gk_fail(err, GK_NOMEM, "out of memory for keys");
        }
    }
    gk_key_list_fini(&list);
    if (status != GK_OK) {
        gk_json_free(rows);
        return status;
    }
    *rows_out = rows;
    return GK_OK;
}

struct gk_core_keys gk_gate_keys(struct gk_gate *gate)
{
    return (struct gk_core_keys){reload, look, list_keys, gate};
}
