/** Sums over the passes of a step that back-ends keep in their own memory. */
#ifndef ES_SUMS_H
#define ES_SUMS_H

#include <stdint.h>

/** Sums over one layer's output in a step, in memory of the back-end. */
typedef struct es_layer_sums {
    uint64_t nonfinite; /* number of activations that are not finite */
    double squares; /* sum of squares of all activations; NaN if one is NaN */
} es_layer_sums;

/** The largest |x| of an operand of a layer, in memory of the back-end. */
typedef struct es_peak {
    double sum;     /* sum of the largest of each pass */
    float largest;  /* largest of all passes; NaN if one was NaN */
    float size;     /* of the last pass, as the next fields: |x|, NaN if one is
                       NaN */
    float sign;     /* sign of x: -1, 0, 1; NaN */
    uint64_t index; /* index of x in (n), or in scores (B,H,T,T) */
} es_peak;

/** Details of one head over the passes of a step, in memory of the back-end.
 *  es_detail_ops add to some members and overwrite others. */
typedef struct es_head_details {
    double quantiles[3]; /* added: 5, 50, 95 % quantiles of each pass's row
                            entropies */
    double n_quantiles;  /* added: number of passes with finite rows */
    double squares[3];   /* added: sums of squares of q, k, v */
    double gradient[4];  /* written: sums of squares for W_Q, W_K, W_V, W_O */
    double spectrum[2];  /* written: sigma^2 of W_Q W_K^T; sum of squares of all
                            its  singular values */
} es_head_details;

/** Likewise for one layer. */
typedef struct es_layer_details {
    double sums[4];   /* added: powers 1 to 4 of the output's activations */
    double largest;   /* largest |activation| */
    double ffn[2];    /* added: squares of what the FFN adds to the residual
                         stream, and of the stream before */
    double gradient;  /* written by the model: sum of squares */
    double update[2]; /* added for each array: squares of the change of the
                         weights, and of the weights before it */
    double sigma[6], g[6]; /* written by the model: for q, k, v, o and the
                              FFN */
} es_layer_details;

#endif
