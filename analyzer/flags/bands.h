/** The exact maximum of a head's entropy, and the four bands below it. */
#ifndef ES_BANDS_H
#define ES_BANDS_H

#include "analyzer/base/status.h"
#include <stddef.h>

/** ln(T!)/T, the largest mean a causal head can have; NaN for T < 1. */
double es_ceiling(int n_queries);

typedef enum es_max_policy {
    ES_MAX_OBSERVED, /* largest finite entropy of all runs shown */
    ES_MAX_RUN,      /* largest finite entropy of each run by itself */
    ES_MAX_CEILING,  /* of each run: ln(T!)/T, or its own */
    ES_MAX_LOGT,     /* ln T of each run */
    ES_MAX_NUMBER    /* given */
} es_max_policy;

typedef struct es_max {
    es_max_policy policy;
    double number; /* of ES_MAX_NUMBER: finite, > 0 */
} es_max;

/** Reads observed|run|ceiling|logT|NUMBER. ES_OK or ES_EUSAGE. */
es_status es_max_parse(es_max *out, const char *text) ES_MUST_USE;

/** "observed", "run", "ceiling", "logT" or "number". */
const char *es_max_name(es_max_policy policy);

/**
 * The m of one run under a policy.
 *
 *   observed   largest finite entropy over all runs; NaN if there is none
 *   run        largest finite entropy of this run; NaN if there is none
 *   ceiling    of this run; NaN if unknown
 *   ctx        T of this run; < 1 if unknown
 *
 * NaN if the policy has nothing to go by.
 */
double es_max_value(const es_max *max, double observed, double run,
                    double ceiling, int ctx);

/** Largest finite value of x (n); NaN if there is none. */
double es_largest_finite(const float *x, size_t n);

#define ES_N_BANDS 4

/**
 * Heads per band [0,m/4) [m/4,m/2) [m/2,3m/4) [3m/4,m]: lower edge closed.
 * Finite values outside [0,m] belong to the nearest band.
 */
typedef struct es_bands {
    size_t counts[ES_N_BANDS];
    size_t nonfinite; /* NaN and infinities: a class of their own */
    size_t missing;   /* in none of the classes, nor in n_heads */
    size_t n_heads;   /* counts + nonfinite */
} es_bands;

/**
 *   out      written
 *   entropy  (n) nats
 *   m        upper edge; if it is NaN or <= 0 every finite head is in the
 *            first band (all entropies are 0 then)
 */
void es_bands_count(es_bands *out, const float *entropy, size_t n, double m);

/** Share of n_heads in band b; NaN if n_heads is 0. */
double es_bands_fraction(const es_bands *bands, int band);

/** Share in the middle two bands; NaN if n_heads is 0. */
double es_bands_balanced(const es_bands *bands);

#endif
