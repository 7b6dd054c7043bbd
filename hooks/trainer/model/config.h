/** The configuration of a model and its training. */
#ifndef ES_CONFIG_H
#define ES_CONFIG_H

#include "analyzer/arch/arch.h"
#include "analyzer/heads/heads.h"
#include "analyzer/polynomial/approximation.h"
#include <stdint.h>

typedef enum es_family {
    ES_FAMILY_GPT2,
    ES_FAMILY_PYTHIA,
    ES_FAMILY_LLAMA,
    ES_FAMILY_BERT, /* models of this family can be evaluated (verb probe), but
                       not trained */
    ES_FAMILY_SAS,
    ES_FAMILY_ROBERTA,
    ES_FAMILY_VIT,
    ES_N_FAMILIES
} es_family;

/**
 * Rotary position embedding. With r rotated dimensions, pair c of them is
 * rotated by the angle i * f at position i, where f = base^(-2c/r). With
 * scaling (Llama 3.1) the pairs of low frequency rotate less. If a full turn
 * takes more than original / low positions, f becomes f / factor; if it takes
 * fewer than original / high, f is unchanged; in between, f is interpolated
 * linearly in original / (positions per turn).
 */
typedef struct es_rope {
    double base; /* 0: the default, 10000 */
    /* the frequencies are not scaled if factor is 0 */
    double factor, low, high, original;
} es_rope;

/** Geometry of the square images of family vit. An image (C,S,S) has C channels
 *  and is cut into square patches; pixel values are 0 .. levels - 1. A size of
 *  0 means that the model reads no images. */
typedef struct es_image {
    int size, patch, channels, classes, levels;
} es_image;

#define ES_MAX_IMAGE 4096 /* maximum side of an image in pixels */

/** Selects the matrices that have a bias: all matrices, only those of q and k,
 *  none, or only those of q, k and v. */
typedef enum es_bias {
    ES_BIAS_ALL,
    ES_BIAS_QK,
    ES_BIAS_NONE,
    ES_BIAS_QKV,
    ES_N_BIASES
} es_bias;

/** Properties in which the families differ. */
typedef struct es_family_traits {
    const char *layer;  /* prefix of the names of a layer's arrays; the layer's
                           number and "." follow */
    es_bias bias;       /* default value of --bias */
    bool is_parallel;   /* attention and FFN both read x, and both outputs are
                           added to x */
    bool rotates;       /* q and k are rotated by their position */
    bool is_separate;   /* q, k and v have separate matrices, all matrices are
                           (out,in), and heads may share k and v */
    bool is_simplified; /* blocks have no value matrix, output matrix or
                           residual stream */
    bool is_post_norm;  /* norms are applied to the sum of a sub-block and the
                           residual */
    bool sees_all;      /* a query also sees later keys */
    bool is_tied;       /* the output matrix is the embedding */
    bool has_head; /* the output matrix is preceded by a further matrix, a GELU
                      and the last norm */
    bool masks;    /* the model is trained to predict masked tokens */
    bool has_images; /* the model reads images instead of tokens and is trained
                        to predict their class */
    bool is_of_transformers; /* arrays have the names and layout of Hugging Face
                                transformers */
} es_family_traits;

extern const es_family_traits es_families[ES_N_FAMILIES];

/** Values of --family ("gpt2", ...) and --bias ("all", ...) as NULL-terminated
 *  lists. */
extern const char *const es_family_names[ES_N_FAMILIES + 1];
extern const char *const es_bias_names[ES_N_BIASES + 1];

typedef enum es_final_norm {
    ES_FINAL_AUTO,
    ES_FINAL_ON,
    ES_FINAL_OFF
} es_final_norm;
typedef enum es_emulation { ES_EMULATE_NONE, ES_EMULATE_FP16 } es_emulation;
typedef enum es_inference {
    ES_INFERENCE_EXACT,
    ES_INFERENCE_POLYNOMIAL
} es_inference;
typedef enum es_ereg_reduce { ES_EREG_TOKEN, ES_EREG_MEAN } es_ereg_reduce;

/** Kinds of inputs of the operations that polynomials replace under encryption
 *  (see ranges.h). */
typedef enum es_range_kind {
    ES_RANGE_ATTN, /* scores of PowerSoftmax */
    ES_RANGE_ACT,  /* inputs of the FFN's activation */
    ES_RANGE_NORM, /* inputs of LayerNorm or RMSNorm */
    ES_N_RANGES
} es_range_kind;

/** Layers first to last, counted from 0, both included. */
typedef struct es_layer_range {
    int first, last;
} es_layer_range;

/** A set of layers: all layers that are in at least one of the ranges, which
 *  may overlap. */
typedef struct es_layer_set {
    es_layer_range ranges[ES_ARCH_SPANS_MAX]; /* (n) */
    int n;
} es_layer_set;

/** Architecture and sizes of a model (see hooks/trainer/model/README.md). */
typedef struct es_model_config {
    es_arch arch;
    es_family family;
    int n_layer, n_head, d_model, ctx, vocab, batch;
    int mlp_mult;

    int padding; /* encoders: the padding token, whose keys are not seen; -1:
                    there is no padding */
    int mask; /* family roberta: the token that replaces masked tokens; -1: an
                 additional token that the data do not contain */

    /* The next members are 0 except in family llama; encoders also set d_ff. */
    int n_kv_head; /* number of key and value heads; 0: n_head */
    int d_head;    /* width of a head; 0: d_model / n_head */
    int d_ff;      /* width of the FFN; 0 means mlp_mult * d_model */
    es_rope rope;  /* rotary position embedding */
    bool qk_norm;  /* apply RMSNorm to each head's queries and keys */
    bool tied;     /* the output matrix is the embedding */

    es_image image; /* images of family vit; the number of levels of a pixel is
                       `vocab` */

    es_bias bias;
    es_final_norm final_norm;
    /* rounding of activations, see emulate_fp16 of ops.h */
    es_emulation emulate;
    double gamma, lambda;
    es_ereg_reduce ereg_reduce;
    double t_init, theta_init;
    double range_weight[ES_N_RANGES]; /* weights of the range losses; 0: the
                                         loss is not added */
    double ln_eps;                    /* LayerNorm's epsilon */
    double dropout; /* probability of dropping outputs of the embedding and of
                       both sub-blocks in training, in [0,1) */
    uint64_t seed;
    bool forward_only; /* do not allocate gradients and moments, only the values
                          of the parameters */
    es_series_set record; /* series that measured passes compute */

    /* ES_INFERENCE_POLYNOMIAL: passes can use polynomials */
    es_inference inference;
    /* options that determine the choice of polynomials */
    es_approximation_choice polynomial;
} es_model_config;

/** Return sizes that follow from a checked configuration: kv_heads the number
 *  of key and value heads, head_width the width of a head, query_width and
 *  key_width the total width of all heads' queries and keys, ffn_width the
 *  width of the FFN. */
int es_model_config_kv_heads(const es_model_config *config);
int es_model_config_head_width(const es_model_config *config);
int es_model_config_query_width(const es_model_config *config);
int es_model_config_key_width(const es_model_config *config);
int es_model_config_ffn_width(const es_model_config *config);

/** Returns the number of rows of the position embedding before the row of the
 *  first token. RoBERTa's positions begin after the padding position. */
int es_model_config_n_skipped(const es_model_config *config);

/** n_inputs returns the number of inputs of a sequence, which is T tokens or
 *  the pixels of an image. n_outputs returns the length of a row of logits,
 *  which is V or the number of classes. */
int es_model_config_n_inputs(const es_model_config *config);
int es_model_config_n_outputs(const es_model_config *config);

/** Returns the number of patches of an image plus 1 for the class token, or 0
 *  if patches of this size do not divide the image. */
int es_model_config_n_patches(const es_image *image);

/** Returns false for family bert, which has no loss: its tokens see the tokens
 *  that they would have to predict. */
bool es_model_config_has_loss(const es_model_config *config);

/** Returns true if some layer has norms, LN or RN. */
bool es_model_config_has_norm(const es_model_config *config);

/** has_input returns true if layers have inputs of the given kind; is_ranged
 *  returns true if the loss includes a range loss of any kind. */
bool es_model_config_has_input(const es_model_config *config,
                               es_range_kind range);
bool es_model_config_is_ranged(const es_model_config *config);

/** Sets the default configuration: the settings of the papers at a small size,
 *  with architecture SM+LN+G. */
void es_model_config_default(es_model_config *out);

/** Checks a configuration. Returns ES_OK, or ES_EUSAGE with a message that
 *  names the option that is out of range or does not fit another option. */
es_status es_model_config_check(const es_model_config *config) ES_MUST_USE;

/** How the learning rate changes after the warm-up. */
typedef enum es_schedule_kind {
    ES_SCHEDULE_LINEAR,
    ES_SCHEDULE_COSINE,
    ES_SCHEDULE_CONSTANT
} es_schedule_kind;

/** Settings of the learning-rate schedule and the optimiser
 *  (hooks/trainer/model/README.md). */
typedef struct es_train_config {
    int64_t steps;
    int accumulate; /* number of micro-batches per step */
    double lr, beta1, beta2, eps, weight_decay;
    double clip;    /* maximum global norm of the gradient; 0: no clipping */
    double warm_up; /* warm-up as a fraction of the steps */
    es_schedule_kind schedule;
    double lr_min; /* final learning rate; not used by ES_SCHEDULE_CONSTANT */
    bool slope_decay;
} es_train_config;

void es_train_config_default(es_train_config *out);

/** Returns ES_OK, or ES_EUSAGE with a message that names the option that is out
 *  of range. */
es_status es_train_config_check(const es_train_config *config) ES_MUST_USE;

/**
 * Returns the learning rate of step s (0-based). With w = round(warm_up *
 * steps), step s < w has the learning rate lr * (s + 1) / w, so that no step is
 * wasted on a learning rate of 0; step w has lr. From there the learning rate
 * stays constant, or falls linearly or as half a cosine wave, so that it would
 * reach lr_min in step s = steps.
 */
double es_schedule(const es_train_config *config, int64_t step);

#endif
