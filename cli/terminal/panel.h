/** A panel, which shows one run on the terminal. */
#ifndef ES_PANEL_H
#define ES_PANEL_H

#include "cli/terminal/heat.h"
#include "cli/terminal/watched.h"

/** The properties that all panels of a drawing share. */
typedef struct es_panel_frame {
    es_heat_scale scale;
    es_depth depth;
    int width;       /* columns per panel */
    int high_enough; /* most rows at which each layer may have a row */
    int highest;     /* maximum of rows per panel */
} es_panel_frame;

/** The layout of a panel, relative to its upper left corner. */
typedef struct es_panel_plan {
    int heat_x, heat_y;
    es_heat_layout heat;
    bool stacked;      /* the layers' lines are below the heatmap, because it
                          is too wide to have them at its right */
    int lines_y;       /* first row of the layers' lines */
    int n_layer_lines; /* number of these lines */
    int layers_a_line; /* layers per line */
    int line_x, line_columns; /* position and width of lines over the steps */
    int below_y;              /* first row below heatmap and layers */
    bool shares;              /* places merge layers or heads */
    int height;
} es_panel_plan;

/** Returns the columns that a run's panel needs to show every head. */
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
