/*
 * Reports: what went wrong, where in the source and the PTX, which thread, next to which
 * allocation. The first fault of a launch is kept.
 */
#include "worker/emu/emu_inside.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

const char *gk_emu_fault_name(enum gk_emu_fault fault)
{
    switch (fault) {
#define FAULT_NAME(name, number, text)                                                             \
    case GK_EMU_FAULT_##name:                                                                      \
        return #name;
        GK_EMU_FAULT_MAP(FAULT_NAME)
#undef FAULT_NAME
    }
    return "unknown fault";
}

const char *gk_emu_fault_text(enum gk_emu_fault fault)
{
    switch (fault) {
#define FAULT_TEXT(name, number, text)                                                             \
    case GK_EMU_FAULT_##name:                                                                      \
        return text;
        GK_EMU_FAULT_MAP(FAULT_TEXT)
#undef FAULT_TEXT
    }
    return "unknown fault";
}

/* The PTX line without blanks at both ends. */
static void line_text(const struct gk_emu_module *module, uint32_t line, char *text, size_t size)
{
    const char *at = "";
    size_t length = 0;

    if (line && line <= module->line_count) {
        at = module->lines[line - 1] + strspn(module->lines[line - 1], " \t");
        length = strcspn(at, "\r\n");
        while (length && (at[length - 1] == ' ' || at[length - 1] == '\t')) {
            length--;
        }
    }
    (void)snprintf(text, size, "%.*s", (int)length, at);
}

static const char *file_name(const struct gk_emu_module *module, uint32_t file)
{
    return file && file <= module->file_count && module->files[file - 1] ? module->files[file - 1]
                                                                         : "unknown file";
}

static void put_source(char *text, size_t size, size_t *used, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

static void put_source(char *text, size_t size, size_t *used, const char *format, ...)
{
    va_list ap;
    int wanted;

    va_start(ap, format);
    wanted = vsnprintf(text + *used, size - *used, format, ap);
    va_end(ap);
    *used += wanted > 0 ? (size_t)wanted : 0;
    *used = *used < size ? *used : size - 1;
}

/* "a:1 (inlined at b:2, at c:3), ": from a primitive of a header to the line that means it. */
static void describe_source(const struct gk_emu_module *module, const struct emu_loc *loc,
                            char *text, size_t size)
{
    size_t used = 0;
    bool inlined = loc->outer_line != 0;

    text[0] = '\0';
    if (!loc->line) {
        return;
    }
    put_source(text, size, &used, "%s:%u%s", file_name(module, loc->file), loc->line,
               inlined ? " (inlined" : "");
    for (; loc->outer_line; loc = &module->locs[loc->parent]) {
        put_source(text, size, &used, " at %s:%u%s", file_name(module, loc->outer_file),
                   loc->outer_line, loc->parent && module->locs[loc->parent].outer_line ? "," : "");
    }
    put_source(text, size, &used, "%s, ", inlined ? ")" : "");
}

void emu_describe(const struct gk_emu_module *module, const struct emu_insn *insn, char *text,
                  size_t size)
{
    const struct emu_loc *loc = &module->locs[insn->loc];
    char source[800], code[200];

    line_text(module, insn->line, code, sizeof(code));
    describe_source(module, loc, source, sizeof(source));
    (void)snprintf(text, size, "%sPTX line %u: %s", source, insn->line, code);
}

static void thread_of(const struct emu_run *run, uint32_t linear, uint32_t thread[3])
{
    const uint32_t *dim = run->launch->block;

    thread[0] = linear % dim[0];
    thread[1] = linear / dim[0] % dim[1];
    thread[2] = linear / dim[0] / dim[1];
}

int emu_fault(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
              enum gk_emu_fault kind, uint64_t address, const char *format, ...)
{
    struct emu_run *run = warp->run;
    const struct gk_emu_module *module = run->kernel->module;
    struct gk_emu_report *report = run->report;
    const struct emu_loc *loc = &module->locs[insn->loc];
    char message[700], where[1000];
    va_list ap;

    if (report->kind != GK_EMU_FAULT_NONE) {
        return EMU_STOP;
    }
    va_start(ap, format);
    (void)vsnprintf(message, sizeof(message), format, ap);
    va_end(ap);
    report->kind = kind;
    report->ptx_line = insn->line;
    report->address = address;
    report->source_line = loc->outer_line ? loc->outer_line : loc->line;
    if (report->source_line) {
        (void)snprintf(report->source_file, sizeof(report->source_file), "%s",
                       file_name(module, loc->outer_line ? loc->outer_file : loc->file));
    }
    thread_of(run, warp->index * EMU_LANES + lane, report->thread);
    memcpy(report->block, warp->block->ctaid, sizeof(report->block));
    emu_describe(module, insn, where, sizeof(where));
    (void)snprintf(report->text, sizeof(report->text),
                   "%s: %s; kernel %s, thread (%u,%u,%u) of block (%u,%u,%u), %s",
                   gk_emu_fault_text(kind), message, run->kernel->name, report->thread[0],
                   report->thread[1], report->thread[2], report->block[0], report->block[1],
                   report->block[2], where);
    return EMU_STOP;
}

void emu_fault_launch(struct emu_run *run, enum gk_emu_fault kind, const char *text)
{
    struct gk_emu_report *report = run->report;

    if (report->kind != GK_EMU_FAULT_NONE) {
        return;
    }
    report->kind = kind;
    (void)snprintf(report->text, sizeof(report->text), "%s: kernel %s, %s", gk_emu_fault_text(kind),
                   run->kernel->name, text);
}

/* "12 bytes past the end of 'A' (4096 bytes at 0x...)". */
static void place_of(struct emu_memory *memory, uint64_t address, char *text, size_t size)
{
    const struct emu_alloc *alloc = emu_memory_nearest(memory, address);

    if (!alloc) {
        (void)snprintf(text, size, "no allocation exists");
    } else if (address < alloc->address) {
        (void)snprintf(text, size,
                       "%" PRIu64 " bytes before '%s' (%" PRIu64 " bytes at 0x%" PRIx64 ")",
                       alloc->address - address, alloc->name, alloc->size, alloc->address);
    } else if (address - alloc->address >= alloc->size) {
        (void)snprintf(
            text, size,
            "%" PRIu64 " bytes past the end of '%s' (%" PRIu64 " bytes at 0x%" PRIx64 ")",
            address - alloc->address - alloc->size, alloc->name, alloc->size, alloc->address);
    } else {
        (void)snprintf(text, size,
                       "offset %" PRIu64 " of '%s' (%" PRIu64 " bytes at 0x%" PRIx64 ")",
                       address - alloc->address, alloc->name, alloc->size, alloc->address);
    }
}

int emu_fault_memory(struct emu_warp *warp, const struct emu_insn *insn, unsigned lane,
                     enum gk_emu_fault kind, enum emu_space space, uint64_t address, uint32_t bytes,
                     const char *verb)
{
    static const char *const SPACE[] = {"generic",  "global",    "shared",   "local",
                                        "constant", "parameter", "parameter"};
    struct emu_run *run = warp->run;
    char place[256];

    if (space == EMU_SHARED) {
        (void)snprintf(place, sizeof(place), "the block has %u bytes (%u of them dynamic)",
                       run->shared_bytes, run->launch->dynamic_smem_bytes);
    } else if (space == EMU_LOCAL) {
        (void)snprintf(place, sizeof(place), "the thread has %u bytes", run->local_bytes);
    } else if (space == EMU_PARAM || space == EMU_PARAM_LOCAL) {
        (void)snprintf(place, sizeof(place), "the kernel has %u bytes of parameters",
                       run->kernel->params_size);
    } else {
        place_of(&run->emu->memory, address, place, sizeof(place));
    }
    return emu_fault(warp, insn, lane, kind, address,
                     "%s of %u bytes at %s address 0x%" PRIx64 ", %s", verb, bytes, SPACE[space],
                     address, place);
}
