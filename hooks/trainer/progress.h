/** Progress of a training run on standard error, and its last words. */
#ifndef ES_PROGRESS_H
#define ES_PROGRESS_H

#include "hooks/trainer/train.h"
#include <stdio.h>

#define ES_PROGRESS_BAR 16

typedef struct es_progress {
    FILE *out;
    bool terminal; /* one line, refreshed; otherwise a line now and then */
    bool quiet;    /* warnings alone */
    bool line_open;
    int64_t n_steps, log_every;
    int64_t first_step; /* the first that was seen; -1 before */
    int n_heads, ctx;
    double started, shown;
    double eval_ce;                  /* NaN before the first evaluation */
    char bands[ES_PROGRESS_BAR + 1]; /* bar of the last measured step */
} es_progress;

void es_progress_begin(es_progress *progress, FILE *out,
                       const es_settings *settings);

/** Handlers of es_train_watch; `user` is the es_progress. */
void es_progress_step(void *user, const es_step *step, es_measure *measure,
                      double tokens_per_s);
void es_progress_eval(void *user, int64_t step, const es_losses *losses);
void es_progress_warning(void *user, const char *message);

/** The same number, but a NaN without a sign: printf knows "-nan" too. */
double es_progress_number(double number);

/** Ends the refreshed line, so that other messages can follow. */
void es_progress_end(es_progress *progress);

#endif
