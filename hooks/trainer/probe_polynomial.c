/* Implements the additional output of a probe with --inference polynomial: for
 * each polynomial its interval, the number of inputs outside the interval, the
 * errors, and the multiplicative levels. */
#include "hooks/trainer/probe_internal.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text.h"
#include <inttypes.h>
#include <math.h>

es_status es_probe_take_polynomials(es_probe_result *result,
                                    const es_trainer *trainer)
{
    const es_model_config *config = &trainer->settings.model;
    const es_findings *found = es_measure_findings(trainer->measure);
    const size_t n = es_model_n_sites(config);
    const size_t n_levels = (size_t)config->n_layer + 1;
    es_status status;
    if (!found)
        return ES_OK;
    if ((status = es_alloc(&result->sites, n, sizeof *result->sites,
                           "polynomials")) < 0 ||
        (status = es_alloc(&result->levels, n_levels, sizeof *result->levels,
                           "polynomials")) < 0)
        return status;
    for (size_t i = 0; i < n; i++) {
        const int layer = (int)(i / ES_N_SITES);
        const es_site place = (es_site)(i % ES_N_SITES);
        if (es_model_has_site(config, layer, place))
            result->sites[result->n_sites++] =
                (es_probe_site){.layer = layer,
                                .place = place,
                                .kind = es_site_kind(config, i),
                                .found = found[i],
                                .polynomial = es_model_polynomial(
                                    trainer->model, layer, place)};
    }
    for (size_t i = 0; i < n_levels; i++)
        result->levels[i] = es_model_levels(trainer->model, (int)i);
    return ES_OK;
}

/* --- tables --------------------------------------------------------------- */

static const char *name_of(const es_probe_site *site, int n_layer)
{
    return site->layer == n_layer          ? "last norm"
           : site->place == ES_SITE_ATTN   ? "inverse"
           : site->place == ES_SITE_ACT    ? "gate"
           : site->place == ES_SITE_NORM_1 ? "norm 1"
                                           : "norm 2";
}

static void print_site(FILE *out, const es_probe_site *site, int n_layer)
{
    char text[7][ES_FLOAT_TEXT_MAX], layer[16];
    const es_findings *found = &site->found;
    const es_interval *in = &site->polynomial.in;
    snprintf(layer, sizeof layer, "%d", site->layer);
    fprintf(out,
            "%-6s%-10s%9s%10s%10s%9" PRIu64 "%10" PRIu64 "%10s%10s%7d%7d\n",
            site->layer < n_layer ? layer : "", name_of(site, n_layer),
            es_number_print(text[0], found->largest, 3),
            es_number_print(text[1], in->low, 3),
            es_number_print(text[2], in->high, 3), found->n_outside, found->n,
            es_number_print(text[3], found->error, 2),
            es_number_print(text[4], found->rounding, 2),
            site->polynomial.iterations, site->polynomial.levels);
}

static void print_loss(FILE *out, const char *name, double ce)
{
    char perplexity[ES_FLOAT_TEXT_MAX];
    fprintf(out, "%-12s loss %.6f, perplexity %s\n", name, es_unsigned_nan(ce),
            es_number_print(perplexity, exp(ce), 6));
}

void es_probe_print_polynomials(FILE *out, const es_probe_result *result)
{
    char margin[ES_FLOAT_TEXT_MAX];
    const int n_layer = result->n_layers;
    if (result->n_sites == 0)
        return;
    fputs("\ninference\n", out);
    print_loss(out, "exact", result->exact.mean);
    print_loss(out, "polynomial", result->ce.mean);
    fprintf(out,
            "\nintervals: the inputs of %" PRId64
            " other micro-batches, widened by a factor of "
            "%s\n\n%-6s%-10s%9s%10s%10s%9s%10s%10s%10s%7s%7s\n",
            result->settings.poly_batches,
            es_number_print(margin, result->settings.polynomial.margin, 6),
            "layer", "of", "|input|", "low", "high", "outside", "inputs",
            "error", "rounding", "n", "levels");
    for (size_t i = 0; i < result->n_sites; i++)
        print_site(out, &result->sites[i], n_layer);
    fputs("\nlevels of a layer:", out);
    for (int i = 0; i < n_layer; i++)
        fprintf(out, " %d", result->levels[i]);
    fprintf(out, "; of the model: %d\n", result->levels[n_layer]);
    fputs("inverse: 1 / D of PowerSoftmax's rows with n factors "
          "(Goldschmidt); norm: 1 / sqrt(variance)\n"
          "with n steps (Newton); gate: GELU's, of degree n (Chebyshev). "
          "|input|: the largest score,\n"
          "input of the norm, or input of GELU. error: the largest distance of "
          "a weight, normalised\n"
          "number or activation from its exact form; rounding: float32 "
          "compared with float64 of the same\n"
          "polynomial. levels: successive products in attention, FFN or "
          "norm\n",
          out);
}
