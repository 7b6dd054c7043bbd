/** Between the files of weights.h. */
#ifndef ES_WEIGHTS_INTERNAL_H
#define ES_WEIGHTS_INTERNAL_H

#include "hooks/trainer/files/weights.h"
#include <jansson.h>

/** How a tensor lies in the file, beside how the model has it. */
typedef enum es_tensor_layout {
    ES_LAYOUT_SAME,
    ES_LAYOUT_TRANSPOSED, /* (out,in) */
    ES_LAYOUT_BY_HEAD     /* (3d,d) or (3d), rows (H,3,d_k): q, k, v of one
                             head after the other; the model has (d,3d) or
                             (3d), all of q first */
} es_tensor_layout;

/** The tensor of one of our arrays, or NULL. */
const es_tensor *es_weights_tensor(const es_weights *weights, int layer,
                                   es_role role);

/** An extent of a matrix, which any int can hold. ES_OK; ES_EFORMAT. */
es_status es_weights_extent(int *out, const es_weights *weights, int layer,
                            es_role role, int dim) ES_MUST_USE;

/** weights_llama.c: sizes that the shapes say alone; those that need the number
 *  of heads; what config.json says, in place of what other makers' has. */
es_status es_weights_llama_sizes(es_weights *weights) ES_MUST_USE;
es_status es_weights_llama_heads(es_weights *weights) ES_MUST_USE;
es_status es_weights_llama_config(es_weights *weights, const json_t *from,
                                  const char *path) ES_MUST_USE;

/** weights_bert.c: sizes, and config.json, likewise; true for tensors that are
 *  not read; the positions (T,d) as the model has them. */
es_status es_weights_bert_sizes(es_weights *weights) ES_MUST_USE;
es_status es_weights_bert_config(es_weights *weights, const json_t *from,
                                 const char *path) ES_MUST_USE;
bool es_weights_bert_ignores(const es_weights *weights, const char *name);
es_status es_weights_bert_positions(float *out, const es_weights *weights,
                                    const es_param *param) ES_MUST_USE;

/** The layout of one of our arrays in the file. */
es_tensor_layout es_weights_layout(const es_weights *weights, es_role role);

/**
 * Reads config.json beside the file, if there is one: heads, activation and
 * longest context go into weights->config; everything else it says has to be
 * what the weights' shapes say and what this program computes.
 *
 * ES_OK; ES_EIO, ES_EFORMAT; ES_EUSAGE if n_head (0: none) is not its own, or
 * if the family needs the file and there is none.
 */
es_status es_weights_read_config(es_weights *weights, int n_head) ES_MUST_USE;

#endif
