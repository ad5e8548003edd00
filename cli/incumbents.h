/* An earlier export read back: its rows are the incumbents of a new run (--from DIR). */
#ifndef GK_CLI_INCUMBENTS_H
#define GK_CLI_INCUMBENTS_H

#include "core/json.h"

/* Reads every *.evidence.json of the folder: a list of {problem, arch, template, config}.
 * GK_NOT_FOUND when there is none. */
enum gk_status gk_incumbents_load(const char *folder, struct gk_json **list_out,
                                  struct gk_err *err);

#endif
