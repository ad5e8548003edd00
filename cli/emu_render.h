/*
 * A report of the emulated device (worker/emu_report.h, over the wire as JSON) for people: verdict,
 * launches, the lines that cost most with a heat bar each, or the whole source with its counts.
 */
#ifndef GK_CLI_EMU_RENDER_H
#define GK_CLI_EMU_RENDER_H

#include "core/buf.h"
#include "core/json.h"

struct gk_emu_look {
    uint32_t top; /* lines of a launch's table; 0: all */
    bool source;  /* the sources instead of a table */
    bool color;   /* bars are coloured by their length */
};

void gk_emu_render(const struct gk_json *report, const struct gk_emu_look *look,
                   struct gk_buf *out);

#endif
