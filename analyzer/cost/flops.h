/** Counts the operations and weights of a model from its shape. */
#ifndef ES_FLOPS_H
#define ES_FLOPS_H

#include "analyzer/arch/arch.h"
#include <stdint.h>

/** The shape of a model. */
typedef struct es_cost_shape {
    es_arch arch;
    int64_t n_layer, n_head, d_model; /* >= 1 */
    int64_t mlp_mult;  /* width of an FFN of two matrices as a multiple of d
                          (m); 4 in the papers */
    int64_t d_ff;      /* width of the FFN; 0: mlp_mult times d_model */
    int64_t n_kv_head; /* number of key and value heads; 0: use n_head */
    int64_t d_head;    /* width of a head; 0: use d / n_head */
    bool simplified;   /* attention of He and Hofmann's simplified block:
                          matrices only for queries and keys, not for values
                          and output */
} es_cost_shape;

/** Floating-point operations of one forward pass over one sequence. */
typedef struct es_flops {
    double ffn, attention;
} es_flops;

/** Returns true if every size is at least 1. */
bool es_cost_has_sizes(const es_cost_shape *shape);

/** Counts over all layers of a model. */
typedef struct es_layer_counts {
    double normed; /* number of layers with LayerNorm (LN) or RMSNorm (RN) */
    double norms;  /* number of LayerNorms or RMSNorms, one in each sub-block */
    double ffns;   /* number of layers with an FFN */
    double fused;  /* number of layers whose FFN is ScFuFFN */
    double gelus;  /* number of layers whose FFN has a GELU (G, GT, GS) */
    double relus;  /* number of layers whose FFN has a ReLU (R, LR) */
    double swiglus; /* number of layers whose FFN has SwiGLU */
} es_layer_counts;

/**
 * Counts the parts of all layers. The running time of this function does not
 * grow with the number of layers. All counts are 0 if there is no layer.
 */
es_layer_counts es_cost_count_layers(const es_cost_shape *shape);

/**
 * These functions return the hidden width of an FFN with two or three matrices,
 * the total width of the queries of all heads, and that of the keys. The sizes
 * must be valid.
 */
double es_cost_ffn_width(const es_cost_shape *shape);
double es_cost_query_width(const es_cost_shape *shape);
double es_cost_key_width(const es_cost_shape *shape);

/**
 * Returns the number of d x d weight matrices of one layer's attention: 4, or
 * 2 if simplified, and 1 more for a gate.
 */
double es_cost_n_projections(const es_cost_shape *shape);

/**
 * Returns the FLOPs of all layers over ctx = T tokens, without embeddings and
 * without the output layer. Here d is d_model, and m is mlp_mult.
 *
 * The FLOPs per layer and token are
 *
 *     FFN          4 * m * d^2 (16 * d^2 for m = 4); SwiGLU 6 * m * d^2;
 *                  fused 2 * d^2; removed 0
 *     attention    8 * d^2 + 2 * T * d + d * (T + 1)
 *     simplified   4 * d^2 + 2 * d * (T + 1)
 *     gate matrix  2 * d^2
 *
 * If the queries have the total width a and the keys the total width k, and
 * these differ from d, attention takes 4 * d * (a + k) + 2 * T * a +
 * a * (T + 1).
 *
 * Activations, norms and softmax are not counted, so architectures that differ
 * only in these have equal FLOPs. Simplified attention is counted as in AERO:
 * both products with the causal matrix skip its zeros, while in ordinary
 * attention only the second product does. Both results are NaN if a size is
 * below 1. Source: AERO, appendix E.
 */
es_flops es_flops_forward(const es_cost_shape *shape, int64_t ctx);

/**
 * Returns the number of weights in the matrices of the layers. Here d is
 * d_model, and m is mlp_mult. Attention has 4 * d^2 weights, simplified
 * attention has 2 * d^2, and a gate adds d^2; if queries and keys have the
 * total widths a and k, attention has 2 * d * (a + k). An FFN has 2 * m * d^2
 * weights, SwiGLU has 3 * m * d^2, a fused FFN has d^2, and a removed FFN has
 * none. Embeddings, biases, norms and learnable scalars are not counted;
 * es_flops_forward leaves out the same parts. Returns NaN if a size is below 1.
 */
double es_cost_weights(const es_cost_shape *shape);

#endif
