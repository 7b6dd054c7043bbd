/**
 * Fits figures to the terminal, and shows a figure of the live view: the
 * figures of cli/figures/list.h, drawn with characters from the runs that are
 * watched.
 */
#ifndef ES_TERMINAL_FIGURE_H
#define ES_TERMINAL_FIGURE_H

#include "cli/figures/figures.h"
#include "cli/terminal/terminal.h"
#include "cli/terminal/watched.h"

/**
 * Sets the width, characters and colours of figures that are written as text,
 * for the terminal of standard output. If standard output is not a terminal but
 * --color=always is given, the number of colours is the one that the
 * environment describes, or 256.
 */
void es_figures_fit_terminal(es_figure_options *options, bool theme_given);

typedef struct es_shown_figure {
    bool open; /* true: the figure is shown instead of the runs */
    es_figure_kind kind;
    bool stale;   /* true if the next update must draw the figure again */
    bool behind;  /* true if the runs have changed since the figure was drawn */
    int64_t next; /* earliest time in ms at which a change of the runs may cause
                     the figure to be drawn again */
    bool fits[ES_N_FIGURES]; /* true for each figure that can show the runs */
    es_screen *drawing;      /* NULL if nothing could be drawn */
    char *problem;           /* the reason why nothing could be drawn */
    int width, height;       /* size of the terminal for which the figure was
                                drawn */
    int top;                 /* first row of the drawing that is visible */
} es_shown_figure;

/** The runs of a figure, and how they are summarised and coloured. */
typedef struct es_figure_source {
    const es_watched *runs; /* (n_runs) */
    size_t n_runs;
    const es_summary_options *summary;
    es_colormap colormap;
    es_terminal terminal;
} es_figure_source;

/** Opens the figure. If it is open already, chooses the next figure that can
 *  show the runs, or the previous one if `back` is true. */
void es_shown_figure_turn(es_shown_figure *figure, bool back);

/**
 * Draws the figure again if it is stale or the terminal has another size. If no
 * figure can show the runs, figure->problem contains the reason. Returns ES_OK
 * or ES_ENOMEM.
 */
es_status es_shown_figure_update(es_shown_figure *figure,
                                 const es_figure_source *source) ES_MUST_USE;

/**
 * Lays out the figure on a screen of the terminal's size: the names of the
 * figures, the visible rows of the drawing, and a row with `mode` and `keys`.
 * *out is owned by the caller. Returns ES_OK or ES_ENOMEM.
 */
es_status es_shown_figure_draw(es_screen **out, es_shown_figure *figure,
                               const es_figure_source *source, const char *mode,
                               const char *keys) ES_MUST_USE;

void es_shown_figure_close(es_shown_figure *figure);

#endif
