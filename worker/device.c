/* Which device a name means: see device.h. */
#include "worker/device.h"

#include <string.h>

#include "worker/cuda/device_cuda.h"

/* The driver is one a process, whatever opens it: so is where it lies. */
static struct gk_device_places places;

void gk_device_set_places(const struct gk_device_places *given)
{
    places = *given;
}

const struct gk_device_places *gk_device_places(void)
{
    return &places;
}

static bool is_kind(const char *name, const char *kind)
{
    size_t size = strlen(kind);
    return strncmp(name, kind, size) == 0 && (name[size] == '\0' || name[size] == ':');
}

enum gk_status gk_device_open(const char *name, struct gk_device **device_out, struct gk_err *err)
{
    if (is_kind(name, "cuda")) {
        return gk_device_cuda_open(&places, name, device_out, err);
    }
    if (is_kind(name, "emu")) {
        return gk_device_emu_open(name, device_out, err);
    }
    return gk_fail(err, GK_UNSUPPORTED,
                   "device %s cannot be opened; emu, emu:TARGET, cuda:N and cuda:UUID can", name);
}

enum gk_status gk_device_describe(const char *name, struct gk_device_props *props_out,
                                  struct gk_err *err)
{
    return is_kind(name, "cuda") ? gk_device_cuda_describe(&places, name, props_out, err)
                                 : gk_device_props_builtin(name, props_out, err);
}

void gk_device_close(struct gk_device *device)
{
    if (device) {
        device->ops->close(device);
    }
}
