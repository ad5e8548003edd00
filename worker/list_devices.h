/*
 * What CUDA devices and which compiler this machine has, for `gktune-worker --list-devices`: gktune
 * asks this program so that it needs no driver itself, and a driver that hangs or dies takes
 * nothing with it.
 */
#ifndef GK_WORKER_LIST_DEVICES_H
#define GK_WORKER_LIST_DEVICES_H

#include "core/json.h"
#include "worker/compiler.h"

/* {"cuda": "13.0" or null, "file": path, "why": text where there is no device, "nvml": driver's
 * version or null, "nvrtc": {"version", "file"} or {"why"}, "devices": [{.. as
 * schemas/device.schema.json, "vbios", "power_limit_w", "power_default_w", "processes": [pid, ..]
 * or null, "holder": pid of the worker that has it, 0: none, -1: not told}]}. No context is made.
 * NULL when out of memory. */
struct gk_json *gk_list_devices(const struct gk_compiler_places *compilers);

#endif
