/*
 * A config as a person writes it: some parameters, the others as they fit.
 */
#ifndef GK_CLI_CONFIG_OPTION_H
#define GK_CLI_CONFIG_OPTION_H

#include "core/buf.h"
#include "kernels/catalog.h"
#include "search/space.h"

/* `text`: NULL (the op's default), "BM=64,STAGES=3", or a template's name before braces with all or
 * some parameters, as the other commands print it. What is not given is taken from the default; if
 * that is not legal together with what is given, from the legal config that differs from the
 * default in the fewest parameters (the first in declared order among equals), and note_out says
 * so.
 *
 * GK_INPUT: every unknown parameter and value in one message, or the constraint that no config with
 * these values keeps. config_out is canonical text, the caller frees; note_out is appended to. */
enum gk_status gk_config_choose(const struct gk_op *op, const struct gk_problem *problem,
                                const struct gk_space_def *def, const char *text, char **config_out,
                                struct gk_buf *note_out, struct gk_err *err);

#endif
