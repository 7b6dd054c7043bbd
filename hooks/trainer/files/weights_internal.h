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

/** The tensor of one of our arrays; name NULL: such a model has none. */
typedef struct tensor_place {
    const char *name; /* in a layer: what follows the layer's prefix */
    es_tensor_layout layout;
    bool bare; /* stands outside what `prefix` names */
} tensor_place;

/** One maker's way to save a model. */
struct es_weights_format {
    const char *maker;
    const char *prefix; /* that all names may have */
    const char *layer;  /* what stands before a layer's number */
    es_family family;
    es_role key;                     /* of an array that every such file has */
    es_activation activation;        /* where no config.json says it */
    tensor_place places[ES_N_ROLES]; /* of our arrays */
    const char *const *ignored;      /* no weights; of layers; ends NULL */
    const char *const *ignored_bare; /* outside the layers; ends NULL */
};

#define NAMED(what)                                                            \
    {                                                                          \
        .name = what                                                           \
    }

extern const struct es_weights_format es_weights_vit; /* weights_vit.c */

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

/** weights_vit.c: likewise. */
es_status es_weights_vit_sizes(es_weights *weights) ES_MUST_USE;
es_status es_weights_vit_config(es_weights *weights, const json_t *from,
                                const char *path) ES_MUST_USE;
bool es_weights_vit_ignores(const es_weights *weights, const char *name);

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
