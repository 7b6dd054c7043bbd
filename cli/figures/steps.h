/** A series as rows over columns of time: what a raster shows. */
#ifndef ES_STEPS_H
#define ES_STEPS_H

#include "cli/figures/drawing.h"

/** The memory is the drawing's. */
typedef struct es_steps {
    size_t n_layers, n_heads; /* n_heads 0: the series has a value a layer */
    size_t n_rows;            /* the layers, then all heads, layer by layer */
    size_t n_columns;         /* at most ES_STEPS_MOST */
    float *values;            /* (n_rows,n_columns) */
    float *levels;            /* (n_rows) mean over the run; NaN: no value */
    double left, right;       /* steps at the outer edges of the columns */
    double first, last;       /* steps of the first and the last sample */
} es_steps;

#define ES_STEPS_MOST 2048

/**
 * Reads a head or layer series over all its steps.
 *
 * A column for every interval of the usual length, or for several where there
 * are too many: it then shows of each row what es_raster_wins chooses. A
 * sample holds until the next one, unless that is much later than those before
 * and after: then steps are missing, and their columns too. The row of a layer
 * is the mean of its heads, and not finite if one of them is not.
 *
 * Reads the series twice; memory is bounded by ES_STEPS_MOST columns, fewer
 * of many heads. ES_OK; ES_ENOTFOUND, ES_EIO, ES_EFORMAT, ES_ENOMEM.
 */
es_status es_steps_read(es_steps *out, es_drawing *drawing,
                        const es_run_summary *run) ES_MUST_USE;

#endif
