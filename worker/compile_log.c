/* ptxas's report: see compile_log.h. */
#include "worker/compile_log.h"

#include <stdlib.h>
#include <string.h>

/* The number right before `what` in one line ("12 bytes spill stores"), or `fallback`. */
static int64_t number_before(const char *line, size_t size, const char *what, int64_t fallback)
{
    const char *at = memmem(line, size, what, strlen(what));
    if (!at) {
        return fallback;
    }
    while (at > line && at[-1] == ' ') {
        at--;
    }
    const char *digits = at;
    while (digits > line && digits[-1] >= '0' && digits[-1] <= '9') {
        digits--;
    }
    return digits < at ? strtoll(digits, NULL, 10) : fallback;
}

static bool holds(const char *line, size_t size, const char *what)
{
    return memmem(line, size, what, strlen(what)) != NULL;
}

/* Whether the line names a kernel, and whether it is ours: 'name' stands in quotes or at the line's
 * end. */
static bool names_kernel(const char *line, size_t size, const char *kernel, bool *ours_out)
{
    if (!holds(line, size, "Compiling entry function") &&
        !holds(line, size, "Function properties for")) {
        return false;
    }
    size_t length = strlen(kernel);
    const char *from = line;
    *ours_out = false;
    for (;;) {
        const char *at = memmem(from, size - (size_t)(from - line), kernel, length);
        if (!at) {
            return true;
        }
        const char *end = at + length;
        bool starts = at > line && (at[-1] == '\'' || at[-1] == ' ');
        bool ends = end == line + size || *end == '\'' || *end == ' ' || *end == '\r';
        if (starts && ends) {
            *ours_out = true;
            return true;
        }
        from = at + 1;
    }
}

static void read_line(const char *line, size_t size, struct gk_compile_facts *facts)
{
    if (holds(line, size, "spill stores")) {
        facts->stack_bytes = number_before(line, size, "bytes stack frame", 0);
        facts->spill_bytes = number_before(line, size, "bytes spill stores", 0) +
                             number_before(line, size, "bytes spill loads", 0);
    }
    if (holds(line, size, "Used ") && holds(line, size, "registers")) {
        facts->found = true;
        facts->regs = number_before(line, size, "registers", -1);
        facts->static_smem = number_before(line, size, "bytes smem", 0);
        if (facts->spill_bytes < 0) {
            facts->spill_bytes = 0;
        }
    }
}

void gk_compile_log_read(const char *log, const char *kernel, struct gk_compile_facts *facts_out)
{
    struct gk_compile_facts facts = {
        .regs = -1, .spill_bytes = -1, .stack_bytes = -1, .static_smem = -1};
    bool ours = false;
    for (const char *line = log; line && *line;) {
        const char *end = strchr(line, '\n');
        size_t size = end ? (size_t)(end - line) : strlen(line);
        bool named = false;
        if (names_kernel(line, size, kernel, &named)) {
            ours = named;
        }
        if (ours) {
            read_line(line, size, &facts);
        }
        facts.setmaxnreg_ignored = facts.setmaxnreg_ignored || holds(line, size, "C7508");
        facts.wgmma_serialized = facts.wgmma_serialized || holds(line, size, "C7510");
        line = end ? end + 1 : NULL;
    }
    *facts_out = facts;
}
