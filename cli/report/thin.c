/* Thins a series to the samples that fit into a report page, for samples.c.
   Uses one pass and constant memory; thin.h describes which samples are
   kept. */
#include "cli/report/thin.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"

es_status es_thin_new(es_thin **out, size_t n_values, size_t n_samples,
                      size_t capacity)
{
    es_thin *thin;
    es_status status = es_alloc(&thin, 1, sizeof *thin, "a series");
    if (status < 0)
        return status;
    if (capacity < ES_THIN_LEAST)
        capacity = ES_THIN_LEAST;
    const size_t n_kept = n_samples < capacity ? n_samples : capacity;
    thin->n_values = n_values;
    thin->n_samples = n_samples;
    /* of each group three samples are kept; the last sample forms a separate
     * group */
    thin->n_groups = n_samples <= capacity ? n_samples : (capacity - 1) / 3;
    if ((status = es_alloc(&thin->steps, n_kept, sizeof *thin->steps,
                           "samples")) < 0 ||
        (status = es_alloc(&thin->low.values, n_values, sizeof(float),
                           "samples")) < 0 ||
        (status = es_alloc(&thin->high.values, n_values, sizeof(float),
                           "samples")) < 0 ||
        (status = es_alloc(&thin->values, n_kept, n_values * sizeof(float),
                           "samples")) < 0) {
        es_thin_free(thin);
        return status;
    }
    *out = thin;
    return ES_OK;
}

void es_thin_free(es_thin *thin)
{
    if (!thin)
        return;
    free(thin->steps);
    free(thin->values);
    free(thin->low.values);
    free(thin->high.values);
    free(thin);
}

static void keep(es_thin *thin, int64_t step, const float *values)
{
    thin->steps[thin->n] = step;
    memcpy(thin->values + thin->n * thin->n_values, values,
           thin->n_values * sizeof *values);
    thin->n++;
}

void es_thin_finish(es_thin *thin)
{
    es_thin_candidate *a = &thin->low, *b = &thin->high;
    if (b->distance > 0 && (!(a->distance > 0) || b->step < a->step)) {
        es_thin_candidate *swap = a;
        a = b;
        b = swap;
    }
    if (a->distance > 0)
        keep(thin, a->step, a->values);
    if (b->distance > 0 && b->step != a->step)
        keep(thin, b->step, b->values);
    thin->low.distance = thin->high.distance = 0;
}

/* Stores the sample in `to` if it is farther from the group's first sample than
 * the sample that `to` contains. */
static void consider(es_thin *thin, es_thin_candidate *to, int64_t step,
                     const float *values, double distance)
{
    if (!(distance > to->distance))
        return;
    to->step = step;
    to->distance = distance;
    memcpy(to->values, values, thin->n_values * sizeof *values);
}

void es_thin_push(es_thin *thin, int64_t step, const float *values)
{
    const size_t index = thin->n_pushed;
    size_t group = index; /* if all samples are kept, every sample forms a
                             group */
    double below = 0, above = 0;
    if (index == thin->n_samples)
        return;
    /* the product does not overflow: there are fewer than 2^40 samples and 2^20
       groups */
    if (thin->n_groups != thin->n_samples)
        group = index + 1 == thin->n_samples
                    ? SIZE_MAX
                    : index * thin->n_groups / (thin->n_samples - 1);
    thin->n_pushed++;
    /* without groups, only the first and the last sample are kept */
    if (group == thin->group && index && thin->n_groups == 0)
        return;
    if (index == 0 || group != thin->group) {
        es_thin_finish(thin);
        thin->group = group;
        thin->first = thin->n;
        keep(thin, step, values);
        return;
    }
    /* Find how far the sample is below and above the first sample of its
       group. */
    const float *first = thin->values + thin->first * thin->n_values;
    size_t n = thin->n_values;
    for (size_t i = 0; i < n; i++) {
        double fall = (double)first[i] - (double)values[i];
        if (isfinite(fall)) {
            below = fall > below ? fall : below;
            above = -fall > above ? -fall : above;
            continue;
        }
        if (es_is_missing(first[i]) || es_is_missing(values[i]))
            continue;
        if (isfinite(first[i]))
            below = INFINITY;
        else if (isfinite(values[i]))
            above = INFINITY;
    }
    consider(thin, &thin->low, step, values, below);
    consider(thin, &thin->high, step, values, above);
}
