/** Declares the types and functions that the source files of weights.h
 *  share. */
#ifndef ES_WEIGHTS_INTERNAL_H
#define ES_WEIGHTS_INTERNAL_H

#include "hooks/trainer/files/weights.h"
#include <jansson.h>

/** The layout of a tensor in the file, relative to the model's layout. */
typedef enum es_tensor_layout {
    ES_LAYOUT_SAME,
    ES_LAYOUT_TRANSPOSED, /* stored as (out,in) */
    ES_LAYOUT_BY_HEAD /* (3d,d) or (3d) with rows (H,3,d_k), in which q, k and v
                         of each head follow each other; the model has (d,3d) or
                         (3d), all of q first */
} es_tensor_layout;

/** Where the file stores one of the model's arrays; if `name` is NULL, the
 *  format has no such array. */
typedef struct tensor_place {
    const char *name; /* full name, or for arrays of a layer the part after the
                         layer's prefix */
    es_tensor_layout layout;
    bool bare; /* the name does not begin with `prefix` */
} tensor_place;

/** The format in which one library saves a model. */
struct es_weights_format {
    const char *maker;
    const char *prefix; /* optional prefix of all names */
    const char *layer;  /* text before the layer's number in names */
    es_family family;
    es_role key; /* role of an array that every file of this format has */
    es_activation activation;        /* activation if there is no config.json */
    tensor_place places[ES_N_ROLES]; /* where the file stores each role */
    const char *const *ignored;      /* tensors of layers that are not weights;
                                        NULL-terminated */
    /* tensors outside the layers that are not weights; NULL-terminated */
    const char *const *ignored_bare;
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

/** Reads an extent of a matrix and checks that it fits an int. Returns ES_OK or
 *  ES_EFORMAT. */
es_status es_weights_extent(int *out, const es_weights *weights, int layer,
                            es_role role, int dim) ES_MUST_USE;

/** The functions of weights_llama.c read the sizes that follow from the shapes
 *  alone, the sizes that need the number of heads, and config.json. */
es_status es_weights_llama_sizes(es_weights *weights) ES_MUST_USE;
es_status es_weights_llama_heads(es_weights *weights) ES_MUST_USE;
es_status es_weights_llama_config(es_weights *weights, const json_t *from,
                                  const char *path) ES_MUST_USE;

/** The functions of weights_bert.c read the sizes, read config.json, return
 *  true for tensors that are not read, and read the positions (T,d) in the
 *  model's layout. */
es_status es_weights_bert_sizes(es_weights *weights) ES_MUST_USE;
es_status es_weights_bert_config(es_weights *weights, const json_t *from,
                                 const char *path) ES_MUST_USE;
bool es_weights_bert_ignores(const es_weights *weights, const char *name);
es_status es_weights_bert_positions(float *out, const es_weights *weights,
                                    const es_param *param) ES_MUST_USE;

/** The functions of weights_vit.c read the sizes, read config.json, and return
 *  true for tensors that are not read. */
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
 * Returns ES_OK; ES_EIO; ES_EFORMAT; ES_EUSAGE if n_head (0: not given) differs
 * from the number in config.json, or if config.json is missing and the family
 * needs it.
 */
es_status es_weights_read_config(es_weights *weights, int n_head) ES_MUST_USE;

#endif
