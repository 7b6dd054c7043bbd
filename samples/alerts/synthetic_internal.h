/** A synthetic history in the making. */
#ifndef ES_SAMPLES_SYNTHETIC_INTERNAL_H
#define ES_SAMPLES_SYNTHETIC_INTERNAL_H

#include "samples/alerts/synthetic.h"

#define ES_SYNTHETIC_LAYERS 13
#define ES_SYNTHETIC_HEADS 13
#define ES_SYNTHETIC_SAMPLES 300
#define ES_SYNTHETIC_VALUES (ES_SYNTHETIC_LAYERS * ES_SYNTHETIC_HEADS)

typedef struct es_making {
    uint64_t random;
    es_synthetic *history;
    size_t n_layers, n_heads, n_values, n;    /* n samples */
    double levels[ES_SYNTHETIC_VALUES];       /* where the heads settle */
    unsigned char kept[ES_SYNTHETIC_SAMPLES]; /* 1: not to become missing */
    float *x; /* (n,L,H) the history's entropy, as fractions of the ceiling */
} es_making;

/* Random numbers; each call goes one on. */
double es_making_unit(es_making *m); /* [0,1) */
double es_making_between(es_making *m, double a, double b);
double es_making_normal(es_making *m);
size_t es_making_below(es_making *m, size_t n);           /* 0..n-1 */
size_t es_making_count(es_making *m, size_t a, size_t b); /* a..b */

/** Healthy heads with a noise that lasts some samples: at the ceiling from the
 *  first sample on, at their levels after the share `down` of the samples. */
void es_making_fill(es_making *m, double down);

/** The heads of sample i and layer l. */
float *es_making_row(es_making *m, size_t i, size_t l);

/** Of layer l at least half of the heads, `marks` (H) of them. */
void es_making_choose_heads(es_making *m, unsigned char *marks);

/** Some layers, mostly the deepest ones. */
void es_making_choose_layers(es_making *m, unsigned char *marks);

/* What makes a history of its kind; it sets the truth too. */
typedef void es_making_shape(es_making *m);

es_making_shape es_make_steady, es_make_warm_up, es_make_dips, es_make_bursts,
    es_make_low_layer, es_make_low_dips, es_make_slow_fall, es_make_phases,
    es_make_waves, es_make_gaps, es_make_some_heads, es_make_in_turn,
    es_make_logits_mild;
es_making_shape es_make_sudden, es_make_decay, es_make_half, es_make_jitter,
    es_make_dead_low_layer, es_make_from_start, es_make_at_end,
    es_make_recovery, es_make_gaps_dead, es_make_turn_dead,
    es_make_dead_then_nan, es_make_all_dead;
es_making_shape es_make_nan_head, es_make_nan_burst, es_make_nan_loss,
    es_make_nan_rows, es_make_nan_activations, es_make_nan_logit,
    es_make_nan_end, es_make_nan_start, es_make_nan_gaps;
es_making_shape es_make_overload, es_make_overload_late, es_make_logits;

#endif
