/* Which device a name means: see device.h. */
#include "worker/device.h"

#include <string.h>

enum gk_status gk_device_open(const char *name, struct gk_device **device_out, struct gk_err *err)
{
    if (strncmp(name, "cuda", 4) == 0) {
        return gk_fail(err, GK_UNSUPPORTED,
                       "device %s: this build has no CUDA device; use --device emu:sm_80", name);
    }
    if (strncmp(name, "emu", 3) == 0 && (name[3] == '\0' || name[3] == ':')) {
        return gk_device_emu_open(name, device_out, err);
    }
    return gk_fail(err, GK_UNSUPPORTED, "device %s cannot be opened; emu or emu:TARGET can", name);
}

void gk_device_close(struct gk_device *device)
{
    if (device) {
        device->ops->close(device);
    }
}
