/** The shape of a model, and what it takes in operations and weights. */
#ifndef ES_FLOPS_H
#define ES_FLOPS_H

#include "analyzer/arch/arch.h"
#include <stdint.h>

/** The shape of a model. */
typedef struct es_cost_shape {
    es_arch arch;
    int64_t n_layer, n_head, d_model; /* >= 1 */
    int64_t mlp_mult; /* m: an FFN of two matrices is m d wide; the papers' 4 */
    int64_t d_ff;     /* width of the FFN; 0: m d */
    int64_t n_kv_head; /* heads of keys and values; 0: n_head */
    int64_t d_head;    /* width of a head; 0: d / n_head */
    bool simplified;   /* attention of He and Hofmann's block: queries and keys
                          alone, no matrices of values and of the output */
} es_cost_shape;

/** Floating-point operations of one forward pass over one sequence. */
typedef struct es_flops {
    double ffn, attention;
} es_flops;

/** True if every size is at least 1. */
bool es_cost_has_sizes(const es_cost_shape *shape);

/** Layers that have an FFN. */
double es_cost_n_ffns(const es_cost_shape *shape);

/** Layers whose FFN has a GELU (G, GT, GS), a ReLU (R, LR) or SwiGLU: the
 *  others have no activation. */
double es_cost_n_gelus(const es_cost_shape *shape);
double es_cost_n_relus(const es_cost_shape *shape);
double es_cost_n_swiglus(const es_cost_shape *shape);

/** Width of an FFN of two matrices or three, of all heads' queries together,
 *  and of their keys; sizes have been checked. */
double es_cost_ffn_width(const es_cost_shape *shape);
double es_cost_query_width(const es_cost_shape *shape);
double es_cost_key_width(const es_cost_shape *shape);

/** Weight matrices d x d of one layer's attention: 4, or 2 if simplified; the
 *  gate's is one more. */
double es_cost_n_projections(const es_cost_shape *shape);

/**
 * FLOPs of the layers over ctx = T tokens; embeddings and output excluded.
 *
 * Of each layer and token: an FFN 4 m d^2 (16 d^2 with m = 4), SwiGLU's three
 * matrices 6 m d^2, a fused one 2 d^2, a removed one 0; attention 8 d^2 + 2 T d
 * + d (T + 1), a gate's matrix 2 d^2. With widths of their own, a of queries
 * and k of keys, attention is 4 d (a + k) + 2 T a + a (T + 1). What an
 * activation, a norm or a softmax costs is not counted, so architectures that
 * differ in these alone cost the same. Simplified attention is counted as AERO
 * counts it, 4 d^2 + 2 d (T + 1): there both products with the causal matrix
 * leave out its zeros, above only the second does.
 * NaN for both if a size is below 1. AERO, appendix E.
 */
es_flops es_flops_forward(const es_cost_shape *shape, int64_t ctx);

/**
 * Weights in the matrices of the layers: 4 d^2 of attention (2 d^2 if
 * simplified, d^2 more with a gate; 2 d (a + k) with widths of their own), and
 * 2 m d^2, 3 m d^2 of SwiGLU, d^2 or 0 of the FFN.
 * Embeddings, biases, norms and learnable scalars are not among them: what the
 * FLOPs above are spent on. NaN as above.
 */
double es_cost_weights(const es_cost_shape *shape);

#endif
