/** Between the files of weights.h. */
#ifndef ES_WEIGHTS_INTERNAL_H
#define ES_WEIGHTS_INTERNAL_H

#include "hooks/trainer/files/weights.h"

/** How a tensor lies in the file, beside how the model has it. */
typedef enum es_tensor_layout {
    ES_LAYOUT_SAME,
    ES_LAYOUT_TRANSPOSED, /* (out,in) */
    ES_LAYOUT_BY_HEAD     /* (3d,d) or (3d), rows (H,3,d_k): q, k, v of one
                             head after the other; the model has (d,3d) or
                             (3d), all of q first */
} es_tensor_layout;

/** The layout of one of our arrays in the file. */
es_tensor_layout es_weights_layout(const es_weights *weights, es_role role);

/**
 * Reads config.json beside the file, if there is one: heads, activation and
 * longest context go into weights->config; everything else it says has to be
 * what the weights' shapes say and what this program computes.
 *
 * ES_OK; ES_EIO, ES_EFORMAT; ES_EUSAGE if n_head (0: none) is not its own.
 */
es_status es_weights_read_config(es_weights *weights, int n_head) ES_MUST_USE;

#endif
