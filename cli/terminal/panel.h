/** Draws a panel, which shows one run on the terminal. */
#ifndef ES_PANEL_H
#define ES_PANEL_H

#include "cli/terminal/heat.h"
#include "cli/terminal/watched.h"

/** Properties that all panels on the screen share. */
typedef struct es_panel_frame {
    es_heat_scale scale;
    es_depth depth;
    int width; /* width of a panel in columns */
    /* Each layer gets a separate row of text only if the panel is then at most
     * this many rows high. */
    int high_enough;
    int highest; /* maximum height of a panel in rows */
} es_panel_frame;

/** The layout of a panel, relative to its upper left corner. */
typedef struct es_panel_plan {
    int heat_x, heat_y;
    es_heat_layout heat;
    bool stacked;      /* true if the layers' sparklines are below the heatmap,
                          because the heatmap leaves no space to its right */
    int lines_y;       /* first row of the layers' sparklines */
    int n_layer_lines; /* number of sparklines of layers */
    int layers_a_line; /* number of layers per sparkline */
    int line_x, line_columns; /* first column of the sparklines, and their width
                                 in columns */
    /* First row below the heatmap and the layers' sparklines. */
    int below_y;
    /* True if several layers or heads share a cell of the heatmap. */
    bool shares;
    int height;
} es_panel_plan;

/** Returns the width in columns that a run's panel needs to show every head. */
int es_panel_wanted(const es_watched *run);

/** Computes the layout of a run's panel. */
es_panel_plan es_panel_plan_of(const es_watched *run,
                               const es_panel_frame *frame);

/** Draws a run's panel with the upper left corner at (x, y). Returns ES_OK or
 *  ES_ENOMEM. */
es_status es_panel_draw(es_screen *screen, int x, int y, const es_watched *run,
                        const es_panel_frame *frame,
                        const char *title) ES_MUST_USE;

#endif
