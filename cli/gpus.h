/* CUDA devices of this machine, counted through the driver's library without its header. */
#ifndef GK_CLI_GPUS_H
#define GK_CLI_GPUS_H

#include "core/status.h"

/* Names "cuda:0", "cuda:1", .. into names_out (static texts); 0 if there is none: why_out says why.
 */
uint32_t gk_gpus_all(const char **names_out, uint32_t max, char why_out[160]);
/* GK_OK if "cuda:N" names a device of this machine. */
enum gk_status gk_gpus_check(const char *device, struct gk_err *err);

#endif
