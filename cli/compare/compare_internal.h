/** Shared between the files of the comparison. */
#ifndef ES_COMPARE_INTERNAL_H
#define ES_COMPARE_INTERNAL_H

#include "analyzer/statistics/inference.h"
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
    double ks, wasserstein; /* to the reference; NaN: one has no values */
    double p, p_holm;       /* of ks, by exchanging layers; Holm's for all runs;
                               NaN: of the reference, too */
    size_t configuration;
    float
        outcome; /* final perplexity; NaN: the loss ended so; may be missing */
} es_compared;

/** A configuration compared with the baseline's. */
typedef struct es_evidence {
    es_means_test ppl;                /* final perplexities, of seeds */
    double welch_holm, permuted_holm; /* Holm's for all configurations */
    double ks, p, p_holm; /* of entropies: layers exchange between all seeds */
} es_evidence;

/** Runs that differ in the seed and in incidental settings alone. */
typedef struct es_configuration {
    size_t first, n;        /* run; number of runs */
    es_summary final, best; /* perplexity; NaN of a run whose loss ended so;
                               best: of runs that ended finite */
    es_summary loss;        /* the last of training; NaN of one that ended so */
    es_bands bands;         /* of all runs together */
    es_mean mean;           /* of the finite ones of `final` */
    es_evidence evidence;   /* NaN without a baseline, and of its own */
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

/** Fills in what is tested, of runs and configurations that are there. ES_OK or
 *  ES_ENOMEM. */
es_status es_comparison_test(es_comparison *comparison) ES_MUST_USE;

/** The table of configurations against the baseline's; nothing without one or
 *  without seeds. ES_OK or ES_ENOMEM. */
es_status
es_comparison_print_evidence(const es_comparison *comparison, FILE *stream,
                             const es_table_options *options) ES_MUST_USE;

/** The lines that say what p and intervals are, and why some are not there. */
void es_comparison_note_evidence(const es_comparison *comparison, FILE *stream);

/** Configurations are compared, and some have several runs. */
static inline bool es_comparison_has_evidence(const es_comparison *comparison)
{
    return comparison->has_baseline && comparison->n_configurations > 1 &&
           comparison->n_configurations < comparison->n_runs;
}

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

/**
 * Numbers of the configurations, best first: by held-out perplexity, or by the
 * loss where no run was evaluated; then those of which some run is not finite,
 * those without a number, and those with none that is finite.
 *
 *   order  (n_configurations)
 *
 * ES_OK or ES_ENOMEM.
 */
es_status es_comparison_rank(size_t *order, const es_comparison *comparison,
                             bool evaluated) ES_MUST_USE;

#endif
