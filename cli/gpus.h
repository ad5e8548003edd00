/*
 * CUDA devices of this machine, as gktune-worker tells them: gktune itself opens no driver, so one
 * that hangs or dies takes nothing with it.
 */
#ifndef GK_CLI_GPUS_H
#define GK_CLI_GPUS_H

#include "core/json.h"

/* What `gktune-worker --list-devices` in exe_dir prints (worker/list_devices.h says what that is).
 * GK_MISSING: there is no such program; GK_TIMEOUT: the driver hangs. */
enum gk_status gk_gpus_list(const char *exe_dir, struct gk_json **list_out, struct gk_err *err);

/* Names "cuda:GPU-<uuid>" into names_out; 0 if there is none: why_out says why. */
uint32_t gk_gpus_all(const char *exe_dir, char names_out[][64], uint32_t max, char why_out[256]);
/* "cuda", "cuda:N" or "cuda:GPU-<uuid>" to the name with the UUID, which workers report. */
enum gk_status gk_gpus_find(const char *exe_dir, const char *device, char name_out[64],
                            struct gk_err *err);
/* "sm_90a h200-132sm" of a device by that name: what its times belong to; the name itself where no
 * such device is known. */
void gk_gpus_kind(const char *exe_dir, const char *name, char kind_out[128]);

#endif
