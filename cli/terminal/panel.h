/** One run on the terminal. */
#ifndef ES_PANEL_H
#define ES_PANEL_H

#include "cli/terminal/heat.h"
#include "cli/terminal/watched.h"

/** What the panels of a drawing have in common. */
typedef struct es_panel_frame {
    es_heat_scale scale;
    es_depth depth;
    int width;       /* columns of a panel */
    int high_enough; /* rows up to which a layer may have a row of its own */
    int highest;     /* rows that a panel may take */
} es_panel_frame;

/** What is where in a panel, from its upper left corner. */
typedef struct es_panel_plan {
    int heat_x, heat_y;
    es_heat_layout heat;
    bool stacked;      /* lines of the layers are below the heatmap, which
                          is too wide for them beside it */
    int lines_y;       /* of the layers' lines, of which there are */
    int n_layer_lines; /* with layers_a_line each */
    int layers_a_line;
    int line_x, line_columns; /* of all lines over the steps */
    int below_y;              /* what is below heatmap and layers */
    bool shares;              /* layers or heads share places */
    int height;
} es_panel_plan;

/** Columns that a run's panel should have to show every head. */
int es_panel_wanted(const es_watched *run);

es_panel_plan es_panel_plan_of(const es_watched *run,
                               const es_panel_frame *frame);

/** Draws the run with its upper left corner at (x, y). ES_OK or ES_ENOMEM. */
es_status es_panel_draw(es_screen *screen, int x, int y, const es_watched *run,
                        const es_panel_frame *frame,
                        const char *title) ES_MUST_USE;

#endif
