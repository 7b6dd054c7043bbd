/** Shared between the figures of runs. */
#ifndef ES_DRAWING_H
#define ES_DRAWING_H

#include "cli/figures/figures.h"

/** The runs that one figure shows. */
typedef struct es_drawing {
    const es_figure_options *options;
    const es_run_summary **runs; /* (n) n >= 1 */
    size_t n;
    const char *baseline; /* es_figure_job's */
    es_figure_style style;
    char note[512]; /* "max = 3.87 (observed)" */
    char axis[256]; /* "entropy (nats)": of the summaries' values */
} es_drawing;

#define ES_CAPTION_MAX 64

/** "step 400", "step 400, eval". Returns out (ES_CAPTION_MAX bytes). */
char *es_drawing_step(char *out, const es_run_summary *run);

/** ES_OK if the figure can show the run; else ES_ENOTFOUND, and the message
 *  says what it needs and what the run has. */
typedef es_status es_figure_fits(const es_run_summary *run);

/** Draws the runs, all of which fit. A run that cannot be read any more fails
 *  it; ES_ENOTFOUND if they do not make a figure together. */
typedef es_status es_figure_draw(es_picture **out, const es_drawing *drawing);

/** A line of the table of figures (cli/figures/figures.c); the command's
 *  details (cli/scan/scan_options.c) say of each what it shows. */
typedef struct es_figure_entry {
    const char *name;
    es_figure_fits *fits; /* NULL: every run does */
    es_figure_draw *draw;
} es_figure_entry;

const es_figure_entry *es_figure_entry_of(es_figure_kind kind);

es_figure_fits es_fits_heatmap;
es_figure_draw es_draw_heatmap, es_draw_curves, es_draw_delta;
es_figure_fits es_fits_bands, es_fits_flops, es_fits_pareto;
es_figure_draw es_draw_bands, es_draw_flops, es_draw_pareto;

/** ES_OK if the summary's series has a value of each head; else ES_ENOTFOUND,
 *  and the message names `figure` ("a heatmap") and the series that do. */
es_status es_fits_heads(const es_run_summary *run,
                        const char *figure) ES_MUST_USE;
es_figure_fits es_fits_thresholds, es_fits_raster;
es_figure_draw es_draw_thresholds, es_draw_raster, es_draw_timeline;

es_figure_fits es_fits_nans, es_fits_scales, es_fits_slopes, es_fits_loss;
es_figure_draw es_draw_nans, es_draw_scales, es_draw_slopes, es_draw_loss;

#endif
