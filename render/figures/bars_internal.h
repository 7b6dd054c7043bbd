/** A figure of bars laid out. */
#ifndef ES_BARS_INTERNAL_H
#define ES_BARS_INTERNAL_H

#include "render/figures/bars.h"
#include "render/figures/legend.h"
#include "render/figures/page.h"

/** How the texts above bars are printed. */
typedef enum es_bars_print {
    ES_BARS_TEXT,
    ES_BARS_BRIEF,
    ES_BARS_TURNED,
    ES_BARS_NONE
} es_bars_print;

/** A group's label on one or two lines; owned; the second may be NULL. */
typedef struct es_bars_label {
    char *lines[2];
} es_bars_label;

typedef struct es_bars_sheet {
    es_page page;
    const es_bars *figure;
    double most;  /* largest bar or stack */
    es_axis axis; /* of a plot at y = 0 .. its height */
    es_legend legend;
    es_bars_label *labels; /* (n_groups) */
    double pitch;          /* from group to group */
    double bar;            /* from bar to bar within one */
    es_bars_print print;
    double value_size; /* of the texts */
} es_bars_sheet;

#define ES_BARS_GAP 3.0 /* between a bar and its text */

/** Text of a bar in the way of printing; NULL if it has none. */
const char *es_bar_text(const es_bar *bar, es_bars_print print);

/** Bar of a group and series in a panel. */
const es_bar *es_bars_at(const es_bars *figure, size_t panel, size_t group,
                         size_t series);

/** Left edge and width of a bar (of a stack: series is ignored). */
es_box es_bars_place(const es_bars_sheet *sheet, size_t panel, size_t group,
                     size_t series);

/**
 * Lays the figure out.
 *
 *   out  written; es_bars_sheet_clear it in every case
 *
 * ES_OK, ES_ENOMEM, ES_EUSAGE (size too small, nothing to draw).
 */
es_status es_bars_lay_out(es_bars_sheet *out,
                          const es_bars *figure) ES_MUST_USE;

void es_bars_sheet_clear(es_bars_sheet *sheet);

/** Draws the bars of panel i, and the groups' labels. */
es_status es_bars_draw_panel(es_picture *picture, const es_page *page,
                             size_t i) ES_MUST_USE;

#endif
