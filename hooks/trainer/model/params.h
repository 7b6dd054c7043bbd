/**
 * The parameter table, which lists the names, shapes and positions in memory of
 * all arrays of a model. Checkpoints and reference cases store the arrays under
 * these names.
 */
#ifndef ES_PARAMS_H
#define ES_PARAMS_H

#include "hooks/trainer/model/config.h"

typedef enum es_role {
    ES_ROLE_WTE,
    ES_ROLE_WPE,
    ES_ROLE_CLASS, /* vit: the class token; the next two roles are the
                      projection of patches */
    ES_ROLE_PATCH_WEIGHT,
    ES_ROLE_PATCH_BIAS,
    ES_ROLE_TYPE, /* roberta: embedding of the first token type; it remains 0 */
    ES_ROLE_LN_E_WEIGHT, /* encoders: norm of the embedding */
    ES_ROLE_LN_E_BIAS,
    ES_ROLE_LN_1_WEIGHT,
    ES_ROLE_LN_1_BIAS,
    ES_ROLE_LN_2_WEIGHT,
    ES_ROLE_LN_2_BIAS,
    ES_ROLE_ATTN_WEIGHT,
    ES_ROLE_ATTN_BIAS,
    ES_ROLE_Q_WEIGHT, /* weight of q; exists instead of ATTN_WEIGHT if q, k and
                         v have separate matrices */
    ES_ROLE_Q_BIAS,
    ES_ROLE_K_WEIGHT,
    ES_ROLE_K_BIAS,
    ES_ROLE_V_WEIGHT,
    ES_ROLE_V_BIAS,
    ES_ROLE_Q_NORM,
    ES_ROLE_K_NORM,
    ES_ROLE_SHAPE, /* family sas: gains of the token's own value, of the
                      attention output and of the mean, (3,H) */
    ES_ROLE_PROJ_WEIGHT,
    ES_ROLE_PROJ_BIAS,
    ES_ROLE_GATE_WEIGHT,
    ES_ROLE_LOG_T, /* logarithms of the temperatures */
    ES_ROLE_T,     /* the temperatures themselves, with SM(t,direct) */
    ES_ROLE_THETA,
    ES_ROLE_FFN_GATE_WEIGHT, /* gate of SwiGLU */
    ES_ROLE_FFN_GATE_BIAS,
    ES_ROLE_FC_WEIGHT,
    ES_ROLE_FC_BIAS,
    ES_ROLE_MLP_PROJ_WEIGHT,
    ES_ROLE_MLP_PROJ_BIAS,
    ES_ROLE_FUSED_WEIGHT,
    ES_ROLE_ALPHA,
    ES_ROLE_BETA,
    ES_ROLE_SLOPE,
    ES_ROLE_ATTN_G,
    ES_ROLE_PROJ_G,
    ES_ROLE_FC_G,
    ES_ROLE_MLP_PROJ_G,
    ES_ROLE_FUSED_G,
    ES_ROLE_ATTN_U,
    ES_ROLE_ATTN_V,
    ES_ROLE_PROJ_U,
    ES_ROLE_PROJ_V,
    ES_ROLE_FC_U,
    ES_ROLE_FC_V,
    ES_ROLE_MLP_PROJ_U,
    ES_ROLE_MLP_PROJ_V,
    ES_ROLE_FUSED_U,
    ES_ROLE_FUSED_V,
    ES_ROLE_GLOBAL_SLOPE,
    /* roberta: the matrix between the last layer and LN_F */
    ES_ROLE_HEAD_WEIGHT,
    ES_ROLE_HEAD_BIAS,
    ES_ROLE_EMBED_OUT,
    ES_ROLE_LOGIT_BIAS,
    ES_ROLE_LN_F_WEIGHT,
    ES_ROLE_LN_F_BIAS,
    ES_N_ROLES
} es_role;

/** How the initial values of an array are drawn. */
typedef enum es_init {
    ES_INIT_ZERO,
    ES_INIT_ONE,
    ES_INIT_TEN,
    ES_INIT_ZERO_MATRIX,
    ES_INIT_STAYS_ZERO, /* zeros that training does not change */
    ES_INIT_NORMAL,     /* N(0, 0.02) */
    ES_INIT_LOG_T,      /* ln of --t-init */
    ES_INIT_T,          /* the constant --t-init */
    ES_INIT_THETA,      /* the constant --theta-init */
    ES_INIT_SLOPE,      /* the slope that the architecture's LR(...) gives */
    ES_INIT_NORMS,      /* WNorm's g: the column norms of V */
    ES_INIT_POWER /* SNorm's u and v: random unit vectors, followed by power
                     iterations */
} es_init;

/** Groups of arrays, in the order in which they are stored in the allocation.
 *  Because of the groups, the optimiser and the gradient norm process a few
 *  long ranges instead of many short ones. */
typedef enum es_param_group {
    ES_GROUP_DECAY,
    ES_GROUP_SLOPE, /* decays only with --slope-decay */
    ES_GROUP_PLAIN,
    ES_GROUP_STATE, /* state of SNorm, which is part of checkpoints but is not
                       trained */
    ES_N_GROUPS
} es_param_group;

#define ES_PARAM_NAME_MAX 96
#define ES_PARAM_MAX_DIMS 4

typedef struct es_param {
    char name[ES_PARAM_NAME_MAX];
    es_role role;
    int layer; /* -1 for arrays outside the layers */
    int n_dims;
    int dims[ES_PARAM_MAX_DIMS];
    size_t n;           /* number of floats */
    size_t n_trainable; /* number of leading elements that are trained; the
                           other elements keep their initial values */
    size_t offset;      /* position of the first float in the allocation */
    es_param_group group;
    es_init init;
} es_param;

typedef struct es_params {
    es_param *table; /* the n arrays, in the order of README.md */
    size_t n;
    size_t group[ES_N_GROUPS + 1]; /* offset of each group's first float; the
                                      last element is the total size */
    int (*at)[ES_N_ROLES]; /* index into `table` by layer and role; -1 if the
                              model lacks the array. Row L (the last of L + 1
                              rows) is for arrays outside the layers */
    int n_layer;
} es_params;

/**
 * Lists the parameter arrays of a model with the given configuration, which has
 * been checked. Every offset is a multiple of 16 floats, so that pointers into
 * the allocation keep its alignment; the padding between arrays, and the
 * gradient of elements that are not trained, stay 0.
 *
 * Returns ES_OK, or ES_ENOMEM, also when the sizes overflow. Free with
 * es_params_free, also after a failure.
 */
es_status es_params_list(es_params *out,
                         const es_model_config *config) ES_MUST_USE;
void es_params_free(es_params *params); /* {0} is allowed */

/** Returns the array of a role in a layer (-1: outside the layers), or NULL if
 *  it does not exist. */
const es_param *es_params_find(const es_params *params, int layer,
                               es_role role);

/** Returns true if the model has a norm after its last layer. */
bool es_model_config_final_norm(const es_model_config *config);

/**
 * Draws the initial values of one array into out (n floats). The array's name
 * selects the stream of random numbers, so architectures that share an array
 * start with the same values. With ES_INIT_NORMS and ES_INIT_POWER the final
 * values depend on other arrays and are computed by the model; this function
 * sets norms to 1 and vectors to unit length.
 */
void es_param_draw(float *out, const es_param *param,
                   const es_model_config *config, int n_threads);

/**
 * Computes four random words from a 128-bit counter and a 64-bit key with
 * Philox-4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
 * SC 2011). Number i of a random stream depends only on the key, the stream and
 * i, so any part of it can be drawn in any order, on any machine.
 */
void es_random_block(uint32_t out[4], const uint32_t counter[4],
                     const uint32_t key[2]);

/**
 * Draws normal numbers with mean 0 and standard deviation sigma: out[i] f32, i
 * < n, is number i of the stream. Uses the Box-Muller method in double and
 * rounds once. O(n), any thread; the result does not depend on n_threads.
 */
void es_random_normal(float *out, size_t n, double sigma, uint64_t seed,
                      uint64_t stream, int n_threads);

#endif
