/** Declarations that the files of the comparison share. */
#ifndef ES_COMPARE_INTERNAL_H
#define ES_COMPARE_INTERNAL_H

#include "analyzer/statistics/inference.h"
#include "cli/compare/compare.h"
#include "cli/runs/labels.h"

typedef struct es_evaluation {
    int64_t step; /* ES_UNKNOWN: not evaluated */
    float ppl;    /* es_missing(): not evaluated */
} es_evaluation;

typedef struct es_onset {
    size_t n_episodes;
    bool stands;        /* an episode lasts until the last step */
    int64_t any, error; /* steps of the first episode and of the first episode
                           of severity error or above; ES_UNKNOWN: no such
                           episode */
} es_onset;

/**
 * Number of steps by which an onset came later; ES_UNKNOWN if either run lacks
 * it.
 */
typedef struct es_delay {
    int64_t any, error;
} es_delay;

/** One run of the comparison. */
typedef struct es_compared {
    const es_run_summary *summary;
    es_evaluation final, best; /* best: smallest finite perplexity, the first
                                  of equal ones */
    size_t n_evals, nonfinite_evals;
    es_onset onsets[ES_N_FLAG_KINDS];

    float *sorted; /* (n_rows * n_columns) sorted sample, for `entropy` */
    es_distribution entropy;
    double ks, wasserstein; /* distances to the reference; NaN: one run has no
                               values */
    double p, p_holm;       /* p of ks by exchanging layers, and adjusted for
                               all runs by Holm; NaN for the reference */
    size_t configuration;
    float outcome; /* final perplexity; NaN if the loss ended so; may be
                      missing */
} es_compared;

/** Test results of a configuration compared with the baseline's. */
typedef struct es_evidence {
    es_means_test ppl;                /* final perplexities over seeds */
    double welch_holm, permuted_holm; /* adjusted for all configurations by
                                         Holm */
    double ks, p, p_holm; /* of the entropies: layers are exchanged between all
                             seeds */
} es_evidence;

/** Runs that differ only in the seed and in incidental settings. */
typedef struct es_configuration {
    size_t first, n;        /* first run; number of runs */
    es_summary final, best; /* perplexity; NaN for a run whose loss ended so;
                               best: only runs that ended finite */
    es_summary loss;        /* last training loss; NaN if a run ended so */
    es_bands bands;         /* heads of all runs together */
    es_mean mean;           /* mean of the finite values of `final` */
    es_evidence evidence;   /* NaN without a baseline, and for the baseline's
                               configuration */
} es_configuration;

struct es_comparison {
    int64_t step;      /* step of the summaries */
    es_compared *runs; /* (n_runs) */
    size_t n_runs;
    bool has_baseline;
    size_t reference; /* index of the baseline, or 0 */

    es_difference *differences; /* (n_differences) in the order shown */
    size_t n_differences;
    const es_run_setting **values;      /* (n_runs,n_differences) NULL: the run
                                           lacks the setting */
    es_run_labels labels;               /* labels of the runs */
    es_run_labels configuration_labels; /* labels of the configurations */

    es_configuration *configurations; /* (n_configurations) */
    size_t n_configurations;
};

/** A number that may be unknown. NaN with missing == false is a value. */
typedef struct es_compare_number {
    double value;
    bool missing;
} es_compare_number;

/** A run or a configuration compared with the baseline's. */
typedef struct es_relative {
    es_compare_number final, best;       /* difference of perplexities in per
                                            cent */
    es_compare_number bands[ES_N_BANDS]; /* difference in percentage points */
    es_compare_number balanced;
    es_delay later[ES_N_FLAG_KINDS];
} es_relative;

/**
 * Fills in the test results of all runs and configurations. Returns ES_OK or
 * ES_ENOMEM.
 */
es_status es_comparison_test(es_comparison *comparison) ES_MUST_USE;

/**
 * Prints the table of configurations compared with the baseline's; nothing
 * without a baseline or without several seeds. Returns ES_OK or ES_ENOMEM.
 */
es_status
es_comparison_print_evidence(const es_comparison *comparison, FILE *stream,
                             const es_table_options *options) ES_MUST_USE;

/** Prints the notes that explain p and intervals, and why some are missing. */
void es_comparison_note_evidence(const es_comparison *comparison, FILE *stream);

/** Returns true if configurations are compared and some have several runs. */
static inline bool es_comparison_has_evidence(const es_comparison *comparison)
{
    return comparison->has_baseline && comparison->n_configurations > 1 &&
           comparison->n_configurations < comparison->n_runs;
}

void es_compare_runs(es_relative *out, const es_compared *run,
                     const es_compared *baseline);

/** Compares two configurations. Leaves out the onsets. */
void es_compare_configurations(es_relative *out, const es_configuration *one,
                               const es_configuration *baseline);

/** Returns the value of a difference in a run; NULL if the run lacks it. */
static inline const es_run_setting *
es_comparison_value(const es_comparison *comparison, size_t run,
                    size_t difference)
{
    return comparison->values[run * comparison->n_differences + difference];
}

/**
 * Ranks the configurations, best first: by held-out perplexity, or by the loss
 * if no run was evaluated. After the finite ones come those with some runs that
 * are not finite, those without a number, and those with no finite run.
 *
 *   order  (n_configurations) written: their indices
 *
 * Returns ES_OK or ES_ENOMEM.
 */
es_status es_comparison_rank(size_t *order, const es_comparison *comparison,
                             bool evaluated) ES_MUST_USE;

#endif
