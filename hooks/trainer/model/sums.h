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
    double sum; /* sum over the passes of each pass's largest |x| */
    /* largest |x| of all passes; NaN if an x was NaN in any pass */
    float largest;
    float size;     /* largest |x| of the last pass; NaN if an x was NaN */
    float sign;     /* sign of the element with the largest |x|: -1, 0 or 1; NaN
                       if it is NaN */
    uint64_t index; /* index of the element with the largest |x| in x (n) or,
                       for scores, in (B,H,T,T) */
} es_peak;

/** Details of one head over the passes of a step. es_detail_ops adds to some of
 *  the members, and overwrites others. */
typedef struct es_head_details {
    double quantiles[3]; /* 5, 50 and 95 % quantiles of the row entropies,
                            summed over the passes by es_detail_ops */
    double n_quantiles;  /* number of passes in which the head has a finite row
                            entropy, counted by es_detail_ops */
    double squares[3];   /* sums of squares of q, k, v over all passes, added up
                            by es_detail_ops */
    double gradient[4];  /* sums of squares of the gradients of W_Q, W_K, W_V,
                            W_O; overwritten by es_detail_ops */
    double spectrum[2];  /* square of the largest singular value of W_Q * W_K^T,
                            and sum of squares of all its singular values;
                            overwritten by es_detail_ops */
} es_head_details;

/** Details of one layer over the passes of a step. es_detail_ops adds to some
 *  of the members, and overwrites others. */
typedef struct es_layer_details {
    /* sums of powers 1 to 4 of the activations in the layer's output, over all
     * passes; added up by es_detail_ops */
    double sums[4];
    double largest;  /* largest |activation| */
    double ffn[2];   /* sum of squares of the FFN's contribution to the residual
                        stream, and of the residual stream before it; both added
                        up over all passes by es_detail_ops */
    double gradient; /* sum of squares of the gradients, written by the model */
    double update[2]; /* sum of squares of the change of the weights, and of the
                         weights before the change; added up over the arrays */
    /* SNorm's sigma and WNorm's g of q, k, v, o and the FFN's matrices, written
     * by the model */
    double sigma[6], g[6];
} es_layer_details;

#endif
