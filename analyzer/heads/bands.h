/**
 * Computes the exact maximum of a head's entropy, and counts heads in bands:
 * the four quarters of the range from 0 to a maximum.
 */
#ifndef ES_BANDS_H
#define ES_BANDS_H

#include "analyzer/base/status.h"
#include <stddef.h>

/**
 * Returns ln(T!)/T, the largest mean entropy of a causal head; NaN for T < 1.
 */
double es_ceiling(int n_queries);

typedef enum es_max_policy {
    ES_MAX_OBSERVED, /* largest finite entropy over all displayed runs */
    ES_MAX_RUN,      /* largest finite entropy of each run */
    ES_MAX_CEILING,  /* ceiling of each run: ln(T!)/T, or the ceiling that
                        the run recorded */
    ES_MAX_LOGT,     /* ln T of each run */
    ES_MAX_NUMBER    /* a number given by the user */
} es_max_policy;

typedef struct es_max {
    es_max_policy policy;
    double number; /* the number for ES_MAX_NUMBER: finite, > 0 */
} es_max;

/** Parses observed|run|ceiling|logT|NUMBER. Returns ES_OK or ES_EUSAGE. */
es_status es_max_parse(es_max *out, const char *text) ES_MUST_USE;

/** Returns "observed", "run", "ceiling", "logT" or "number". */
const char *es_max_name(es_max_policy policy);

/**
 * Returns the maximum m that a policy gives for one run.
 *
 *   observed  largest finite entropy of all runs; NaN if no entropy is finite
 *   run       largest finite entropy of this run; NaN if no entropy is finite
 *   ceiling   ceiling of this run; NaN if unknown
 *   ctx       T of this run; < 1 if unknown
 *
 * Returns NaN if the value that the policy needs is unknown.
 */
double es_max_value(const es_max *max, double observed, double run,
                    double ceiling, int ctx);

/** Returns the largest finite value of x (n); NaN if no value is finite. */
double es_largest_finite(const float *x, size_t n);

#define ES_N_BANDS 4

/**
 * Numbers of heads in the four bands [0,m/4) [m/4,m/2) [m/2,3m/4) [3m/4,m]
 * below a maximum m. Finite values outside [0,m] are counted in the nearest
 * band.
 */
typedef struct es_bands {
    size_t counts[ES_N_BANDS];
    size_t nonfinite; /* NaN and infinite values, which are in no band */
    size_t missing;   /* missing values, which are neither in a band nor in
                         n_heads */
    size_t n_heads;   /* counts + nonfinite */
} es_bands;

/**
 * Counts the heads of each band.
 *
 *   out      receives the counts
 *   entropy  (n) nats
 *   m        upper edge of the last band; if m is NaN or <= 0, as when all
 *            entropies are 0, every finite head is in the first band
 */
void es_bands_count(es_bands *out, const float *entropy, size_t n, double m);

/**
 * Returns the number of heads in a band divided by n_heads; NaN if n_heads is
 * 0.
 */
double es_bands_fraction(const es_bands *bands, int band);

/**
 * Returns the number of heads in the middle two bands divided by n_heads; NaN
 * if n_heads is 0.
 */
double es_bands_balanced(const es_bands *bands);

#endif
