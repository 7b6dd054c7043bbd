/* Ranks the configurations for the table that a sweep prints at its end. A
 * configuration in which any run ended in NaN ranks below configurations whose
 * runs are all finite. */
#include "cli/compare/compare_internal.h"

#include "analyzer/base/checked.h"
#include <stdlib.h>

typedef struct place {
    int group; /* primary sort key: 0 if all runs are finite, 1 if some runs are
                  not finite, 2 if no run has a value, 3 if no run is finite */
    double mean;
    size_t index;
} place;

static int by_place(const void *a, const void *b)
{
    const place *x = a, *y = b;
    int order = x->group - y->group;
    if (order == 0 && x->group < 2)
        order = (x->mean > y->mean) - (x->mean < y->mean);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

es_status es_comparison_rank(size_t *order, const es_comparison *comparison,
                             bool evaluated)
{
    const size_t n = comparison->n_configurations;
    place *places;
    es_status status = es_alloc(&places, n, sizeof *places, "a table");
    if (status < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        const es_configuration *one = &comparison->configurations[i];
        const es_summary *by = evaluated ? &one->final : &one->loss;
        places[i] = (place){.group = by->n_finite > 0 ? by->nonfinite > 0
                                                      : 2 + (by->nonfinite > 0),
                            .mean = by->mean,
                            .index = i};
    }
    qsort(places, n, sizeof *places, by_place);
    for (size_t i = 0; i < n; i++)
        order[i] = places[i].index;
    free(places);
    return ES_OK;
}
