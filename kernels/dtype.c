/* Element types by name, size and unit roundoff: see catalog.h. */
#include "kernels/catalog.h"

#include <string.h>

static const struct {
    const char *name;
    uint32_t bytes;
    double roundoff; /* half a unit in the last place of 1; 0: no rounding */
} dtypes[GK_DTYPE_COUNT] = {
    [GK_BF16] = {"bf16", 2, 0x1p-8}, [GK_F16] = {"f16", 2, 0x1p-11},
    [GK_E4M3] = {"e4m3", 1, 0x1p-4}, [GK_F32] = {"f32", 4, 0x1p-24},
    [GK_F64] = {"f64", 8, 0x1p-53},  [GK_I8] = {"i8", 1, 0},
    [GK_I32] = {"i32", 4, 0},        [GK_I64] = {"i64", 8, 0},
    [GK_U8] = {"u8", 1, 0},          [GK_U32] = {"u32", 4, 0},
};

const char *gk_dtype_name(enum gk_dtype dtype)
{
    return (unsigned)dtype < GK_DTYPE_COUNT ? dtypes[dtype].name : "unknown dtype";
}

bool gk_dtype_from_name(const char *name, enum gk_dtype *dtype_out)
{
    for (uint32_t i = 0; i < GK_DTYPE_COUNT; i++) {
        if (strcmp(dtypes[i].name, name) == 0) {
            *dtype_out = (enum gk_dtype)i;
            return true;
        }
    }
    return false;
}

uint32_t gk_dtype_bytes(enum gk_dtype dtype)
{
    GK_ASSERT((unsigned)dtype < GK_DTYPE_COUNT);
    return dtypes[dtype].bytes;
}

double gk_dtype_roundoff(enum gk_dtype dtype)
{
    GK_ASSERT((unsigned)dtype < GK_DTYPE_COUNT);
    return dtypes[dtype].roundoff;
}
