/**
 * What the loss is multiplied with where activations are fp16, so that small
 * gradients do not vanish: as large as the largest gradient permits.
 */
#ifndef ES_LOSS_SCALE_H
#define ES_LOSS_SCALE_H

#include <stdbool.h>
#include <stdint.h>

/** Powers of two: scaling changes no mantissa. */
#define ES_LOSS_SCALE_START 65536.0
#define ES_LOSS_SCALE_LEAST 1.0
#define ES_LOSS_SCALE_LARGEST 16777216.0 /* 2^24 */

/** Good steps after which twice the scale is tried. */
#define ES_LOSS_SCALE_PATIENCE 2000

typedef struct es_loss_scale {
    double scale;
    int64_t good_steps; /* since it changed last */
} es_loss_scale;

/** After a step: half, down to the least, if the gradients were not finite;
 *  twice, up to the largest, after so many good steps. */
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
