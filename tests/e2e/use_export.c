/*
 * A stranger's program: an exported folder and NVRTC are all it has. For every row of the header it
 * asks selection and launch functions, compiles the sources of the folder with the row's defines,
 * runs the launches and compares C with a plain product. The GPU is the emulated one; of gktune it
 * includes nothing but that device and the exported header.
 *
 *   use_export FOLDER        exit 0: every row computes the right product; 77: no NVRTC
 */
#include "gk_gemm_emu_sm_80.h"

#include "worker/emu/emu.h"

#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ NVRTC, declared by us */

typedef struct nvrtc_program *program_t;
static struct {
    int (*create)(program_t *, const char *, const char *, int, const char *const *,
                  const char *const *);
    int (*compile)(program_t, int, const char *const *);
    int (*log_size)(program_t, size_t *);
    int (*log)(program_t, char *);
    int (*ptx_size)(program_t, size_t *);
    int (*ptx)(program_t, char *);
} nvrtc;

static void fail(const char *what, const char *detail)
{
    printf("use_export: %s: %s\n", what, detail);
    exit(1);
}

static void *open_nvrtc(void)
{
    char paths[8][4096];
    const char *home = getenv("CUDA_HOME"), *file = getenv("GKTUNE_NVRTC");
    int count = 0;
    snprintf(paths[count++], 4096, "%s", file ? file : "libnvrtc.so");
    snprintf(paths[count++], 4096, "libnvrtc.so");
    snprintf(paths[count++], 4096, "libnvrtc.so.13");
    snprintf(paths[count++], 4096, "libnvrtc.so.12");
    snprintf(paths[count++], 4096, "%s/lib64/libnvrtc.so", home ? home : "/usr/local/cuda");
    snprintf(paths[count++], 4096, "%s/lib/libnvrtc.so", home ? home : "/usr/local/cuda");
    snprintf(paths[count++], 4096, "%s/targets/x86_64-linux/lib/libnvrtc.so",
             home ? home : "/usr/local/cuda");
    for (int i = 0; i < count; i++) {
        void *library = dlopen(paths[i], RTLD_NOW);
        if (library) {
            return library;
        }
    }
    return NULL;
}

static void load(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    if (!symbol) {
        fail(name, "not in the library");
    }
    memcpy(function, &symbol, sizeof symbol);
}

static char *read_file(const char *path)
{
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 20);
    if (!file || !text || fread(text, 1, (1 << 20) - 1, file) == 0) {
        fail(path, "cannot be read");
    }
    fclose(file);
    return text;
}

/* PTX of one launch: its source, the row's defines, the include folders and options that the header
 * names. */
static char *compile(const char *folder, const struct gk_launch *launch, const char *defines)
{
    const char *options[256];
    char include[8][4096], path[4096];
    int count = 0, folders = 0;
    char *list = strdup(defines), *save = NULL;
    options[count++] = "-arch=compute_80";
    options[count++] = "-std=c++17";
    options[count++] = "-lineinfo";
    for (int i = 0; launch->options[i]; i++) {
        options[count++] = launch->options[i];
    }
    for (; launch->include_dirs[folders] && folders < 8; folders++) {
        snprintf(include[folders], sizeof include[0], "-I%s/%s", folder,
                 launch->include_dirs[folders]);
        options[count++] = include[folders];
    }
    for (char *line = strtok_r(list, "\n", &save); line && count < 250;
         line = strtok_r(NULL, "\n", &save)) {
        char *define = malloc(strlen(line) + 3);
        snprintf(define, strlen(line) + 3, "-D%s", line);
        options[count++] = define;
    }
    snprintf(path, sizeof path, "%s/%s", folder, launch->source);
    char *source = read_file(path);
    program_t program = NULL;
    size_t size = 0;
    if (nvrtc.create(&program, source, launch->source, 0, NULL, NULL) != 0) {
        fail("nvrtcCreateProgram", launch->source);
    }
    if (nvrtc.compile(program, count, options) != 0) {
        nvrtc.log_size(program, &size);
        char *log = calloc(1, size + 1);
        nvrtc.log(program, log);
        fail("does not compile", log);
    }
    nvrtc.ptx_size(program, &size);
    char *ptx = calloc(1, size + 1);
    nvrtc.ptx(program, ptx);
    free(source);
    free(list);
    return ptx;
}

/* ------------------------------------------------------------------ numbers */

static uint16_t to_bf16(float value)
{
    uint32_t bits;
    memcpy(&bits, &value, 4);
    return (uint16_t)(bits >> 16); /* exact for the small integers used here */
}

static float from_bf16(uint16_t half)
{
    uint32_t bits = (uint32_t)half << 16;
    float value;
    memcpy(&value, &bits, 4);
    return value;
}

static uint16_t to_f16(float value) /* -1, 0, 1 */
{
    return value > 0 ? 0x3C00 : value < 0 ? 0xBC00 : 0;
}

static float from_f16(uint16_t half)
{
    int exponent = half >> 10 & 31, mantissa = half & 1023;
    float value =
        exponent ? ldexpf((float)(1024 + mantissa), exponent - 25) : ldexpf((float)mantissa, -24);
    return half >> 15 ? -value : value;
}

static uint32_t seed = 12345;

static float ternary(void)
{
    seed = seed * 1664525u + 1013904223u;
    return (float)((int)(seed >> 16) % 3 - 1);
}

/* ------------------------------------------------------------------ one row */

struct tensor {
    const char *name;
    float *values;
    int64_t count;
    uint64_t address;
    int bytes; /* of an element: 2 or 4 */
    int is_f16;
};

static void check(enum gk_status status, const struct gk_err *err, const char *what)
{
    if (status != GK_OK) {
        fail(what, err->text);
    }
}

static void upload(struct gk_emu *emu, struct tensor *tensor, int random)
{
    struct gk_err err;
    unsigned char *raw = calloc((size_t)tensor->count, (size_t)tensor->bytes);
    tensor->values = calloc((size_t)tensor->count, sizeof(float));
    for (int64_t i = 0; i < tensor->count && random; i++) {
        float v = tensor->values[i] = ternary();
        uint16_t half = tensor->is_f16 ? to_f16(v) : to_bf16(v);
        memcpy(raw + i * tensor->bytes, tensor->bytes == 4 ? (const void *)&v : (const void *)&half,
               (size_t)tensor->bytes);
    }
    check(gk_emu_alloc(emu, tensor->name, (uint64_t)(tensor->count * tensor->bytes), 256,
                       &tensor->address, &err),
          &err, "alloc");
    if (random) {
        check(gk_emu_write(emu, tensor->address, raw, (uint64_t)(tensor->count * tensor->bytes),
                           &err),
              &err, "write");
    }
    free(raw);
}

static void run_launch(struct gk_emu *emu, const char *folder, const struct gk_launch *launch,
                       const char *defines, const struct tensor *tensors,
                       const uint64_t *workspaces)
{
    struct gk_err err;
    struct gk_emu_module *module = NULL;
    struct gk_emu_kernel *kernel = NULL;
    struct gk_emu_kernel_info info;
    static struct gk_emu_report report;
    unsigned char params[4096] = {0};
    char *ptx = compile(folder, launch, defines);
    check(gk_emu_module_load(emu, ptx, strlen(ptx), &module, &err), &err, "module");
    check(gk_emu_kernel_find(module, launch->kernel, &kernel, &err), &err, "kernel");
    gk_emu_kernel_info(kernel, &info);
    if (info.param_count != launch->argument_count) {
        fail(launch->kernel, "another number of arguments");
    }
    for (uint32_t i = 0; i < info.param_count; i++) {
        const struct gk_argument *argument = &launch->arguments[i];
        uint64_t address = 0;
        if (argument->size != info.params[i].size) {
            fail(launch->kernel, "another size of an argument");
        }
        for (int t = 0; argument->kind == GK_ARGUMENT_TENSOR && tensors[t].name; t++) {
            address = strcmp(tensors[t].name, argument->name) == 0 ? tensors[t].address : address;
        }
        if (argument->kind == GK_ARGUMENT_WORKSPACE && workspaces[argument->index]) {
            address = workspaces[argument->index] + argument->value.u64;
        }
        memcpy(params + info.params[i].offset,
               argument->kind == GK_ARGUMENT_VALUE ? (const void *)&argument->value
                                                   : (const void *)&address,
               argument->size);
    }
    struct gk_emu_launch go = {.dynamic_smem_bytes = launch->smem_bytes,
                               .params = params,
                               .params_size = info.params_size,
                               .registers_per_thread = 64};
    memcpy(go.grid, launch->grid, sizeof go.grid);
    memcpy(go.block, launch->block, sizeof go.block);
    check(gk_emu_launch(emu, kernel, &go, &report, &err), &err, launch->kernel);
    gk_emu_module_unload(module);
    free(ptx);
}

static double element(const float *values, int64_t ld, int transposed, int64_t row, int64_t column)
{
    return transposed ? values[column * ld + row] : values[row * ld + column];
}

static double plain(const struct gk_gemm_problem *p, const struct tensor *t, int64_t row,
                    int64_t column)
{
    int a_t = p->trans == GK_GEMM_TRANS_TN || p->trans == GK_GEMM_TRANS_TT;
    int b_t = p->trans == GK_GEMM_TRANS_NT || p->trans == GK_GEMM_TRANS_TT;
    double sum = 0;
    for (int64_t k = 0; k < p->K; k++) {
        sum += element(t[0].values, p->lda, a_t, row, k) *
               element(t[1].values, p->ldb, b_t, k, column);
    }
    sum = p->alpha * sum + (p->bias ? t[2].values[column] : 0);
    return p->act == GK_GEMM_ACT_SILU   ? sum / (1 + exp(-sum))
           : p->act == GK_GEMM_ACT_GELU ? 0.5 * sum * (1 + erf(sum / sqrt(2.0)))
                                        : sum;
}

static void compare(struct gk_emu *emu, const struct gk_gemm_problem *p, const struct tensor *t,
                    uint32_t index)
{
    struct gk_err err;
    const struct tensor *c = &t[3];
    unsigned char *raw = calloc((size_t)c->count, (size_t)c->bytes);
    check(gk_emu_read(emu, c->address, raw, (uint64_t)(c->count * c->bytes), &err), &err, "read");
    int64_t wrong = 0;
    for (int64_t row = 0; row < p->M; row++) {
        for (int64_t column = 0; column < p->N; column++) {
            const unsigned char *at = raw + (row * p->ldc + column) * c->bytes;
            uint16_t half;
            float got;
            memcpy(&half, at, 2);
            memcpy(&got, at, c->bytes == 4 ? 4 : 2);
            got = c->bytes == 4 ? got : c->is_f16 ? from_f16(half) : from_bf16(half);
            double want = plain(p, t, row, column);
            /* sums of -1, 0, 1 are small integers: exact but for an activation */
            double bound = p->act == GK_GEMM_ACT_NONE ? 0 : fabs(want) / 128 + 1e-3;
            wrong += !(fabs(got - want) <= bound);
        }
    }
    printf("row %u: M=%lld N=%lld K=%lld: %lld of %lld elements wrong\n", index, (long long)p->M,
           (long long)p->N, (long long)p->K, (long long)wrong, (long long)(p->M * p->N));
    if (wrong) {
        exit(1);
    }
    free(raw);
}

static void run_row(const char *folder, uint32_t index)
{
    const struct gk_gemm_problem *p = &gk_gemm_emu_sm_80_rows[index].problem;
    enum gk_match why = GK_MATCH_NONE;
    const struct gk_gemm_emu_sm_80_row *row = gk_gemm_select(p, &why);
    static struct gk_plan plan;
    struct gk_err err;
    struct gk_emu *emu = NULL;
    if (why != GK_MATCH_EXACT || !row || !gk_gemm_emu_sm_80_launch(p, row, NULL, &plan)) {
        fail("row", "not selected exactly, or it has no launch");
    }
    check(gk_emu_create(&(struct gk_emu_options){.target = "sm_80"}, &emu, &err), &err, "emu");
    int f16 = p->dtype == GK_GEMM_DTYPE_F16, out_f16 = p->dtype_out == GK_GEMM_DTYPE_OUT_F16;
    int out_bytes = p->dtype_out == GK_GEMM_DTYPE_OUT_F32 ? 4 : 2;
    int a_t = p->trans == GK_GEMM_TRANS_TN || p->trans == GK_GEMM_TRANS_TT;
    int b_t = p->trans == GK_GEMM_TRANS_NT || p->trans == GK_GEMM_TRANS_TT;
    if (p->batch != 1 || p->beta > 0 || p->beta < 0) {
        fail("row", "this test knows one batch and beta 0");
    }
    struct tensor tensors[] = {
        {.name = "A", .count = (a_t ? p->K : p->M) * p->lda, .bytes = 2, .is_f16 = f16},
        {.name = "B", .count = (b_t ? p->N : p->K) * p->ldb, .bytes = 2, .is_f16 = f16},
        {.name = "bias_row", .count = p->N, .bytes = out_bytes, .is_f16 = out_f16},
        {.name = "C", .count = p->M * p->ldc, .bytes = out_bytes, .is_f16 = out_f16},
        {.name = NULL}};
    uint64_t workspaces[GK_WORKSPACES_MAX] = {0};
    for (int i = 0; i < 4; i++) {
        upload(emu, &tensors[i], i < 3);
    }
    if (!p->bias) {
        tensors[2].address = 0; /* it does not exist for this problem */
    }
    for (uint32_t i = 0; i < plan.workspace_count; i++) {
        if (plan.workspaces[i].bytes) {
            check(gk_emu_alloc(emu, plan.workspaces[i].name, plan.workspaces[i].bytes,
                               plan.workspaces[i].align, &workspaces[i], &err),
                  &err, "workspace");
        }
    }
    for (uint32_t i = 0; i < plan.launch_count; i++) {
        if (plan.launches[i].present) {
            run_launch(emu, folder, &plan.launches[i], row->defines[i], tensors, workspaces);
        }
    }
    compare(emu, p, tensors, index);
    for (int i = 0; i < 4; i++) {
        free(tensors[i].values);
    }
    gk_emu_destroy(emu);
}

int main(int argc, char **argv)
{
    void *library = open_nvrtc();
    if (argc != 2) {
        fail("usage", "use_export FOLDER");
    }
    if (!library) {
        printf("skipped: no NVRTC\n");
        return 77;
    }
    load(library, "nvrtcCreateProgram", &nvrtc.create);
    load(library, "nvrtcCompileProgram", &nvrtc.compile);
    load(library, "nvrtcGetProgramLogSize", &nvrtc.log_size);
    load(library, "nvrtcGetProgramLog", &nvrtc.log);
    load(library, "nvrtcGetPTXSize", &nvrtc.ptx_size);
    load(library, "nvrtcGetPTX", &nvrtc.ptx);
    for (uint32_t i = 0; i < gk_gemm_emu_sm_80_ROW_COUNT; i++) {
        run_row(argv[1], i);
    }
    printf("%u rows computed the right product\n", (unsigned)gk_gemm_emu_sm_80_ROW_COUNT);
    return 0;
}
