/** Declares the types and functions that the source files of weights.h
 *  share. */
#ifndef ES_WEIGHTS_INTERNAL_H
#define ES_WEIGHTS_INTERNAL_H

#include "hooks/trainer/files/weights.h"

/** The layout of a tensor in the file, relative to the model's layout. */
typedef enum es_tensor_layout {
    ES_LAYOUT_SAME,
    ES_LAYOUT_TRANSPOSED, /* stored as (out,in) */
    ES_LAYOUT_BY_HEAD /* q, k and v of each head follow each other: (3d,d) or
                         (3d), where 3d = (H,3,d_k). The model stores (d,3d) or
                         (3d), with the q of all heads first, then k, then v */
} es_tensor_layout;

/** Returns the layout of one of the model's arrays in the file. */
es_tensor_layout es_weights_layout(const es_weights *weights, es_role role);

/**
 * Reads config.json from the folder of the weights, if it exists. The number of
 * heads, the activation and the longest context go to weights->config;
 * everything else in the file must match the shapes of the weights and what
 * this program computes.
 *
 * Returns ES_OK; ES_EIO; ES_EFORMAT; ES_EUSAGE if n_head (0: not given) differs
 * from the number in config.json, or if config.json is missing and the family
 * needs it.
 */
es_status es_weights_read_config(es_weights *weights, int n_head) ES_MUST_USE;

#endif
