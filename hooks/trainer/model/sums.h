/** What back-ends add up over the passes of a step, in their own memory. */
#ifndef ES_SUMS_H
#define ES_SUMS_H

#include <stdint.h>

/** Of one layer's output over a step, in memory of the back-end. */
typedef struct es_layer_sums {
    uint64_t nonfinite; /* activations */
    double squares;     /* of all activations; NaN if one is */
} es_layer_sums;

/** The largest |x| of an operand of a layer, in memory of the back-end. */
typedef struct es_peak {
    double sum;     /* added: of each pass */
    float largest;  /* of all passes; NaN: one was */
    float size;     /* of the last pass, and what follows: |x|, NaN if one is */
    float sign;     /* -1, 0, 1; NaN */
    uint64_t index; /* of x (n); of scores (B,H,T,T) */
} es_peak;

/** Of one head over the passes of a step, in memory of the back-end; what of
 *  it is added to and what is written: es_detail_ops. */
typedef struct es_head_details {
    double quantiles[3]; /* added: of a pass's row entropies: 5, 50, 95 % */
    double n_quantiles;  /* added: passes that had finite rows */
    double squares[3];   /* added: of all numbers of q, k, v */
    double gradient[4];  /* written: squares, by W_Q, W_K, W_V, W_O */
    double spectrum[2];  /* written: sigma^2 of W_Q W_K^T, and of all of its
                            singular values */
} es_head_details;

/** Likewise of one layer. */
typedef struct es_layer_details {
    double sums[4];  /* added: of the output's activations, powers 1 to 4 */
    double largest;  /* |activation| */
    double ffn[2];   /* added: squares of what the FFN adds to the residual, and
                        of what it is added to */
    double gradient; /* written by the model: squares */
    double update[2]; /* added by array: squares of the change of the weights,
                         and of the weights before it */
    double sigma[6], g[6]; /* written by the model: of q, k, v, o and the FFN */
} es_layer_details;

#endif
