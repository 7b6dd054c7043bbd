/** Internal declarations shared by the files of cli/compare. */
#ifndef ES_COMPARE_INTERNAL_H
#define ES_COMPARE_INTERNAL_H

#include "analyzer/statistics/inference.h"
#include "cli/compare/compare.h"
#include "cli/runs/labels.h"

typedef struct es_evaluation {
    int64_t step; /* step of the evaluation; ES_UNKNOWN without evaluations */
    float ppl;    /* perplexity; es_missing() without evaluations */
} es_evaluation;

typedef struct es_onset {
    size_t n_episodes;
    bool stands;        /* true if an episode is still active at the last
                           step */
    int64_t any, error; /* steps of the first episode's onset, and of the first
                           onset of an episode of severity error or above;
                           ES_UNKNOWN without such an episode */
} es_onset;

/**
 * Number of steps by which the onset of a flag is later than in the baseline;
 * ES_UNKNOWN if either run lacks the flag.
 */
typedef struct es_delay {
    int64_t any, error;
} es_delay;

/** A run of the comparison and its results. */
typedef struct es_compared {
    const es_run_summary *summary;
    es_evaluation final, best; /* the last evaluation, and the evaluation with
                                  the smallest finite perplexity (the first of
                                  several) */
    size_t n_evals, nonfinite_evals;
    es_onset onsets[ES_N_FLAG_KINDS];

    float *sorted; /* values of all n_rows * n_columns heads in ascending order;
                      `entropy` summarises them */
    es_distribution entropy;
    double ks, wasserstein; /* Kolmogorov-Smirnov and Wasserstein distances to
                               the reference run; NaN if either run has no
                               finite values */
    double p, p_holm;       /* p-value of `ks` in a permutation test that
                               exchanges layers, and this p-value adjusted for
                               the number of runs by Holm's method; NaN for the
                               reference run */
    size_t configuration;
    float outcome; /* final perplexity; NaN if the final loss is not finite;
                      es_missing() without evaluations */
} es_compared;

/**
 * Test results of a configuration compared with the configuration of the
 * baseline.
 */
typedef struct es_evidence {
    es_means_test ppl;                /* tests of the seeds' final
                                         perplexities */
    double welch_holm, permuted_holm; /* p-values of Welch's test and of the
                                         permutation test, adjusted for the
                                         number of configurations by Holm's
                                         method */
    double ks, p, p_holm; /* Kolmogorov-Smirnov distance between the entropies,
                             its p-value in a permutation test that exchanges
                             layers between all seeds, and this p-value adjusted
                             by Holm's method */
} es_evidence;

/**
 * A configuration: runs that differ only in the seed and in incidental
 * settings.
 */
typedef struct es_configuration {
    size_t first, n;        /* index of the configuration's first run, and
                               number of its runs */
    es_summary final, best; /* final and best perplexities of the runs; a run
                               whose last loss is not finite has the final
                               perplexity NaN and is excluded from `best` */
    es_summary loss;        /* last training losses of the runs; may contain
                               NaN */
    es_bands bands;         /* distribution of the heads of all runs over the
                               bands */
    es_mean mean;           /* mean of the finite values of `final`, with its
                               confidence interval */
    es_evidence evidence;   /* all values are NaN without a baseline, and for
                               the configuration of the baseline */
} es_configuration;

struct es_comparison {
    int64_t step;      /* step at which the runs are summarised */
    es_compared *runs; /* (n_runs) */
    size_t n_runs;
    bool has_baseline;
    size_t reference; /* index of the baseline run; 0 without a baseline */

    es_difference *differences; /* the n_differences settings in which runs
                                   differ, in the order of the tables */
    size_t n_differences;
    const es_run_setting **values;      /* values of the differing settings,
                                           (n_runs, n_differences); NULL if the
                                           run lacks the setting */
    es_run_labels labels;               /* labels of the runs */
    es_run_labels configuration_labels; /* labels of the configurations */

    es_configuration *configurations; /* (n_configurations) */
    size_t n_configurations;
};

/** A number that may be missing. NaN with missing == false is a valid value. */
typedef struct es_compare_number {
    double value;
    bool missing;
} es_compare_number;

/** Differences of a run or configuration from the baseline. */
typedef struct es_relative {
    es_compare_number final, best;       /* differences of the perplexities in
                                            per cent */
    es_compare_number bands[ES_N_BANDS]; /* differences in percentage points */
    es_compare_number balanced;
    es_delay later[ES_N_FLAG_KINDS];
} es_relative;

void es_compare_runs(es_relative *out, const es_compared *run,
                     const es_compared *baseline);

/**
 * Compares a configuration with the configuration of the baseline. Does not
 * compare onsets.
 */
void es_compare_configurations(es_relative *out, const es_configuration *one,
                               const es_configuration *baseline);

/**
 * Returns a run's value of the setting `difference`; NULL if the run lacks the
 * setting.
 */
static inline const es_run_setting *
es_comparison_value(const es_comparison *comparison, size_t run,
                    size_t difference)
{
    return comparison->values[run * comparison->n_differences + difference];
}

/**
 * Ranks the configurations, best first, by held-out perplexity, or by the loss
 * if no run was evaluated. First come configurations whose runs are all finite,
 * then those with some non-finite runs, those without values, and those without
 * a finite run.
 *
 *   order  (n_configurations) output: indices of the configurations
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_comparison_rank(size_t *order, const es_comparison *comparison,
                             bool evaluated) ES_MUST_USE;

#endif
