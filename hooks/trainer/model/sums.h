/** Structs for sums over the passes of a step, which back-ends keep in their
 *  memory. */
#ifndef ES_SUMS_H
#define ES_SUMS_H

#include <stdint.h>

/** Sums over one layer's output in a step. */
typedef struct es_layer_sums {
    uint64_t nonfinite; /* number of activations that are not finite */
    double squares; /* sum of squares of all activations; NaN if one is NaN */
} es_layer_sums;

/** The largest |x| of an input in a layer. */
typedef struct es_peak {
    double sum;    /* sum of the largest |x| of each pass */
    float largest; /* largest |x| of all passes; NaN if an x was NaN */
    float size; /* largest |x| of the last pass, like the next fields; NaN if an
                   x is NaN */
    float sign; /* sign of that x: -1, 0, 1; NaN */
    uint64_t index; /* index of that x in (n), or in scores (B,H,T,T) */
} es_peak;

/** Details of one head over the passes of a step. Each es_detail_ops operation
 *  adds to some members and overwrites others. */
typedef struct es_head_details {
    double quantiles[3]; /* added: 5, 50, 95 % quantiles of each pass's row
                            entropies */
    double n_quantiles;  /* added: number of passes with finite rows */
    double squares[3];   /* added: sums of squares of q, k, v */
    double gradient[4];  /* written: sums of squares of the gradients of W_Q,
                            W_K, W_V, W_O */
    double spectrum[2]; /* written: largest sigma^2 of W_Q W_K^T; sum of squares
                           of all its singular values */
} es_head_details;

/** Details of one layer over the passes of a step. */
typedef struct es_layer_details {
    /* added: sums of powers 1 to 4 of the output's activations */
    double sums[4];
    double largest;  /* largest |activation| */
    double ffn[2];   /* added: sums of squares of the FFN's addition to the
                        residual stream, and of the stream before it */
    double gradient; /* written by the model: sum of squares of the gradients */
    double update[2]; /* added for each array: sums of squares of the change of
                         the weights, and of the weights before it */
    /* written by the model: SNorm's sigma and WNorm's g of q, k, v, o and the
     * FFN's matrices */
    double sigma[6], g[6];
} es_layer_details;

#endif
