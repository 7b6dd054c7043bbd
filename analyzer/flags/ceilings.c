/* Computes the ceilings of a run and of its heads, for flags, rules, bands and
   figures. A head that sees fewer keys than another has a lower ceiling, so its
   entropies are scaled before they are compared with those of other heads. */
#include "analyzer/base/value.h"
#include "analyzer/flags/flags.h"
#include "analyzer/heads/bands.h"

#include <math.h>
#include <string.h>

static double ceiling_of_all(const es_judge_run *run)
{
    const double ceiling =
        run->ceiling > 0 ? run->ceiling : es_ceiling(run->ctx);
    return ceiling > 0 ? ceiling : NAN;
}

double es_judge_run_ceiling(const es_judge_run *run)
{
    const size_t n =
        run->ceilings ? (size_t)run->n_layers * (size_t)run->n_heads : 0;
    double largest = NAN;
    for (size_t i = 0; i < n; i++)
        largest = fmax(largest, run->ceilings[i]);
    return largest > 0 ? largest : ceiling_of_all(run);
}

double es_judge_run_ceiling_of(const es_judge_run *run, size_t head)
{
    const double own = run->ceilings ? run->ceilings[head] : (double)NAN;
    if (!isnan(own))
        return own;
    const double all = ceiling_of_all(run);
    return isnan(all) ? es_judge_run_ceiling(run) : all;
}

double es_judge_run_layer_ceiling(const es_judge_run *run, size_t layer)
{
    const size_t n_heads = (size_t)run->n_heads;
    double sum = 0;
    if (!run->ceilings)
        return ceiling_of_all(run);
    for (size_t h = 0; h < n_heads; h++)
        sum += es_judge_run_ceiling_of(run, layer * n_heads + h);
    return sum / (double)n_heads;
}

void es_judge_run_scale(float *out, const es_judge_run *run,
                        const float *values, size_t n)
{
    const size_t n_layers = (size_t)run->n_layers;
    const bool heads = n == n_layers * (size_t)run->n_heads;
    const double largest = es_judge_run_ceiling(run);
    memmove(out, values, n * sizeof *out);
    if (!run->ceilings || isnan(largest) || (!heads && n != n_layers))
        return;
    for (size_t i = 0; i < n; i++) {
        const double own = heads ? es_judge_run_ceiling_of(run, i)
                                 : es_judge_run_layer_ceiling(run, i);
        if (isfinite(values[i]) && own != largest)
            out[i] =
                own > 0 ? (float)(values[i] * (largest / own)) : es_missing();
    }
}
