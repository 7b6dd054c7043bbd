/* Thins a series to the samples that a page can hold, in one pass and constant
   memory; what is kept is said in thin.h. */
#include "cli/report/thin.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"

/* A sample set aside until its group is over. */
typedef struct candidate {
    int64_t step;
    double distance; /* from the group's first; 0: there is none */
    float *values;   /* (n_values) */
} candidate;

struct es_thin {
    size_t n_values, n_samples, n_groups, n_pushed;
    size_t n;       /* kept */
    int64_t *steps; /* (capacity) */
    float *values;  /* (capacity,n_values) */
    size_t group;   /* that is open */
    size_t first;   /* index of its first among those kept */
    candidate low, high;
};

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
    /* the last sample is a group of its own */
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

static void set_aside(es_thin *thin, candidate *to, int64_t step,
                      const float *values, double distance)
{
    to->step = step;
    to->distance = distance;
    memcpy(to->values, values, thin->n_values * sizeof *values);
}

/* How far a sample lies below and above the first of its group. */
static void measure(double *below, double *above, const float *first,
                    const float *values, size_t n)
{
    *below = *above = 0;
    for (size_t i = 0; i < n; i++) {
        double fall = (double)first[i] - (double)values[i];
        if (isfinite(fall)) {
            *below = fall > *below ? fall : *below;
            *above = -fall > *above ? -fall : *above;
            continue;
        }
        if (es_is_missing(first[i]) || es_is_missing(values[i]))
            continue;
        if (isfinite(first[i]))
            *below = INFINITY;
        else if (isfinite(values[i]))
            *above = INFINITY;
    }
}

static size_t group_of(const es_thin *thin, size_t index)
{
    if (thin->n_groups == thin->n_samples)
        return index; /* all are kept */
    if (index + 1 == thin->n_samples)
        return thin->n_groups;
    /* no overflow: samples are fewer than 2^40, groups than 2^20 */
    return index * thin->n_groups / (thin->n_samples - 1);
}

void es_thin_finish(es_thin *thin)
{
    candidate *a = &thin->low, *b = &thin->high;
    if (b->distance > 0 && (!(a->distance > 0) || b->step < a->step)) {
        candidate *swap = a;
        a = b;
        b = swap;
    }
    if (a->distance > 0)
        keep(thin, a->step, a->values);
    if (b->distance > 0 && b->step != a->step)
        keep(thin, b->step, b->values);
    thin->low.distance = thin->high.distance = 0;
}

void es_thin_push(es_thin *thin, int64_t step, const float *values)
{
    size_t index = thin->n_pushed;
    if (index == thin->n_samples)
        return;
    size_t group = group_of(thin, index);
    thin->n_pushed++;
    if (index == 0 || group != thin->group) {
        es_thin_finish(thin);
        thin->group = group;
        thin->first = thin->n;
        keep(thin, step, values);
        return;
    }
    double below, above;
    measure(&below, &above, thin->values + thin->first * thin->n_values, values,
            thin->n_values);
    if (below > thin->low.distance)
        set_aside(thin, &thin->low, step, values, below);
    if (above > thin->high.distance)
        set_aside(thin, &thin->high, step, values, above);
}

size_t es_thin_n(const es_thin *thin)
{
    return thin->n;
}

const int64_t *es_thin_steps(const es_thin *thin)
{
    return thin->steps;
}

const float *es_thin_values(const es_thin *thin)
{
    return thin->values;
}
