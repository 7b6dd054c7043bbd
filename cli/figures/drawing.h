/** Shared between the pictures of runs. */
#ifndef ES_SCAN_INTERNAL_H
#define ES_SCAN_INTERNAL_H

#include "cli/scan.h"

/** The runs that one picture shows. */
typedef struct es_drawing {
    const es_scan_options *options;
    const es_run_summary **runs; /* (n) */
    size_t n;
    es_figure_style style;
    const char *note; /* "max = 3.87 (observed)" */
    const char *axis; /* "entropy (nats)" */
} es_drawing;

#define ES_CAPTION_MAX 64

/** "step 400", "step 400, eval". Returns out (ES_CAPTION_MAX bytes). */
char *es_drawing_step(char *out, const es_run_summary *run);

/** ES_OK, or ES_ENOTFOUND with the head series that the run has instead. */
es_status es_heatmap_fits(const es_run_summary *run) ES_MUST_USE;

es_status es_scan_heatmap(es_picture **out,
                          const es_drawing *drawing) ES_MUST_USE;

/** As es_scan_heatmap; a run that cannot be read any more fails it. */
es_status es_scan_curves(es_picture **out,
                         const es_drawing *drawing) ES_MUST_USE;

#endif
