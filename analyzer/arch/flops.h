/** What a model costs, by its shape: for figures of cost. */
#ifndef ES_FLOPS_H
#define ES_FLOPS_H

#include "analyzer/arch/arch.h"
#include <stdint.h>

/** The shape of a model. */
typedef struct es_cost_shape {
    es_arch arch;
    int64_t n_layer, n_head, d_model; /* >= 1 */
    int64_t mlp_mult; /* m: an FFN of two matrices is m d wide; the papers' 4 */
} es_cost_shape;

/** Floating-point operations of one forward pass over one sequence. */
typedef struct es_flops {
    double ffn, attention;
} es_flops;

/**
 * FLOPs of the layers over ctx = T tokens; embeddings and output excluded.
 *
 * Of each layer and token: an FFN 4 m d^2 (16 d^2 with m = 4), a fused one
 * 2 d^2, a removed one 0; attention 8 d^2 + 2 T d + d (T + 1). What an
 * activation, a norm or a softmax costs is not counted, so architectures that
 * differ in these alone cost the same.
 * NaN for both if a size is below 1. AERO, appendix E.
 */
es_flops es_flops_forward(const es_cost_shape *shape, int64_t ctx);

/**
 * Weights in the matrices of the layers: 4 d^2 of attention, and 2 m d^2, d^2
 * or 0 of the FFN. Embeddings, biases, norms and learnable scalars are not
 * among them: what the FLOPs above are spent on. NaN as above.
 */
double es_cost_weights(const es_cost_shape *shape);

/**
 * Numbers that go through a nonlinear function in one forward pass over one
 * sequence of T tokens: H T T scores of a layer into its attention weights,
 * 2 T d into its LayerNorms (T d where the FFN is removed), T m d into its
 * activation.
 * The LayerNorm after the last layer is not counted. A definition of ours:
 * each number counts as one, whatever is done to it. NaN as above.
 */
double es_cost_nonlinear(const es_cost_shape *shape, int64_t ctx);

#endif
