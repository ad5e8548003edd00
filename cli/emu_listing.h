/* A launch's lines: as a table, or as the sources with the counts of each line beside it; and the
 * words that both share. */
#ifndef GK_CLI_EMU_LISTING_H
#define GK_CLI_EMU_LISTING_H

#include "cli/emu_render.h"

#define GK_EMU_BAR_SIZE 11

/* "9999", "12.3k", "4.56M". */
void gk_emu_count_text(double value, char text_out[32]);
/* "####      ": a share of 0 to 1. */
void gk_emu_bar(double share, char text_out[GK_EMU_BAR_SIZE]);
/* Copies the text; a bar at the beginning of a line is green, yellow from a third on, red from two
 * thirds on. */
void gk_emu_color_bars(const char *text, struct gk_buf *out);

/* A member of a launch's or line's "counts" or "ideal"; 0 where it is left out. */
double gk_emu_number(const struct gk_json *json, const char *list, const char *name);
/* "2048 x 4.0 (1.0)": requests, what each took, and at best where that is less; "" without any. */
void gk_emu_requests_text(double requests, double took, double ideal, char text_out[96]);

/* Lines of the launch, dearest first. */
void gk_emu_table(const struct gk_json *launch, const struct gk_emu_look *look, struct gk_buf *out);
/* Lines around those that the launch counted, from report's "sources". */
void gk_emu_listing(const struct gk_json *report, const struct gk_json *launch, bool color,
                    struct gk_buf *out);

#endif
