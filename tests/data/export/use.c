/* Uses two exported headers together; also compiled as C++17. Exit status 0 if all answers are right. */
#include "gk_pick_emu_sm_90a.h"
#include "gk_pick_emu_sm_80.h"

#include <stdio.h>
#include <string.h>

static int failures;

#define CHECK(condition)                                                                           \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            failures++;                                                                            \
            printf("line %d: %s\n", __LINE__, #condition);                                         \
        }                                                                                          \
    } while (0)

static void exact(void)
{
    struct gk_pick_problem p;
    enum gk_match why = GK_MATCH_NONE;
    struct gk_plan plan;
    char text[2048];
    uint32_t i, l;
    gk_pick_problem_init(&p, 4096);
    CHECK(p.stride == 4096 && p.rows == 1 && p.dtype == GK_PICK_DTYPE_BF16);
    const struct gk_pick_emu_sm_90a_row *row = gk_pick_emu_sm_90a_select(&p, &why);
    CHECK(why == GK_MATCH_EXACT && row && row->origin == GK_ORIGIN_TUNED);
    CHECK(row->template_id == GK_PICK_EMU_SM_90A_PICK_VEC);
    CHECK(row->config.pick_vec.BLOCK == 256 && row->config.pick_vec.SPLIT == 4);
    CHECK(gk_pick_emu_sm_90a_launch(&p, row, NULL, &plan) == 1);
    CHECK(plan.launch_count == 2 && plan.workspace_count == 2 && plan.map_count == 0);
    const struct gk_launch *first = &plan.launches[0];
    CHECK(first->present && first->grid[0] == 1 && first->grid[1] == 4 && first->grid[2] == 1);
    CHECK(first->block[0] == 256 && first->block[1] == 1 && first->smem_bytes == 4096);
    CHECK(strcmp(first->kernel, "pick_vec") == 0 && strcmp(first->source, "src/pick/pick_vec.cuh") == 0);
    CHECK(first->argument_count == 5 && first->arguments[0].kind == GK_ARGUMENT_TENSOR);
    CHECK(first->arguments[2].kind == GK_ARGUMENT_WORKSPACE && first->arguments[2].value.u64 == 4);
    CHECK(first->arguments[3].size == 4 && first->arguments[3].value.i32 == 4096);
    CHECK(first->arguments[4].value.f32 == 1.0f);
    CHECK(plan.launches[1].present && plan.launches[1].pdl && plan.launches[1].arguments[2].value.i64 == 16384);
    CHECK(plan.workspaces[0].bytes == 4096 * 4 * 4 && plan.workspaces[1].init == GK_WORKSPACE_ZERO_KEPT);
    CHECK(plan.workspaces[1].align == 16 && strcmp(first->options[0], "-use_fast_math") == 0);
    /* the two ways to the defines agree, for every row and launch */
    for (i = 0; i < gk_pick_emu_sm_90a_ROW_COUNT; i++) {
        const struct gk_pick_emu_sm_90a_row *each = &gk_pick_emu_sm_90a_rows[i];
        for (l = 0; l < GK_LAUNCHES_MAX && each->defines[l]; l++) {
            size_t need = gk_pick_emu_sm_90a_defines(&each->problem, each, l, text, sizeof text);
            CHECK(need == strlen(each->defines[l]) && strcmp(text, each->defines[l]) == 0);
            CHECK(gk_pick_emu_sm_90a_defines(&each->problem, each, l, text, 5) == need && strlen(text) == 4);
        }
        CHECK(l > 0);
    }
}

static void near_and_default(void)
{
    struct gk_pick_problem p;
    enum gk_match why = GK_MATCH_NONE;
    struct gk_plan plan;
    struct gk_facts facts;
    char text[2048];
    gk_pick_problem_init(&p, 5000);
    const struct gk_pick_emu_sm_90a_row *row = gk_pick_emu_sm_90a_select(&p, &why);
    CHECK(why == GK_MATCH_NEAR && row && row->problem.n == 4096);
    /* `rows` is baked into pick_vec: only rows of pick_map may be near, and only where rows are wide */
    gk_pick_problem_init(&p, 8192);
    p.rows = 2;
    row = gk_pick_emu_sm_90a_select(&p, &why);
    CHECK(why == GK_MATCH_NEAR && row && row->template_id == GK_PICK_EMU_SM_90A_PICK_MAP);
    /* other flags: nothing is near, the default is said to be one */
    gk_pick_problem_init(&p, 5000);
    p.mode = GK_PICK_MODE_MAX;
    p.dtype = GK_PICK_DTYPE_BF16;
    row = gk_pick_emu_sm_90a_select(&p, &why);
    CHECK(why == GK_MATCH_DEFAULT && row && row->origin == GK_ORIGIN_DEFAULT);
    CHECK(row->config.pick_vec.SPLIT == 2 && row->config.pick_vec.VEC == 4 && row->config.pick_vec.WAY == 0);
    CHECK(row->defines[0] == NULL && gk_pick_emu_sm_90a_defines(&p, row, 0, text, sizeof text) > 0);
    CHECK(strstr(text, "GK_BLOCK=128\n") && strstr(text, "GK_MODE=1\n") && strstr(text, "GK_ARCH=900\n"));
    p.n = 131072;
    gk_pick_problem_derive(&p);
    row = gk_pick_emu_sm_90a_select(&p, &why);
    CHECK(why == GK_MATCH_DEFAULT && row->template_id == GK_PICK_EMU_SM_90A_PICK_MAP);
    CHECK(strstr((gk_pick_emu_sm_90a_defines(&p, row, 0, text, sizeof text), text), "box_width=128\n") != NULL);
    /* its grid asks for what is known after compiling */
    memset(&facts, 0, sizeof facts);
    facts.blocks_per_sm = 2;
    CHECK(gk_pick_emu_sm_90a_launch(&p, row, NULL, &plan) == 0);
    CHECK(gk_pick_emu_sm_90a_launch(&p, row, &facts, &plan) == 1);
    CHECK(plan.launches[0].grid[0] == 16 && plan.launches[0].carveout_percent == 50);
    CHECK(plan.map_count == 1 && plan.maps[0].present && plan.maps[0].dims[0] == 131072);
    CHECK(plan.maps[0].strides[1] == 262144 || plan.maps[0].strides[0] == 262144);
    CHECK(plan.launches[0].arguments[1].kind == GK_ARGUMENT_TENSOR_MAP && plan.launches[0].arguments[1].size == 128);
}

static void none_and_gpus(void)
{
    struct gk_pick_problem p;
    enum gk_match why = GK_MATCH_EXACT;
    gk_pick_problem_init(&p, 4096);
    p.stride = 100; /* against the op's constraint */
    CHECK(gk_pick_emu_sm_90a_select(&p, &why) == NULL && why == GK_MATCH_NONE);
    gk_pick_problem_init(&p, 0);
    CHECK(gk_pick_emu_sm_90a_select(&p, &why) == NULL && why == GK_MATCH_NONE);
    gk_pick_problem_init(&p, 4096);
    CHECK(gk_pick_emu_sm_90a_select_on("emu-8sm", &p, &why) && why == GK_MATCH_EXACT);
    CHECK(gk_pick_emu_sm_90a_select_on("another-gpu", &p, &why) && why == GK_MATCH_NEAR);
    CHECK(gk_pick_select(&p, NULL) == gk_pick_emu_sm_90a_select(&p, NULL)); /* the first header's */
    CHECK(gk_pick_emu_sm_80_select(&p, &why) && why == GK_MATCH_EXACT);
}

int main(void)
{
    exact();
    near_and_default();
    none_and_gpus();
    return failures != 0;
}
