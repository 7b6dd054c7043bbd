/** One run on the terminal. */
#ifndef ES_PANEL_H
#define ES_PANEL_H

#include "cli/runs/summary.h"
#include "cli/runs/trace.h"
#include "cli/terminal/heat.h"

/** A line over the steps that belongs to the whole run. */
typedef struct es_tui_line {
    const char *name;      /* "loss" */
    const es_trace *trace; /* one line; NULL: the run has no such series */
    float value;           /* the newest at or before the step shown */
} es_tui_line;

#define ES_TUI_N_LINES 2

/** One run. Everything is borrowed. */
typedef struct es_tui_run {
    const es_run_summary *shown;  /* values at the step shown, whose m is final;
                                     NULL: there is nothing to show yet */
    const es_run_summary *judged; /* whose flags are shown */
    const es_trace *layers; /* (n_rows) lines: means of the layers, NaN where a
                               head is not finite; NULL: none were read */
    es_tui_line lines[ES_TUI_N_LINES];
    const char *name;    /* of a run without a summary; may be NULL */
    const char *problem; /* why there is nothing, or no more; may be NULL */
} es_tui_run;

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
int es_panel_wanted(const es_tui_run *run);

es_panel_plan es_panel_plan_of(const es_tui_run *run,
                               const es_panel_frame *frame);

/** Draws the run with its upper left corner at (x, y). ES_OK or ES_ENOMEM. */
es_status es_panel_draw(es_screen *screen, int x, int y, const es_tui_run *run,
                        const es_panel_frame *frame,
                        const char *title) ES_MUST_USE;

/** The lines over the steps, with their axis. ES_OK or ES_ENOMEM. */
es_status es_panel_draw_lines(es_screen *screen, int x, int y,
                              const es_tui_run *run,
                              const es_panel_frame *frame,
                              const es_panel_plan *plan) ES_MUST_USE;

/** Number of the run's own lines that there is something of. */
int es_panel_n_lines(const es_tui_run *run);

#endif
