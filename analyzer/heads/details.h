/**
 * Lists the details: series of heads and layers that are not means or extremes
 * of row statistics, such as quantiles of rows, norms, activations, gradients,
 * updates and spectra. This is the only list of their names, units and sets;
 * hooks/trainer/model/details.h defines how each is computed.
 */
#ifndef ES_DETAILS_H
#define ES_DETAILS_H

#include "analyzer/heads/heads.h"

/**
 * The computation that produces a detail; this also determines how often the
 * detail is recorded.
 */
typedef enum es_detail_source {
    ES_DETAIL_FORWARD, /* computed in any forward pass */
    ES_DETAIL_RANGE,   /* computed in any forward pass; always recorded for
                          models with range losses */
    ES_DETAIL_INPUTS,  /* computed in any forward pass; in training not recorded
                          at every step */
    ES_DETAIL_WEIGHTS, /* computed from the weights at the time of a pass; not
                          recorded at every step */
    ES_DETAIL_STEP,    /* computed from the gradients of a training step */
    ES_DETAIL_UPDATE,  /* computed from the update of a training step; not
                          recorded at every step */
    ES_DETAIL_POLYNOMIAL /* computed by an evaluation that uses polynomial
                            approximations; included in every set of recorded
                            series */
} es_detail_source;

/**
 * The details in the order in which they are recorded, the details of heads
 * first.
 *
 * X(identifier, name, unit, source, the smallest set that includes the detail,
 * true if colour scales begin at 0, title for display)
 */
#define ES_HEAD_DETAILS(X)                                                     \
    X(ENTROPY_P05, "entropy_p05", "nats", FORWARD, STANDARD, true,             \
      "5 % quantile of entropy")                                               \
    X(ENTROPY_P50, "entropy_p50", "nats", FORWARD, STANDARD, true,             \
      "median entropy")                                                        \
    X(ENTROPY_P95, "entropy_p95", "nats", FORWARD, STANDARD, true,             \
      "95 % quantile of entropy")                                              \
    X(Q_RMS, "q_rms", "", INPUTS, STANDARD, true, "norm of queries")           \
    X(K_RMS, "k_rms", "", INPUTS, STANDARD, true, "norm of keys")              \
    X(V_RMS, "v_rms", "", INPUTS, STANDARD, true, "norm of values")            \
    X(HEAD_GRAD_NORM, "head_grad_norm", "", STEP, ALL, true, "gradient norm")  \
    X(QK_SIGMA, "qk_sigma", "", WEIGHTS, ALL, true,                            \
      "largest singular value of QK")                                          \
    X(QK_STABLE_RANK, "qk_stable_rank", "", WEIGHTS, ALL, true,                \
      "stable rank of QK")

#define ES_LAYER_DETAILS(X)                                                    \
    X(ACT_MAX, "act_max", "", FORWARD, STANDARD, true, "largest activation")   \
    X(ACT_KURTOSIS, "act_kurtosis", "", FORWARD, STANDARD, true,               \
      "kurtosis of activations")                                               \
    X(FFN_RATIO, "ffn_ratio", "", FORWARD, STANDARD, true,                     \
      "FFN over residual")                                                     \
    X(RANGE_ATTN, "range_attn", "", RANGE, STANDARD, true,                     \
      "largest |input| of PowerSoftmax")                                       \
    X(RANGE_ACT, "range_act", "", RANGE, STANDARD, true,                       \
      "largest |input| of the activation")                                     \
    X(RANGE_NORM, "range_norm", "", RANGE, STANDARD, true,                     \
      "largest |input| of the norms")                                          \
    X(CLIPPED_ATTN, "clipped_attn", "rows", POLYNOMIAL, CORE, true,            \
      "denominators outside their interval")                                   \
    X(CLIPPED_ACT, "clipped_act", "activations", POLYNOMIAL, CORE, true,       \
      "activation inputs outside their interval")                              \
    X(CLIPPED_NORM, "clipped_norm", "rows", POLYNOMIAL, CORE, true,            \
      "variances outside their interval")                                      \
    X(APPROX_ERROR_ATTN, "approx_error_attn", "", POLYNOMIAL, CORE, true,      \
      "largest error of polynomial weights")                                   \
    X(APPROX_ERROR_ACT, "approx_error_act", "", POLYNOMIAL, CORE, true,        \
      "largest error of polynomial activations")                               \
    X(APPROX_ERROR_NORM, "approx_error_norm", "", POLYNOMIAL, CORE, true,      \
      "largest error of polynomial norms")                                     \
    X(LAYER_GRAD_NORM, "layer_grad_norm", "", STEP, ALL, true,                 \
      "gradient norm of the layer")                                            \
    X(UPDATE_RATIO, "update_ratio", "", UPDATE, ALL, true, "update ratio")     \
    X(SIGMA_Q, "sigma_q", "", WEIGHTS, STANDARD, true, "SNorm's sigma of Q")   \
    X(SIGMA_K, "sigma_k", "", WEIGHTS, STANDARD, true, "SNorm's sigma of K")   \
    X(SIGMA_V, "sigma_v", "", WEIGHTS, STANDARD, true, "SNorm's sigma of V")   \
    X(SIGMA_O, "sigma_o", "", WEIGHTS, STANDARD, true, "SNorm's sigma of O")   \
    X(SIGMA_FC, "sigma_fc", "", WEIGHTS, STANDARD, true,                       \
      "SNorm's sigma of the FFN's first matrix")                               \
    X(SIGMA_PROJ, "sigma_proj", "", WEIGHTS, STANDARD, true,                   \
      "SNorm's sigma of the FFN's second matrix")                              \
    X(G_Q, "g_q", "", WEIGHTS, STANDARD, true, "WNorm's g of Q")               \
    X(G_K, "g_k", "", WEIGHTS, STANDARD, true, "WNorm's g of K")               \
    X(G_V, "g_v", "", WEIGHTS, STANDARD, true, "WNorm's g of V")               \
    X(G_O, "g_o", "", WEIGHTS, STANDARD, true, "WNorm's g of O")               \
    X(G_FC, "g_fc", "", WEIGHTS, STANDARD, true,                               \
      "WNorm's g of the FFN's first matrix")                                   \
    X(G_PROJ, "g_proj", "", WEIGHTS, STANDARD, true,                           \
      "WNorm's g of the FFN's second matrix")

typedef enum es_detail {
#define ES_DETAIL_ENUMERATOR(id, name, unit, source, set, amount, title)       \
    ES_DETAIL_##id,
    ES_HEAD_DETAILS(ES_DETAIL_ENUMERATOR) ES_LAYER_DETAILS(ES_DETAIL_ENUMERATOR)
#undef ES_DETAIL_ENUMERATOR
        ES_N_DETAILS,
    ES_N_HEAD_DETAILS = ES_DETAIL_ACT_MAX
} es_detail;

/** A row of the table es_details. */
typedef struct es_detail_line {
    const char *name, *unit, *title;
    bool is_amount; /* true if 0 means absence, so colour scales begin at 0 */
    es_detail_source source;
    es_series_set set;
} es_detail_line;

extern const es_detail_line es_details[ES_N_DETAILS];

/** Returns the detail (a series of heads or layers) called `name`; NULL if no
 *  detail has this name. */
const es_detail_line *es_detail_find(const char *name);

/** Returns true if the detail has one value per head (L,H), false if it has one
 *  value per layer (L). */
static inline bool es_detail_is_of_heads(es_detail detail)
{
    return detail < ES_N_HEAD_DETAILS;
}

#endif
