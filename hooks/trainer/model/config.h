/** What the trainer trains, and how. */
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
    ES_FAMILY_BERT, /* forward alone */
    ES_FAMILY_SAS,
    ES_FAMILY_ROBERTA,
    ES_FAMILY_VIT,
    ES_N_FAMILIES
} es_family;

/**
 * Rotary positions: pair c of r rotated dimensions turns by i f at position i,
 * f = base^(-2c/r). With a factor (Llama 3.1) the slow ones turn less: where a
 * turn takes more than original / low positions f becomes f / factor, where it
 * takes fewer than original / high it stays, and between the two it goes from
 * one to the other linearly in original / (positions of a turn).
 */
typedef struct es_rope {
    double base;                        /* 0: 10000 */
    double factor, low, high, original; /* 0: no scaling */
} es_rope;

/** Images of family vit, square, of channels (C,S,S), cut into square patches;
 *  a number of `levels` is 0 .. levels - 1. 0: no images. */
typedef struct es_image {
    int size, patch, channels, classes, levels;
} es_image;

#define ES_MAX_IMAGE 4096 /* pixels a side */

/** Which matrices have a bias: all of them; those of q and k; none; those of
 *  q, k and v. */
typedef enum es_bias {
    ES_BIAS_ALL,
    ES_BIAS_QK,
    ES_BIAS_NONE,
    ES_BIAS_QKV,
    ES_N_BIASES
} es_bias;

/** What families differ in where a model is built and run. */
typedef struct es_family_traits {
    const char *layer;  /* names in a layer begin so, then its number, "." */
    es_bias bias;       /* what a model of the family begins with */
    bool is_parallel;   /* attention and FFN both start from x, and are added */
    bool rotates;       /* q and k, by their position */
    bool is_separate;   /* q, k and v have a matrix each, (out,in) as all are,
                           and heads may share k and v */
    bool is_simplified; /* no values, output matrix and residual stream */
    bool is_post_norm;  /* norms come after what the sub-blocks add up */
    bool sees_all;      /* queries see the keys behind them, too */
    bool is_tied;       /* the output matrix is the embedding */
    bool has_head;      /* what the output matrix is given is made by a matrix,
                           GELU and the last norm */
    bool masks;         /* trained on tokens that are hidden */
    bool has_images;    /* in place of tokens, trained to name their class */
    bool is_of_transformers; /* arrays have its names and layout */
} es_family_traits;

extern const es_family_traits es_families[ES_N_FAMILIES];

/** "gpt2", ..., and "all", ...; then NULL. */
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

/** Inputs of what a polynomial stands for under encryption: ranges.h. */
typedef enum es_range_kind {
    ES_RANGE_ATTN, /* scores, of PowerSoftmax */
    ES_RANGE_ACT,  /* of the FFN's activation */
    ES_RANGE_NORM, /* of LayerNorm or RMSNorm */
    ES_N_RANGES
} es_range_kind;

/** The model alone (hooks/trainer/model/README.md). */
typedef struct es_model_config {
    es_arch arch;
    es_family family;
    int n_layer, n_head, d_model, ctx, vocab, batch;
    int mlp_mult;

    int padding; /* of encoders: token whose keys are hidden; -1: none */
    int mask;    /* of family roberta: token in the place of those that are to
                    be found; -1: one that the data do not have */

    /* Of family llama, d_ff of encoders, too; 0 elsewhere. */
    int n_kv_head; /* heads of keys and values; 0: n_head */
    int d_head;    /* width of a head; 0: d_model / n_head */
    int d_ff;      /* width of the FFN; 0: mlp_mult d_model */
    es_rope rope;  /* of the rotation */
    bool qk_norm;  /* RMSNorm of each head's queries and keys */
    bool tied;     /* the output matrix is the embedding */

    es_image image; /* of family vit; its levels are `vocab` */

    es_bias bias;
    es_final_norm final_norm;
    es_emulation emulate; /* precision of activations: emulate_fp16 of ops.h */
    double gamma, lambda;
    es_ereg_reduce ereg_reduce;
    double t_init, theta_init;
    double range_weight[ES_N_RANGES]; /* of range losses; 0: none */
    double ln_eps;                    /* LayerNorm's epsilon */
    double dropout; /* of the embedding and of both sub-blocks' outputs while
                       training: a share in [0,1) */
    uint64_t seed;
    bool forward_only; /* no gradients and moments, a quarter of the memory */
    es_series_set record; /* what measured passes measure */

    es_inference inference; /* POLYNOMIAL: passes can be by polynomials, */
    es_approximation_choice polynomial; /* chosen by this */
} es_model_config;

/** Heads of keys and values; the width of a head; of all heads' queries, and
 *  of their keys; of the FFN. Of a checked configuration. */
int es_model_config_kv_heads(const es_model_config *config);
int es_model_config_head_width(const es_model_config *config);
int es_model_config_query_width(const es_model_config *config);
int es_model_config_key_width(const es_model_config *config);
int es_model_config_ffn_width(const es_model_config *config);

/** Positions of weights before that of the first token: RoBERTa's begin behind
 *  that of padding. */
int es_model_config_n_skipped(const es_model_config *config);

/** Numbers that a sequence is given as: T tokens, or an image's pixels; and
 *  what a row of logits has: V, or classes. */
int es_model_config_n_inputs(const es_model_config *config);
int es_model_config_n_outputs(const es_model_config *config);

/** Patches of an image, and the class token; 0 where they do not fit. */
int es_model_config_n_patches(const es_image *image);

/** False for bert: what follows a token is among what it sees. */
bool es_model_config_has_loss(const es_model_config *config);

/** True if the sub-blocks begin with a norm, LN or RN. */
bool es_model_config_has_norm(const es_model_config *config);

/** True if layers have such inputs; if a range loss is among the losses. */
bool es_model_config_has_input(const es_model_config *config,
                               es_range_kind range);
bool es_model_config_is_ranged(const es_model_config *config);

/** The published settings, small sizes; arch is SM+LN+G. */
void es_model_config_default(es_model_config *out);

/** ES_OK, or ES_EUSAGE naming the option that does not fit (H must divide d,
 *  x <= L, gamma >= 0, sizes in range, ...). */
es_status es_model_config_check(const es_model_config *config) ES_MUST_USE;

/** How the rate goes on after the warm-up. */
typedef enum es_schedule_kind {
    ES_SCHEDULE_LINEAR,
    ES_SCHEDULE_COSINE,
    ES_SCHEDULE_CONSTANT
} es_schedule_kind;

/** Schedule and optimiser (hooks/trainer/model/README.md). */
typedef struct es_train_config {
    int64_t steps;
    int accumulate; /* micro-batches a step */
    double lr, beta1, beta2, eps, weight_decay;
    double clip;    /* largest global gradient norm; 0: no clipping */
    double warm_up; /* share of the steps */
    es_schedule_kind schedule;
    double lr_min; /* where the rate ends; not of ES_SCHEDULE_CONSTANT */
    bool slope_decay;
} es_train_config;

void es_train_config_default(es_train_config *out);

/** ES_OK, or ES_EUSAGE naming the option that is out of its range. */
es_status es_train_config_check(const es_train_config *config) ES_MUST_USE;

/**
 * Learning rate of step s (0-based). With w = round(warm_up * steps): step
 * s < w has lr (s + 1) / w, so that no step is lost on rate 0; step w has lr;
 * from there it falls linearly or as half a cosine wave, and would be lr_min
 * at s = steps; or it stays.
 */
double es_schedule(const es_train_config *config, int64_t step);

#endif
