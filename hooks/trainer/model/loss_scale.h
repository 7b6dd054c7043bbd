/**
 * Chooses the factor by which the loss is multiplied if activations are fp16,
 * so that small gradients do not vanish. The factor is doubled regularly and
 * halved when a gradient overflows.
 */
#ifndef ES_LOSS_SCALE_H
#define ES_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

/** All scales are powers of two, so that scaling changes no mantissa. */
#define ES_LOSS_SCALE_START 65536.0
#define ES_LOSS_SCALE_LEAST 1.0
#define ES_LOSS_SCALE_LARGEST 16777216.0 /* maximum scale: 2^24 */

/** Number of steps without overflow after which the scale is doubled. */
#define ES_LOSS_SCALE_PATIENCE 2000

typedef struct es_loss_scale {
    double scale;
    int64_t good_steps; /* number of steps without overflow since the last
                           change of the scale */
} es_loss_scale;

/** Returns the scale after a step: halved (not below the minimum) if the
 *  gradients were not finite; doubled (not above the maximum) after
 *  ES_LOSS_SCALE_PATIENCE steps without overflow. */
static inline es_loss_scale es_loss_scale_next(es_loss_scale now, bool finite)
{
    if (!finite)
        return (es_loss_scale){now.scale / 2 < ES_LOSS_SCALE_LEAST
                                   ? ES_LOSS_SCALE_LEAST
                                   : now.scale / 2,
                               0};
    if (++now.good_steps < ES_LOSS_SCALE_PATIENCE)
        return now;
    return (es_loss_scale){now.scale * 2 > ES_LOSS_SCALE_LARGEST
                               ? ES_LOSS_SCALE_LARGEST
                               : now.scale * 2,
                           0};
}

#endif
