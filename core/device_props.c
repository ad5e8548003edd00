/*
 * Device properties: JSON, expression names, occupancy, and the built-in emulated devices. See
 * device_props.h. Pure; any thread.
 *
 * One map gives every number its JSON member, its dev.* name and its order, so that the three
 * cannot part.
 */
#include "core/device_props.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* Order of dev.* slots: append only, since a space is compared between processes of two releases.
 */
#define NUMBER_MAP(X)                                                                              \
    X(sm)                                                                                          \
    X(sms)                                                                                         \
    X(smem_block_max)                                                                              \
    X(smem_sm)                                                                                     \
    X(smem_block_reserved)                                                                         \
    X(regs_sm)                                                                                     \
    X(regs_block_max)                                                                              \
    X(threads_sm)                                                                                  \
    X(threads_block_max)                                                                           \
    X(blocks_sm)                                                                                   \
    X(cluster_max)                                                                                 \
    X(l2_bytes)                                                                                    \
    X(mem_bytes)                                                                                   \
    X(clock_khz)                                                                                   \
    X(mem_bytes_per_us)                                                                            \
    X(tensor_flops_per_clk_sm)                                                                     \
    X(work_limit)

struct number {
    const char *name; /* of the JSON member */
    const char *dev;  /* in expressions */
    size_t offset;
};

static const struct number numbers[] = {
#define NUMBER(member) {#member, "dev." #member, offsetof(struct gk_device_props, member)},
    NUMBER_MAP(NUMBER)
#undef NUMBER
};

struct text {
    const char *name;
    size_t offset, size;
};

static const struct text texts[] = {
#define TEXT(member)                                                                               \
    {                                                                                              \
#member, offsetof(struct gk_device_props, member),                                         \
            sizeof((struct gk_device_props *)0)->member                                            \
    }
    TEXT(device), TEXT(arch), TEXT(target), TEXT(gpu), TEXT(name), TEXT(uuid),
#undef TEXT
};

static int64_t number_of(const struct gk_device_props *props, size_t index)
{
    int64_t value;
    memcpy(&value, (const char *)props + numbers[index].offset, sizeof value);
    return value;
}

/* ------------------------------------------------------------------ JSON */

struct gk_json *gk_device_props_to_json(const struct gk_device_props *props)
{
    struct gk_json *json = gk_json_new_object();
    bool good = json != NULL;
    for (size_t i = 0; i < GK_ARRAY_COUNT(texts); i++) {
        good =
            good && gk_json_set_string(json, texts[i].name, (const char *)props + texts[i].offset);
    }
    good = good && gk_json_set_bool(json, "modelled", props->modelled);
    for (size_t i = 0; i < GK_ARRAY_COUNT(numbers); i++) {
        good = good && gk_json_set_int(json, numbers[i].name, number_of(props, i));
    }
    if (!good) {
        gk_json_free(json);
        return NULL;
    }
    return json;
}

enum gk_status gk_device_props_from_json(const struct gk_json *json,
                                         struct gk_device_props *props_out, struct gk_err *err)
{
    static const char where[] = "device";
    struct gk_device_props props = {0};
    enum gk_status status = GK_OK;
    for (size_t i = 0; i < GK_ARRAY_COUNT(texts) && status == GK_OK; i++) {
        const char *text = NULL;
        status = gk_json_need_string(json, texts[i].name, texts[i].size - 1, &text, where, err);
        if (status == GK_OK) {
            memcpy((char *)&props + texts[i].offset, text, strlen(text) + 1);
            if (text[0] == '\0' && strcmp(texts[i].name, "uuid") != 0) {
                status = gk_fail(err, GK_INPUT, "%s: \"%s\" is empty", where, texts[i].name);
            }
        }
    }
    const struct gk_json *modelled = NULL;
    if (status == GK_OK) {
        status = gk_json_need(json, "modelled", GK_JSON_BOOL, &modelled, where, err);
        props.modelled = gk_json_bool(modelled, false);
    }
    for (size_t i = 0; i < GK_ARRAY_COUNT(numbers) && status == GK_OK; i++) {
        int64_t value = 0;
        /* Only the reservation of the system may be nothing. */
        int64_t min =
            numbers[i].offset == offsetof(struct gk_device_props, smem_block_reserved) ? 0 : 1;
        status = gk_json_need_int(json, numbers[i].name, min, INT64_MAX, &value, where, err);
        memcpy((char *)&props + numbers[i].offset, &value, sizeof value);
    }
    if (status == GK_OK) {
        *props_out = props;
    }
    return status;
}

/* ------------------------------------------------------------------ expressions */

enum gk_status gk_device_props_scope(struct gk_scope *scope, uint32_t *first_slot_out,
                                     struct gk_err *err)
{
    uint32_t first = gk_scope_count(scope);
    for (size_t i = 0; i < GK_ARRAY_COUNT(numbers); i++) {
        enum gk_status status =
            gk_scope_add(scope, numbers[i].dev, GK_VALUE_INT, NULL, 0, NULL, err);
        if (status != GK_OK) {
            return status;
        }
    }
    *first_slot_out = first;
    return GK_OK;
}

void gk_device_props_fill(const struct gk_device_props *props, union gk_value *slots)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(numbers); i++) {
        slots[i].i = number_of(props, i);
    }
}

/* ------------------------------------------------------------------ occupancy */

static int64_t round_up(int64_t value, int64_t unit)
{
    return (value + unit - 1) / unit * unit;
}

static int64_t smaller(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

int64_t gk_device_blocks_per_sm(const struct gk_device_props *props, int64_t threads,
                                int64_t regs_per_thread, int64_t smem_bytes)
{
    const int64_t regs_thread_max = 255; /* of every architecture so far */
    if (threads <= 0 || threads > props->threads_block_max || regs_per_thread < 0 ||
        regs_per_thread > regs_thread_max || smem_bytes < 0 || smem_bytes > props->smem_block_max) {
        return 0;
    }
    int64_t warps = round_up(threads, 32) / 32;
    int64_t blocks = smaller(props->blocks_sm, props->threads_sm / (warps * 32));
    int64_t regs_warp = round_up(regs_per_thread * 32, 256);
    if (round_up(warps, 4) * regs_warp > props->regs_block_max) {
        return 0;
    }
    if (regs_warp > 0) {
        /* The register file is four parts, one a scheduler, and a warp lives in one of them. */
        int64_t warps_part = props->regs_sm / 4 / regs_warp;
        blocks = smaller(blocks, 4 * warps_part / warps);
    }
    int64_t smem_block = round_up(smem_bytes, 128) + props->smem_block_reserved;
    if (smem_block > 0) {
        blocks = smaller(blocks, props->smem_sm / smem_block);
    }
    return blocks;
}

/* ------------------------------------------------------------------ built-in devices */

/*
 * What of a target an emulated device keeps: limits of a block and an SM are the target's own,
 * since they decide which configs are legal. The device is 8 SMs with 4 MB of L2 at 1 GHz. Memory
 * rate is that of the real product divided by its SMs and clock, times 8 SMs at 1 GHz, so that
 * compute-bound and memory-bound problems stay what they are: A100   1555 GB/s / 108 SMs / 1.41 GHz
 * = 10.2 bytes a clock and SM ->  81.7 GB/s A10     600 GB/s /  72 SMs / 1.70 GHz =  4.9 ->  39.2
 * GB/s L40S    864 GB/s / 142 SMs / 2.52 GHz =  2.4                      ->  19.3 GB/s H100   3350
 * GB/s / 132 SMs / 1.83 GHz = 13.9                      -> 111.0 GB/s
 */
struct builtin {
    const char *target;
    int64_t sm, smem_block_max, smem_sm, threads_sm, blocks_sm, cluster_max;
    int64_t mem_bytes_per_us, tensor_flops_per_clk_sm;
};

static const struct builtin builtins[] = {
    {"sm_80", 80, 166912, 167936, 2048, 32, 1, 81700, 2048},
    {"sm_86", 86, 101376, 102400, 1536, 16, 1, 39200, 1024},
    {"sm_89", 89, 101376, 102400, 1536, 24, 1, 19300, 1024},
    {"sm_90", 90, 232448, 233472, 2048, 32, 8, 111000, 4096},
    {"sm_90a", 90, 232448, 233472, 2048, 32, 8, 111000, 4096},
};

/* Thread instructions of one trial. The interpreter does about 1e9 a second where a warp's lanes go
 * together: this is about a minute, the longest that somebody at a laptop waits for one config. */
#define EMU_WORK_LIMIT INT64_C(64000000000)

static enum gk_status fail_builtin(const char *device, struct gk_err *err)
{
    struct gk_buf all = {0};
    for (size_t i = 0; i < GK_ARRAY_COUNT(builtins); i++) {
        gk_buf_printf(&all, "%s%s", i ? ", " : "", builtins[i].target);
    }
    enum gk_status status = gk_fail(
        err, GK_UNSUPPORTED,
        "device '%s': there is no such built-in device; emu and mock, alone or as emu:TARGET or "
        "mock:TARGET with a target of %s (a second one of a host is emu:TARGET#1)",
        device, gk_buf_text(&all));
    gk_buf_fini(&all);
    return status;
}

/* "#1", of a mock also "#1@1.03": which of several devices of a host, and by which factor its
 * times are longer than a plain one's. */
static bool is_instance(const char *text, bool is_mock)
{
    size_t digits = text[0] == '#' ? strspn(text + 1, "0123456789") : 0;
    const char *rest = text + 1 + digits;
    if (digits == 0 || digits > 3 || *rest == '\0') {
        return digits > 0 && digits <= 3;
    }
    double skew = 0;
    return is_mock && rest[0] == '@' && strlen(rest) < 12 &&
           rest[1 + strspn(rest + 1, "0123456789.")] == '\0' &&
           sscanf(rest + 1, "%lf", &skew) == 1 && skew >= 0.5 && skew <= 2;
}

double gk_device_skew(const char *device)
{
    const char *at = strchr(device, '@');
    double skew = 1;
    return at && sscanf(at + 1, "%lf", &skew) == 1 ? skew : 1;
}

static const struct builtin *find_builtin(const char *target)
{
    for (size_t i = 0; i < GK_ARRAY_COUNT(builtins); i++) {
        if (strcmp(builtins[i].target, target) == 0) {
            return &builtins[i];
        }
    }
    return NULL;
}

enum gk_status gk_device_props_builtin(const char *device, struct gk_device_props *props_out,
                                       struct gk_err *err)
{
    const char *kind = strncmp(device, "emu", 3) == 0    ? "emu"
                       : strncmp(device, "mock", 4) == 0 ? "mock"
                                                         : NULL;
    const char *rest = kind ? device + strlen(kind) : "";
    const char *instance = rest + strcspn(rest, "#");
    char target[32] = "sm_80"; /* alone it is that of the least target */
    const struct builtin *base = NULL;
    size_t size = (size_t)(instance - rest);
    if (size > 0) {
        (void)snprintf(target, sizeof target, "%.*s", (int)size - 1, rest + 1); /* cut: unknown */
    }
    if (kind && (size == 0 || *rest == ':' || *rest == '-') && /* a device or its arch */
        (*instance == '\0' || (*rest == ':' && is_instance(instance, kind[0] == 'm')))) {
        base = find_builtin(target);
    }
    if (!base) {
        return fail_builtin(device, err);
    }
    struct gk_device_props props = {
        .modelled = true,
        .sm = base->sm,
        .sms = 8,
        .smem_block_max = base->smem_block_max,
        .smem_sm = base->smem_sm,
        .smem_block_reserved = 1024,
        .regs_sm = 65536,
        .regs_block_max = 65536,
        .threads_sm = base->threads_sm,
        .threads_block_max = 1024,
        .blocks_sm = base->blocks_sm,
        .cluster_max = base->cluster_max,
        .l2_bytes = INT64_C(4) << 20,
        .mem_bytes = INT64_C(4) << 30,
        .clock_khz = 1000000,
        .mem_bytes_per_us = base->mem_bytes_per_us,
        .tensor_flops_per_clk_sm = base->tensor_flops_per_clk_sm,
        .work_limit = kind[0] == 'e' ? EMU_WORK_LIMIT : INT64_MAX, /* a mock runs nothing */
    };
    /* All texts below are of our own tables and fit. */
    (void)snprintf(props.device, sizeof props.device, "%s:%s%.20s", kind, base->target, instance);
    (void)snprintf(props.arch, sizeof props.arch, "%s-%s", kind, base->target);
    (void)snprintf(props.target, sizeof props.target, "%s", base->target);
    (void)snprintf(props.gpu, sizeof props.gpu, "%s-8sm", kind);
    (void)snprintf(props.name, sizeof props.name, "%s, 8 SMs, limits of %s",
                   kind[0] == 'e' ? "emulated GPU" : "mock GPU", base->target);
    *props_out = props;
    return GK_OK;
}
