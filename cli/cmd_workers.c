/* gktune workers: a line a device of each worker. */
#include "cli/listing.h"

static void cells(struct gk_cli *cli, struct gk_table *table, const struct gk_json *row)
{
    char age[32];
    int64_t now = (int64_t)cli->clock.wall_ms(cli->clock.context);
    gk_age_text(gk_json_get_int(row, "last_seen_ms", 0), now, age);
    const struct gk_json *devices = gk_json_get(row, "devices");
    size_t count = gk_json_count(devices);
    for (size_t i = 0; i < (count ? count : 1); i++) {
        const struct gk_json *device = gk_json_at(devices, i);
        gk_cell_int(table, row, "worker");
        gk_cell_text(table, row, "host");
        gk_cell_int(table, row, "pid");
        gk_cell_text(table, row, "state");
        gk_cell_text(table, device, "device");
        gk_cell_text(table, device, "arch");
        gk_cell_text(table, device, "gpu");
        gk_cell_text(table, row, "job");
        gk_cell_int(table, row, "leases");
        gk_table_cell(table, "%s", age);
    }
}

enum gk_status gk_cmd_workers(struct gk_cli *cli, struct gk_err *err)
{
    struct gk_client *client = NULL;
    enum gk_status status = gk_client_open(cli, &client, err);
    if (status == GK_OK) {
        status = gk_listing(cli, client, "workers", gk_json_new_object(), "workers",
                            ">worker|host|>pid|state|device|arch|gpu|job|>leases|>seen", cells,
                            "no worker has been here yet", err);
    }
    gk_client_close(client);
    return status;
}
