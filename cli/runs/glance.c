/* Computes the values that summarise a run when many runs are shown with one
   line each. */
#include "cli/runs/glance.h"

#include "analyzer/base/value.h"

#include <math.h>
#include <string.h>

float es_yardstick_of(const es_yardstick *measure, const es_run_summary *run)
{
    float value;
    memcpy(&value, (const char *)run + measure->member, sizeof value);
    return value;
}

const es_yardstick *es_yardstick_choose(const es_run_summary *const *runs,
                                        size_t n)
{
    static const es_yardstick measures[] = {
        {offsetof(es_run_summary, eval_ppl), "perplexity (held-out)",
         "eval_ppl"},
        {offsetof(es_run_summary, ppl), "perplexity", "ppl"},
        {offsetof(es_run_summary, loss), "loss (nats)", "loss"}};
    const es_yardstick *best = measures;
    size_t most = 0;
    for (size_t k = 0; k < sizeof measures / sizeof *measures; k++) {
        size_t n_known = 0;
        for (size_t i = 0; i < n; i++)
            n_known += !es_is_missing(es_yardstick_of(&measures[k], runs[i]));
        if (n_known > most) {
            most = n_known;
            best = &measures[k];
        }
    }
    return best;
}

const es_flag *es_glance_worst(const es_run_summary *run)
{
    const es_flag *worst = NULL;
    for (size_t i = 0; i < run->n_flags; i++)
        if (run->flags[i].stands &&
            (!worst || run->flags[i].severity > worst->severity))
            worst = &run->flags[i];
    return worst;
}

float es_glance_layer(const es_run_summary *run, size_t layer)
{
    const es_summary *s = &run->layers[layer];
    if (s->nonfinite)
        return NAN;
    return s->n_finite ? (float)s->mean : es_missing();
}
