/* gktune version: what this build is and speaks. */
#include "cli/command.h"
#include "core/wire.h"

#include <stdio.h>

enum gk_status gk_cmd_version(struct gk_cli *cli, struct gk_err *err)
{
    if (!cli->json) {
        (void)printf("gktune %s (protocol %d)\n", GKTUNE_VERSION, GK_WIRE_VERSION);
        return GK_OK;
    }
    struct gk_json *json = gk_json_new_object();
    enum gk_status status = GK_OK;
    if (!json || !gk_json_set_string(json, "version", GKTUNE_VERSION) ||
        !gk_json_set_int(json, "protocol", GK_WIRE_VERSION) ||
        !gk_json_set_int(json, "protocol_min", GK_WIRE_VERSION_MIN)) {
        status = gk_fail(err, GK_NOMEM, "out of memory");
    } else {
        status = gk_print_json(cli, json, err);
    }
    gk_json_free(json);
    return status;
}
