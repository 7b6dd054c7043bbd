/** Between the files of weights.h. */
#ifndef ES_WEIGHTS_INTERNAL_H
#define ES_WEIGHTS_INTERNAL_H

#include "hooks/trainer/files/safetensors.h"
#include "hooks/trainer/files/weights.h"
#include "hooks/trainer/model/params.h"

/** How a tensor lies in the file, beside how the model has it. */
typedef enum es_tensor_layout {
    ES_LAYOUT_SAME,
    ES_LAYOUT_TRANSPOSED, /* (out,in) */
    ES_LAYOUT_BY_HEAD     /* (3d,d) or (3d), rows (H,3,d_k): q, k, v of one
                             head after the other; the model has (d,3d) or
                             (3d), all of q first */
} es_tensor_layout;

/** The tensor of one of our arrays; name NULL: such a model has none. */
typedef struct es_tensor_place {
    const char *name; /* in a layer: what follows the layer's prefix */
    es_tensor_layout layout;
    bool bare; /* stands outside what `prefix` names */
} es_tensor_place;

/** One maker's way to save a model. */
typedef struct es_weights_format {
    const char *maker;
    const char *prefix; /* that all names may have */
    const char *layer;  /* what stands before a layer's number */
    es_family family;
    es_activation activation;           /* where no config.json says it */
    es_tensor_place places[ES_N_ROLES]; /* of our arrays */
    const char *const *ignored;         /* no weights; of layers; ends NULL */
    const char *const *ignored_bare;    /* outside the layers; ends NULL */
} es_weights_format;

extern const es_weights_format es_weights_gpt2, es_weights_neox;

#define ES_TENSOR_NAME_MAX 128

struct es_weights {
    char *path;
    es_safetensors *file;
    const es_weights_format *format; /* NULL: a checkpoint of our own */
    const char *prefix;              /* the one in use, or "" */
    es_model_config config;
    int64_t step;
    es_params params;          /* arrays of config */
    const es_tensor **tensors; /* (params.n): where they are in the file */
};

/** Writes the name in the file of one of our arrays; false if that format has
 *  none of the role. */
bool es_weights_name(char out[ES_TENSOR_NAME_MAX], const es_weights *weights,
                     int layer, es_role role);

/**
 * What follows a layer's prefix in a tensor's name, or NULL.
 *
 *   layer  written: its number, 0..1023
 */
const char *es_weights_in_layer(int *layer, const es_weights *weights,
                                const char *name);

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
