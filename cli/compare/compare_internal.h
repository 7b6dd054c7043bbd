/** Shared between the files of the comparison. */
#ifndef ES_COMPARE_INTERNAL_H
#define ES_COMPARE_INTERNAL_H

#include "cli/compare/compare.h"
#include "cli/runs/labels.h"

typedef struct es_evaluation {
    int64_t step; /* ES_UNKNOWN: none */
    float ppl;    /* missing: none */
} es_evaluation;

typedef struct es_onset {
    size_t n_episodes;
    bool stands;        /* one of them */
    int64_t any, error; /* of the first episode; of the first of severity error
                           or above; ES_UNKNOWN: none */
} es_onset;

/** Steps by which an onset came later; ES_UNKNOWN where either has none. */
typedef struct es_delay {
    int64_t any, error;
} es_delay;

/** One run of the comparison. */
typedef struct es_compared {
    const es_run_summary *summary;
    es_evaluation final, best; /* best: smallest finite, the first of equals */
    size_t n_evals, nonfinite_evals;
    es_onset onsets[ES_N_FLAG_KINDS];

    float *sorted; /* of entropy */
    es_distribution entropy;
    double ks, p, wasserstein; /* to the reference; NaN: one has no values */
    size_t configuration;
} es_compared;

/** Runs that differ in the seed and in incidental settings alone. */
typedef struct es_configuration {
    size_t first, n;        /* run; number of runs */
    es_summary final, best; /* perplexity; NaN of a run whose loss ended so;
                               best: of runs that ended finite */
    es_bands bands;         /* of all runs together */
} es_configuration;

struct es_comparison {
    int64_t step;      /* of the summaries */
    es_compared *runs; /* (n_runs) */
    size_t n_runs;
    bool has_baseline;
    size_t reference; /* run: the baseline, or 0 */

    es_difference *differences; /* (n_differences) in order */
    size_t n_differences;
    const es_run_setting **values; /* (n_runs,n_differences) NULL: absent */
    es_run_labels labels;          /* of the runs */
    es_run_labels configuration_labels; /* of the configurations */

    es_configuration *configurations; /* (n_configurations) */
    size_t n_configurations;
};

/** A number that may not be known; NaN, if it is not missing, is a value. */
typedef struct es_compare_number {
    double value;
    bool missing;
} es_compare_number;

/** A run or a configuration, compared with the baseline's. */
typedef struct es_relative {
    es_compare_number final, best;       /* per cent of perplexity */
    es_compare_number bands[ES_N_BANDS]; /* percentage points */
    es_compare_number balanced;
    es_delay later[ES_N_FLAG_KINDS];
} es_relative;

void es_compare_runs(es_relative *out, const es_compared *run,
                     const es_compared *baseline);

/** Without onsets. */
void es_compare_configurations(es_relative *out, const es_configuration *one,
                               const es_configuration *baseline);

/** The value of a difference in a run; NULL: absent. */
static inline const es_run_setting *
es_comparison_value(const es_comparison *comparison, size_t run,
                    size_t difference)
{
    return comparison->values[run * comparison->n_differences + difference];
}

#endif
