/*
 * The progress of a training: one line on a terminal, drawn again and again, or
 * a line now and then in a file.
 */
#include "hooks/trainer/progress.h"

#include "analyzer/base/clock.h"
#include "analyzer/flags/bands.h"
#include <inttypes.h>
#include <math.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define REFRESH 0.2 /* seconds */

static double now(void)
{
    return 1e-3 * (double)es_now_ms();
}

void es_progress_begin(es_progress *progress, FILE *out,
                       const es_settings *settings)
{
    int64_t steps = settings->train.steps;
    *progress = (es_progress){
        .out = out,
        .terminal = isatty(fileno(out)),
        .quiet = settings->quiet,
        .n_steps = steps,
        .first_step = -1,
        .log_every =
            settings->log_every > 0 ? settings->log_every : (steps + 19) / 20,
        .n_heads = settings->model.n_layer * settings->model.n_head,
        .ctx = settings->model.ctx,
        .started = now(),
        .eval_ce = NAN};
}

/**
 * Shares of the heads as a bar, lowest band first: '_' below a quarter of the
 * ceiling, '-', '=', '#' above three quarters, '!' not finite.
 */
static void print_bar(char *out, const es_bands *bands)
{
    const char marks[ES_N_BANDS + 1] = {'_', '-', '=', '#', '!'};
    double shares = 0;
    int column = 0;
    for (int b = 0; b <= ES_N_BANDS; b++) {
        size_t n = b < ES_N_BANDS ? bands->counts[b] : bands->nonfinite;
        shares += (double)n / (double)bands->n_heads;
        while (column < (int)lround(shares * ES_PROGRESS_BAR))
            out[column++] = marks[b];
    }
    out[column] = 0;
}

double es_progress_number(double number)
{
    return isnan(number) ? (double)NAN : number;
}

/** "12s", "3m05s", "2h10m" */
static void print_time(char *out, size_t size, double seconds)
{
    long s = seconds < 3e6 ? lround(seconds) : 3000000;
    if (s < 60)
        snprintf(out, size, "%lds", s);
    else if (s < 3600)
        snprintf(out, size, "%ldm%02lds", s / 60, s % 60);
    else
        snprintf(out, size, "%ldh%02ldm", s / 3600, s % 3600 / 60);
}

/** Columns of the terminal; a line that is wider would not be refreshed. */
static int columns(const es_progress *progress)
{
    struct winsize size;
    if (!progress->terminal ||
        ioctl(fileno(progress->out), TIOCGWINSZ, &size) != 0 || !size.ws_col)
        return 200;
    return size.ws_col;
}

static void print_line(es_progress *progress, const es_step *step,
                       double tokens_per_s)
{
    char left[32], line[256], eval[48] = "";
    int64_t done = step->step + 1;
    print_time(left, sizeof left,
               (now() - progress->started) *
                   (double)(progress->n_steps - done) /
                   (double)(done - progress->first_step));
    if (!isnan(progress->eval_ce))
        snprintf(eval, sizeof eval, "  held-out %.4f", progress->eval_ce);
    snprintf(line, sizeof line,
             "step %" PRId64 "/%" PRId64 "  loss %.4f%s%s%s  %.0f tokens/s"
             "  %s left%s",
             done, progress->n_steps, es_progress_number(step->losses.loss),
             progress->bands[0] ? "  [" : "", progress->bands,
             progress->bands[0] ? "]" : "", tokens_per_s, left, eval);
    fprintf(progress->out, "%s%.*s%s", progress->terminal ? "\r" : "",
            columns(progress) - 1, line, progress->terminal ? "\x1b[K" : "\n");
    progress->line_open = progress->terminal;
    fflush(progress->out);
}

void es_progress_step(void *user, const es_step *step, es_measure *measure,
                      double tokens_per_s)
{
    es_progress *progress = user;
    if (progress->quiet)
        return;
    if (progress->first_step < 0)
        progress->first_step = step->step;
    if (measure) {
        es_bands bands;
        es_bands_count(&bands, es_measure_heads(measure, ES_HEAD_ENTROPY),
                       (size_t)progress->n_heads, es_ceiling(progress->ctx));
        if (bands.n_heads > 0)
            print_bar(progress->bands, &bands);
    }
    if (step->step + 1 != progress->n_steps &&
        (progress->terminal ? now() - progress->shown < REFRESH
                            : step->step % progress->log_every != 0))
        return;
    progress->shown = now();
    print_line(progress, step, tokens_per_s);
}

void es_progress_eval(void *user, int64_t step, const es_losses *losses)
{
    es_progress *progress = user;
    (void)step;
    progress->eval_ce = losses->ce;
}

void es_progress_warning(void *user, const char *message)
{
    es_progress *progress = user;
    es_progress_end(progress);
    fprintf(progress->out, "entropy-train: warning: %s\n", message);
}

void es_progress_end(es_progress *progress)
{
    if (progress->line_open)
        fputc('\n', progress->out);
    progress->line_open = false;
}
