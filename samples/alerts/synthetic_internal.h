/** State that synthetic.c and synthetic_kinds.c share. */
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
    size_t n_layers, n_heads, n_values, n;    /* n: samples */
    double levels[ES_SYNTHETIC_VALUES];       /* final level of each head */
    unsigned char kept[ES_SYNTHETIC_SAMPLES]; /* 1 if the sample must not become
                                                 missing */
    float *x; /* (n,L,H) the history's entropy, as fractions of the ceiling */
} es_making;

enum es_synthetic_option {
    NO_CTX = 1,
    NO_PLAN = 2,
    MEANS = 4, /* the history contains the mean of each layer instead of
                  heads */
    ONE_HEAD = 8,
    COMPLETE = 16,  /* the run reached its planned number of steps, if it has
                       one */
    ANY_HEADS = 32, /* the model may have fewer than three layers or heads */
    /* The following labels state what the history contains, like the members of
     * es_truth. */
    NONFINITE = 64,
    COLLAPSE = 128,
    STANDS = 256,
    OVERLOAD = 512,
    LOGITS = 1024,
    DEAD = COLLAPSE | STANDS
};

typedef struct es_synthetic_row {
    const char *name;
    void (*shape)(es_making *m); /* turns a healthy history into a history of
                                    this kind; may be NULL */
    size_t least, most;          /* range of the number of samples */
    int options;
} es_synthetic_row;

extern const es_synthetic_row es_synthetic_kinds[ES_SYNTHETIC_N_KINDS];

/* Returns a random number from a to b; each call advances the generator. */
double es_making_between(es_making *m, double a, double b);
double es_making_normal(es_making *m);
size_t es_making_below(es_making *m, size_t n);           /* 0..n-1 */
size_t es_making_count(es_making *m, size_t a, size_t b); /* a..b */

/** Fills in healthy heads with correlated noise. The heads begin at the ceiling
 *  and reach their final levels after the share `down` of the samples. */
void es_making_fill(es_making *m, double down);

#endif
