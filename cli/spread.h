/* gktune workers --spread: one config on several GPUs of a key, config by config. */
#ifndef GK_CLI_SPREAD_H
#define GK_CLI_SPREAD_H

#include "cli/command.h"

/* Asks the daemon and prints: a table with a line a GPU, or with --json {spreads: [{problem arch
 * gpu .. median_ns, spread, devices: [..]}]}. */
enum gk_status gk_print_spread(struct gk_cli *cli, struct gk_err *err);

#endif
