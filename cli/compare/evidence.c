/* Computes the statistics of a comparison: intervals of final perplexities over
 * seeds, tests of configurations against the configuration of the baseline, and
 * permutation tests that exchange layers between runs. */
#include "cli/compare/compare_internal.h"

#include "analyzer/base/checked.h"
#include <math.h>
#include <stdlib.h>

/* --- entropies ------------------------------------------------------------*/

/* Reusable workspace of a permutation test, with the values of the runs'
 * heads. */
typedef struct exchange {
    float *values;   /* (n) */
    uint32_t *block; /* (n) */
    uint32_t *stratum;
    bool *first; /* (n_blocks, like `stratum`) true if the block belongs to the
                    first group of runs */
    es_exchange_space tests;
} exchange;

static void exchange_free(exchange *space)
{
    free(space->values);
    free(space->block);
    free(space->tests.order);
    free(space->tests.ranks);
    free(space->stratum);
    free(space->first);
    free(space->tests.labels);
    free(space->tests.weights);
}

static es_status exchange_grow(exchange *space, size_t n, size_t n_blocks)
{
    const char *what = "layers to exchange";
    es_status status;
    es_exchange_space *tests = &space->tests;
    if ((status = es_grow(&space->values, n, sizeof(float), what)) < 0 ||
        (status = es_grow(&space->block, n, sizeof(uint32_t), what)) < 0 ||
        (status = es_grow(&space->stratum, n_blocks, sizeof(uint32_t), what)) <
            0 ||
        (status = es_grow(&space->first, n_blocks, sizeof(bool), what)) < 0 ||
        (status = es_grow(&tests->order, n, 2 * sizeof(size_t), what)) < 0 ||
        (status = es_grow(&tests->ranks, n, sizeof(float), what)) < 0 ||
        (status = es_grow(&tests->labels, n_blocks, sizeof(bool), what)) < 0)
        return status;
    return es_grow(&tests->weights, n_blocks, sizeof(double), what);
}

/* Adds the finite values of the layer `row` of a run as the next block. Adds
 * nothing if the layer has no finite value. */
static void add_layer(es_blocks *to, exchange *space, const es_run_summary *run,
                      size_t row, uint32_t stratum, bool first)
{
    const size_t n = to->n;
    for (size_t i = 0; i < run->n_columns; i++) {
        float value = run->values[row * run->n_columns + i];
        if (!isfinite(value))
            continue;
        space->values[to->n] = value;
        space->block[to->n++] = (uint32_t)to->n_blocks;
    }
    if (to->n == n)
        return;
    space->stratum[to->n_blocks] = stratum;
    space->first[to->n_blocks++] = first;
}

/* Computes the distance between the heads of the first n_first of `runs` and
 * the heads of the other runs, and the p of this distance. The test exchanges
 * layers of the same index or, if the runs have different numbers of layers,
 * any layers. */
static es_status test_entropies(double *distance, double *p, exchange *space,
                                const es_run_summary *const *runs,
                                size_t n_first, size_t n_runs)
{
    size_t n = 0, n_blocks = 0, n_rows = 0;
    bool alike = true;
    for (size_t i = 0; i < n_runs; i++) {
        n += runs[i]->n_rows * runs[i]->n_columns;
        n_blocks += runs[i]->n_rows;
        n_rows = runs[i]->n_rows > n_rows ? runs[i]->n_rows : n_rows;
        alike = alike && runs[i]->n_rows == runs[0]->n_rows;
    }
    es_status status = exchange_grow(space, n, n_blocks);
    if (status < 0)
        return status;
    es_blocks blocks = {.values = space->values,
                        .block = space->block,
                        .stratum = space->stratum,
                        .first = space->first};
    for (size_t row = 0; row < n_rows; row++)
        for (size_t i = 0; i < n_runs; i++)
            if (row < runs[i]->n_rows)
                add_layer(&blocks, space, runs[i], row,
                          alike ? (uint32_t)row : 0, i < n_first);
    *p = es_stats_exchange_p(distance, &blocks, &space->tests);
    return ES_OK;
}

/* --- perplexities ---------------------------------------------------------*/

/* Copies the finite final perplexities of a configuration to `out`; returns how
 * many there are. */
static size_t gather(double *out, const es_comparison *comparison, size_t index)
{
    size_t n = 0;
    for (size_t i = 0; i < comparison->n_runs; i++)
        if (comparison->runs[i].configuration == index &&
            isfinite(comparison->runs[i].outcome))
            out[n++] = comparison->runs[i].outcome;
    return n;
}

/* --- all tests ------------------------------------------------------------ */

typedef struct testing {
    es_comparison *comparison;
    exchange space;
    const es_run_summary **chosen; /* (n_runs) */
    double *a, *b, *both;          /* (n_runs) */
    size_t *order;                 /* (n_runs) */
} testing;

static es_status test_runs(testing *t)
{
    es_comparison *comparison = t->comparison;
    const size_t n = comparison->n_runs, to = comparison->reference;
    const bool wanted = comparison->has_baseline || n <= ES_COMPARE_MATRIX_MOST;
    for (size_t i = 0; i < n; i++) {
        es_compared *run = &comparison->runs[i];
        const es_run_summary *pair[] = {run->summary,
                                        comparison->runs[to].summary};
        t->a[i] = NAN;
        es_status status =
            i == to || !wanted
                ? ES_OK
                : test_entropies(NULL, &t->a[i], &t->space, pair, 1, 2);
        if (status < 0)
            return status;
    }
    es_stats_holm(t->b, t->a, n, t->order);
    for (size_t i = 0; i < n; i++) {
        comparison->runs[i].p = t->a[i];
        comparison->runs[i].p_holm = t->b[i];
    }
    return ES_OK;
}

/* Compares the entropies of a configuration with those of the baseline's
 * configuration. */
static es_status test_configuration(testing *t, size_t index, size_t to)
{
    es_comparison *comparison = t->comparison;
    es_evidence *out = &comparison->configurations[index].evidence;
    size_t n = 0, n_first = 0;
    for (int second = 0; second < 2; second++) {
        n_first = n;
        for (size_t i = 0; i < comparison->n_runs; i++)
            if (comparison->runs[i].configuration == (second ? to : index))
                t->chosen[n++] = comparison->runs[i].summary;
    }
    return test_entropies(&out->ks, &out->p, &t->space, t->chosen, n_first, n);
}

/* Adjusts one kind of p in all configurations by Holm's method. p_offset and
 * out_offset are the offsets in es_evidence of the p and of the adjusted p. */
static void adjust(testing *t, size_t p_offset, size_t out_offset)
{
    es_configuration *all = t->comparison->configurations;
    const size_t n = t->comparison->n_configurations;
    for (size_t i = 0; i < n; i++)
        t->a[i] = *(double *)(void *)((char *)&all[i].evidence + p_offset);
    es_stats_holm(t->b, t->a, n, t->order);
    for (size_t i = 0; i < n; i++)
        *(double *)(void *)((char *)&all[i].evidence + out_offset) = t->b[i];
}

static es_status test_configurations(testing *t)
{
    es_comparison *comparison = t->comparison;
    const size_t n = comparison->n_configurations;
    const size_t to = comparison->runs[comparison->reference].configuration;
    const es_evidence none = {
        .ppl = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, ES_REASON_FEW},
        .ks = NAN,
        .p = NAN};
    for (size_t i = 0; i < n; i++) {
        es_configuration *one = &comparison->configurations[i];
        size_t n_a = gather(t->a, comparison, i);
        es_stats_mean(&one->mean, t->a, n_a);
        one->evidence = none;
        if (!comparison->has_baseline || i == to)
            continue;
        size_t n_b = gather(t->b, comparison, to);
        es_stats_compare_means(&one->evidence.ppl, t->a, n_a, t->b, n_b,
                               t->both, t->order);
        es_status status = test_configuration(t, i, to);
        if (status < 0)
            return status;
    }
    adjust(t, offsetof(es_evidence, ppl.p), offsetof(es_evidence, welch_holm));
    adjust(t, offsetof(es_evidence, ppl.permuted),
           offsetof(es_evidence, permuted_holm));
    adjust(t, offsetof(es_evidence, p), offsetof(es_evidence, p_holm));
    return ES_OK;
}

es_status es_comparison_test(es_comparison *comparison)
{
    testing t = {.comparison = comparison};
    const size_t n = comparison->n_runs;
    const char *what = "tests of runs";
    es_status status;
    if ((status = es_alloc(&t.chosen, n, sizeof *t.chosen, what)) < 0 ||
        (status = es_alloc(&t.a, n, sizeof *t.a, what)) < 0 ||
        (status = es_alloc(&t.b, n, sizeof *t.b, what)) < 0 ||
        (status = es_alloc(&t.both, n, sizeof *t.both, what)) < 0 ||
        (status = es_alloc(&t.order, n, sizeof *t.order, what)) < 0 ||
        (status = test_runs(&t)) < 0)
        goto done;
    status = test_configurations(&t);
done:
    exchange_free(&t.space);
    free(t.chosen);
    free(t.a);
    free(t.b);
    free(t.both);
    free(t.order);
    return status;
}

/* --- table ---------------------------------------------------------------- */

/* Appends a cell with a value of the given number of digits, with or without
 * the sign "+"; "-" for NaN. */
static void put_value(es_sheet *sheet, const char *title, double value,
                      bool sign, int digits)
{
    if (isnan(value))
        es_sheet_put(sheet, title, "-");
    else if (sign)
        es_sheet_put(sheet, title, "%+.*g", digits, value);
    else
        es_sheet_put(sheet, title, "%.*g", digits, value);
}

es_status es_comparison_print_evidence(const es_comparison *comparison,
                                       FILE *stream,
                                       const es_table_options *options)
{
    es_sheet sheet = {0};
    if (!es_comparison_has_evidence(comparison))
        return ES_OK;
    const size_t to = comparison->runs[comparison->reference].configuration;
    fputs("\n"
          "configurations compared with the baseline's: final perplexity over "
          "seeds, entropy over layers and seeds\n",
          stream);
    for (size_t i = 0; i < comparison->n_configurations; i++) {
        const es_configuration *one = &comparison->configurations[i];
        const es_evidence *by = &one->evidence;
        if (i == to)
            continue;
        es_sheet_begin_row(&sheet, NULL);
        es_sheet_put_name(&sheet, "configuration",
                          comparison->configuration_labels.plain[i]);
        es_sheet_put(&sheet, "runs", "%zu", one->n);
        put_value(&sheet, "ppl by", by->ppl.difference, true, 4);
        if (isnan(by->ppl.low))
            es_sheet_put(&sheet, "95%", "-");
        else
            es_sheet_put(&sheet, "95%", "%+.3g to %+.3g", by->ppl.low,
                         by->ppl.high);
        put_value(&sheet, "g", by->ppl.g, true, 3);
        put_value(&sheet, "Welch p", by->ppl.p, false, 2);
        put_value(&sheet, "Holm", by->welch_holm, false, 2);
        put_value(&sheet, "seeds p", by->ppl.permuted, false, 2);
        put_value(&sheet, "Holm", by->permuted_holm, false, 2);
        put_value(&sheet, "KS", by->ks, false, 3);
        put_value(&sheet, "layers p", by->p, false, 2);
        put_value(&sheet, "Holm", by->p_holm, false, 2);
    }
    es_status status = es_sheet_print(&sheet, stream, options);
    es_sheet_free(&sheet);
    return status;
}

/* --- notes ----------------------------------------------------------------*/

/* Returns the reasons why intervals or tests are missing, as one bit per
 * reason. */
static unsigned find_reasons(const es_comparison *comparison)
{
    unsigned found = 0;
    const size_t to = comparison->runs[comparison->reference].configuration;
    for (size_t i = 0; i < comparison->n_configurations; i++) {
        const es_configuration *one = &comparison->configurations[i];
        if (one->final.n_finite > 0)
            found |= 1u << one->mean.reason;
        if (es_comparison_has_evidence(comparison) && i != to)
            found |= 1u << one->evidence.ppl.reason;
    }
    return found;
}

void es_comparison_note_evidence(const es_comparison *comparison, FILE *stream)
{
    const bool seeds = comparison->n_configurations < comparison->n_runs;
    if (!es_stats_gsl()) {
        if (seeds || comparison->has_baseline)
            fputs("intervals, p and g: this program is built without GSL\n",
                  stream);
        return;
    }
    if (comparison->has_baseline && comparison->n_runs > 1)
        fputs("p: probability of a distance as large if layers are exchanged "
              "between the runs; Holm: adjusted for the number of runs\n",
              stream);
    if (!seeds)
        return;
    fputs("95%: interval of the mean by Student's t", stream);
    if (es_comparison_has_evidence(comparison))
        fputs("; g: Hedges' effect size; seeds p: by exchanging perplexities "
              "between configurations",
              stream);
    fputc('\n', stream);
    const unsigned reasons = find_reasons(comparison);
    if (reasons & 1u << ES_REASON_FEW)
        fputs("no interval, g or p for fewer than two runs with a finite "
              "perplexity\n",
              stream);
    if (reasons & 1u << ES_REASON_CONSTANT)
        fputs("no interval, g or p for perplexities that are all equal\n",
              stream);
}
