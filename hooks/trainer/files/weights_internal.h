/** Shared by the source files behind weights.h. */
#ifndef ES_WEIGHTS_INTERNAL_H
#define ES_WEIGHTS_INTERNAL_H

#include "hooks/trainer/files/weights.h"
#include <jansson.h>

/** The layout of a tensor in the file, relative to the model's. */
typedef enum es_tensor_layout {
    ES_LAYOUT_SAME,
    ES_LAYOUT_TRANSPOSED, /* stored as (out,in) */
    ES_LAYOUT_BY_HEAD     /* (3d,d) or (3d), rows (H,3,d_k): q, k, v of one head
                             after the other; the model has (d,3d) or (3d), all
                             of q first */
} es_tensor_layout;

/** The tensor for one of the model's arrays; name NULL: the format has none. */
typedef struct tensor_place {
    const char *name; /* in a layer: the part after the layer's prefix */
    es_tensor_layout layout;
    bool bare; /* the name does not begin with `prefix` */
} tensor_place;

/** The way in which one library saves a model. */
struct es_weights_format {
    const char *maker;
    const char *prefix; /* optional prefix of all names */
    const char *layer;  /* precedes a layer's number */
    es_family family;
    es_role key;                     /* role of an array that every such file
                                        has */
    es_activation activation;        /* used if there is no config.json */
    tensor_place places[ES_N_ROLES]; /* indexed by role */
    const char *const *ignored;      /* tensors of layers that are not weights;
                                        NULL-terminated */
    const char *const *ignored_bare; /* likewise outside the layers */
};

#define NAMED(what)                                                            \
    {                                                                          \
        .name = what                                                           \
    }

extern const struct es_weights_format es_weights_vit; /* defined in
                                                         weights_vit.c */

/** Returns the tensor of one of the model's arrays, or NULL. */
const es_tensor *es_weights_tensor(const es_weights *weights, int layer,
                                   es_role role);

/** Reads an extent of a matrix and checks that it fits an int. ES_OK;
 *  ES_EFORMAT. */
es_status es_weights_extent(int *out, const es_weights *weights, int layer,
                            es_role role, int dim) ES_MUST_USE;

/** weights_llama.c: read the sizes that follow from the shapes alone, then
 *  those that need the number of heads; read config.json in place of the
 *  general function. */
es_status es_weights_llama_sizes(es_weights *weights) ES_MUST_USE;
es_status es_weights_llama_heads(es_weights *weights) ES_MUST_USE;
es_status es_weights_llama_config(es_weights *weights, const json_t *from,
                                  const char *path) ES_MUST_USE;

/** weights_bert.c: likewise sizes and config.json; returns true for tensors
 *  that are not read; reads the positions (T,d) in the model's form. */
es_status es_weights_bert_sizes(es_weights *weights) ES_MUST_USE;
es_status es_weights_bert_config(es_weights *weights, const json_t *from,
                                 const char *path) ES_MUST_USE;
bool es_weights_bert_ignores(const es_weights *weights, const char *name);
es_status es_weights_bert_positions(float *out, const es_weights *weights,
                                    const es_param *param) ES_MUST_USE;

/** weights_vit.c: likewise sizes, config.json, and the tensors that are not
 *  read. */
es_status es_weights_vit_sizes(es_weights *weights) ES_MUST_USE;
es_status es_weights_vit_config(es_weights *weights, const json_t *from,
                                const char *path) ES_MUST_USE;
bool es_weights_vit_ignores(const es_weights *weights, const char *name);

/** Returns the layout of one of the model's arrays in the file. */
es_tensor_layout es_weights_layout(const es_weights *weights, es_role role);

/**
 * Reads config.json from the folder of the weights, if it exists. The number of
 * heads, the activation and the longest context go to weights->config;
 * everything else in the file must match the shapes of the weights and what
 * this program computes.
 *
 * ES_OK; ES_EIO, ES_EFORMAT; ES_EUSAGE if n_head (0: none) differs from the
 * file's, or if the family needs the file and it is missing.
 */
es_status es_weights_read_config(es_weights *weights, int n_head) ES_MUST_USE;

#endif
