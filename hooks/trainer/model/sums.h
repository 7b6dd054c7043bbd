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

/** The largest |x| of one input of a layer. */
typedef struct es_peak {
    double sum; /* sum of the largest |x| of each pass */
    /* largest |x| of all passes; NaN if an x was NaN in any pass */
    float largest;
    float size;     /* largest |x| of the last pass; NaN if an x was NaN */
    float sign;     /* sign of this x: -1, 0 or 1; NaN if x is NaN */
    uint64_t index; /* index of this x in x (n), or of the score in (B,H,T,T) */
} es_peak;

/** Details of one head over the passes of a step. es_detail_ops adds to the
 *  members marked "added" and overwrites the members marked "written". */
typedef struct es_head_details {
    double quantiles[3]; /* added: 5, 50, 95 % quantiles of each pass's row
                            entropies */
    double n_quantiles;  /* added: number of passes with finite rows */
    double squares[3];   /* added: sums of squares of q, k, v */
    double gradient[4];  /* written: sums of squares of the gradients of W_Q,
                            W_K, W_V, W_O */
    double spectrum[2];  /* written: square of the largest singular value of W_Q
                            W_K^T; sum of squares of all its singular values */
} es_head_details;

/** Details of one layer over the passes of a step; "added" and "written" mean
 *  the same as in es_head_details. */
typedef struct es_layer_details {
    /* added: sums of powers 1 to 4 of the output's activations */
    double sums[4];
    double largest;  /* largest |activation| */
    double ffn[2];   /* added: sum of squares of the FFN's contribution to the
                        residual stream, and of the residual stream before it */
    double gradient; /* written by the model: sum of squares of the gradients */
    double update[2]; /* added for each array: sum of squares of the change of
                         the weights, and of the weights before the change */
    /* written by the model: SNorm's sigma and WNorm's g of q, k, v, o and the
     * FFN's matrices */
    double sigma[6], g[6];
} es_layer_details;

#endif
