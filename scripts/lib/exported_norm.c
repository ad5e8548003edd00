/*
 * What an exported header says of one rmsnorm_residual problem, as JSON: the launch, its defines and
 * its arguments. For scripts/lib/exported_norm.py.
 *
 *   cc -DHEADER='"gk_.._.h"' -DPREFIX=gk_.. -I FOLDER exported_norm.c; ./a.out ROWS COLS
 *
 * Exit status: 0; 1: no row serves, or it is no plain launch.
 */
#include HEADER

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define PASTE2(a, b) a##b
#define PASTE(a, b)  PASTE2(a, b)
#define SELECT  PASTE(PREFIX, _select)
#define LAUNCH  PASTE(PREFIX, _launch)
#define DEFINES PASTE(PREFIX, _defines)

static char defines[1 << 16];
static struct gk_plan plan;

static void put_list(const char *name, const char *const *list)
{
    printf("\"%s\":[", name);
    for (int i = 0; list[i]; i++) {
        printf("%s\"%s\"", i ? "," : "", list[i]);
    }
    printf("],");
}

static void put_defines(void)
{
    printf("\"defines\":[\"");
    for (const char *c = defines; *c; c++) {
        fputs(*c != '\n' ? (char[]){*c, 0} : c[1] ? "\",\"" : "", stdout);
    }
    printf("\"],");
}

int main(int argc, char **argv)
{
    struct gk_rmsnorm_residual_problem problem;
    enum gk_match why = GK_MATCH_NONE;
    if (argc != 3) {
        return 1;
    }
    gk_rmsnorm_residual_problem_init(&problem, strtoll(argv[1], NULL, 10), strtoll(argv[2], NULL, 10));
    const void *row = SELECT(&problem, &why);
    const struct gk_launch *launch = &plan.launches[0];
    if (!row || !LAUNCH(&problem, row, NULL, &plan) || plan.launch_count != 1 || launch->cluster[0] > 1 ||
        DEFINES(&problem, row, 0, defines, sizeof defines) >= sizeof defines) {
        return 1;
    }
    printf("{\"match\":%d,\"kernel\":\"%s\",\"source\":\"%s\",", (int)why, launch->kernel, launch->source);
    put_list("include_dirs", launch->include_dirs);
    put_list("options", launch->options);
    put_defines();
    printf("\"grid\":[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "],\"block\":[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "],\"smem_bytes\":%" PRIu32 ",\"arguments\":[",
           launch->grid[0], launch->grid[1], launch->grid[2], launch->block[0], launch->block[1], launch->block[2], launch->smem_bytes);
    for (uint32_t i = 0; i < launch->argument_count; i++) {
        const struct gk_argument *argument = &launch->arguments[i];
        printf("%s{\"tensor\":%s,\"name\":\"%s\",\"size\":%" PRIu32 ",\"bits\":%" PRIu64 "}", i ? "," : "",
               argument->kind == GK_ARGUMENT_TENSOR ? "true" : "false", argument->name ? argument->name : "", argument->size, argument->value.u64);
    }
    printf("]}\n");
    return 0;
}
