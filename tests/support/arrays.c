/* Keeps a list of the arrays of one test, so that es_test_release can free all
 * of them. */
#include "tests/support/arrays.h"
#include "tests/support/reference_ops.h"
#include "tests/support/test.h"

static void **kept;
static size_t n_kept;
static uint64_t next_seed = 11;

static void *keep(size_t n, size_t size)
{
    kept = realloc(kept, (n_kept + 1) * sizeof *kept);
    assert_non_null(kept);
    kept[n_kept] = calloc(n, size);
    assert_non_null(kept[n_kept]);
    return kept[n_kept++];
}

float *es_test_array(size_t n, double scale)
{
    float *out = keep(n, sizeof *out);
    es_test_fill(out, n, scale, &next_seed);
    return out;
}

double *es_test_doubles(size_t n)
{
    return keep(n, sizeof(double));
}

float *es_test_copy(const float *from, size_t n)
{
    return memcpy(keep(n, sizeof *from), from, n * sizeof *from);
}

double *es_test_widen(const float *from, size_t n)
{
    double *out = doubles(n);
    for (size_t i = 0; i < n; i++)
        out[i] = (double)from[i];
    return out;
}

void es_test_release(void)
{
    while (n_kept > 0)
        free(kept[--n_kept]);
    free(kept);
    kept = NULL;
}

void es_test_seed(uint64_t seed)
{
    next_seed = seed;
}
