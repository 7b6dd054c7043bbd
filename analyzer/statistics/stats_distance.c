/* Computes distances between two samples: Kolmogorov-Smirnov and Wasserstein.
 */
#include "analyzer/statistics/stats.h"

#include "analyzer/base/value.h"
#include <math.h>
#include <stdbool.h>

void es_stats_distribution(es_distribution *out, float *sorted, const float *x,
                           size_t n)
{
    *out = (es_distribution){.sorted = sorted};
    for (size_t i = 0; i < n; i++) {
        if (es_is_missing(x[i]))
            out->missing++;
        else if (!isfinite(x[i]))
            out->nonfinite++;
        else
            sorted[out->n_finite++] = x[i];
    }
    es_stats_sort(sorted, out->n_finite);
}

double es_stats_quantile(const es_distribution *sample, double p)
{
    if (sample->n_finite == 0 || isnan(p))
        return NAN;
    return es_sorted_quantile(sample->sorted, sample->n_finite,
                              fmin(fmax(p, 0), 1));
}

/* --- distances ------------------------------------------------------------*/

/* An iterator over the values of two non-empty samples, merged in ascending
   order. */
typedef struct walk {
    const es_distribution *a, *b;
    size_t n_a, n_b; /* numbers of values at or below `at` in the two samples */
    double at;
} walk;

/* Advances to the next value of either sample. Returns false after the last
   value. */
static bool step_up(walk *w)
{
    bool in_a = w->n_a < w->a->n_finite, in_b = w->n_b < w->b->n_finite;
    if (!in_a && !in_b)
        return false;
    float next_a = in_a ? w->a->sorted[w->n_a] : INFINITY;
    float next_b = in_b ? w->b->sorted[w->n_b] : INFINITY;
    float next = next_a < next_b ? next_a : next_b;
    while (w->n_a < w->a->n_finite && w->a->sorted[w->n_a] <= next)
        w->n_a++;
    while (w->n_b < w->b->n_finite && w->b->sorted[w->n_b] <= next)
        w->n_b++;
    w->at = next;
    return true;
}

/* Returns the difference of the distribution functions between `at` and the
   next value. */
static double gap(const walk *w)
{
    return fabs((double)w->n_a / (double)w->a->n_finite -
                (double)w->n_b / (double)w->b->n_finite);
}

double es_stats_ks(const es_distribution *a, const es_distribution *b)
{
    walk w = {.a = a, .b = b};
    double largest = 0;
    if (a->n_finite == 0 || b->n_finite == 0)
        return NAN;
    while (step_up(&w))
        largest = fmax(largest, gap(&w));
    return largest;
}

double es_stats_wasserstein(const es_distribution *a, const es_distribution *b)
{
    walk w = {.a = a, .b = b};
    double area = 0;
    if (a->n_finite == 0 || b->n_finite == 0)
        return NAN;
    step_up(&w);
    for (double from = w.at, height = gap(&w); step_up(&w); from = w.at) {
        area += height * (w.at - from);
        height = gap(&w);
    }
    return area;
}
