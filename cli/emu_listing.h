/* The sources of a report with the counts of each line beside it; and the words that table and
 * listing share. */
#ifndef GK_CLI_EMU_LISTING_H
#define GK_CLI_EMU_LISTING_H

#include "core/buf.h"
#include "core/json.h"

#define GK_EMU_BAR_SIZE 11

/* "9999", "12.3k", "4.56M". */
void gk_emu_count_text(double value, char text_out[32]);
/* "####      ": a share of 0 to 1. */
void gk_emu_bar(double share, char text_out[GK_EMU_BAR_SIZE]);
/* Copies the text; a bar at the beginning of a line is green, yellow from a third on, red from two
 * thirds on. */
void gk_emu_color_bars(const char *text, struct gk_buf *out);

/* Lines around those that the launch counted, from report's "sources". */
void gk_emu_listing(const struct gk_json *report, const struct gk_json *launch, bool color,
                    struct gk_buf *out);

#endif
