/* The member "comparison" of --json, as cli/compare/compare.h describes it. */
#include "cli/compare/compare_internal.h"
#include "cli/output/json_members.h"

#include <math.h>

static void begin(FILE *stream, const char *name, bool first)
{
    es_json_name(stream, name, first);
    fputc('{', stream);
}

static void begin_counted(FILE *stream, const char *name, size_t n_finite,
                          size_t nonfinite, size_t missing)
{
    begin(stream, name, false);
    fprintf(stream, "\"n\":%zu,\"nonfinite\":%zu,\"missing\":%zu", n_finite,
            nonfinite, missing);
}

static void put_percent(FILE *stream, const char *name,
                        es_compare_number measure)
{
    es_json_number(stream, name, measure.missing ? (double)NAN : measure.value,
                   measure.missing ? "missing" : "nan");
}

/* --- settings -------------------------------------------------------------*/

static es_status put_value(FILE *stream, const es_run_setting *setting)
{
    if (setting->kind == ES_CONFIG_TEXT)
        return es_json_quoted(stream, setting->text);
    if (setting->kind != ES_CONFIG_NUMBER || isfinite(setting->number))
        return es_json_value(stream, setting->text);
    fputs("null", stream); /* a number too large for a double */
    return ES_OK;
}

static es_status put_key(FILE *stream, const char *key, bool first)
{
    fputs(first ? "" : ",", stream);
    return es_json_quoted(stream, key);
}

/* The values of a run in which runs differ; of a configuration those that its
   runs share. */
static es_status put_settings(FILE *stream, const es_comparison *comparison,
                              size_t run, bool shared, bool name_first)
{
    es_status status;
    bool first = true;
    begin(stream, "settings", name_first);
    for (size_t i = 0; i < comparison->n_differences; i++) {
        const es_difference *difference = &comparison->differences[i];
        const es_run_setting *value = es_comparison_value(comparison, run, i);
        if (!value || (shared && (difference->seed || difference->incidental)))
            continue;
        if ((status = put_key(stream, difference->key, first)) < 0)
            return status;
        fputc(':', stream);
        if ((status = put_value(stream, value)) < 0)
            return status;
        first = false;
    }
    fputc('}', stream);
    return ES_OK;
}

static es_status put_keys(FILE *stream, const es_comparison *comparison,
                          const char *name, bool incidental)
{
    bool first = true;
    es_json_name(stream, name, false);
    fputc('[', stream);
    for (size_t i = 0; i < comparison->n_differences; i++) {
        const es_difference *difference = &comparison->differences[i];
        if (difference->incidental != incidental)
            continue;
        es_status status = put_key(stream, difference->key, first);
        if (status < 0)
            return status;
        first = false;
    }
    fputc(']', stream);
    return ES_OK;
}

/* --- runs -----------------------------------------------------------------*/

static void put_evaluations(FILE *stream, const es_compared *run)
{
    begin(stream, "eval", false);
    fprintf(stream, "\"n\":%zu,\"nonfinite\":%zu", run->n_evals,
            run->nonfinite_evals);
    es_json_integer(stream, "final_step", run->final.step);
    es_json_measured(stream, "final_ppl", run->final.ppl);
    es_json_integer(stream, "best_step", run->best.step);
    es_json_measured(stream, "best_ppl", run->best.ppl);
    fputc('}', stream);
}

static void put_entropy(FILE *stream, const es_distribution *entropy)
{
    const char *unknown = entropy->nonfinite ? "nan" : "missing";
    begin_counted(stream, "entropy", entropy->n_finite, entropy->nonfinite,
                  entropy->missing);
    es_json_number(stream, "q25", es_stats_quantile(entropy, 0.25), unknown);
    es_json_number(stream, "median", es_stats_quantile(entropy, 0.5), unknown);
    es_json_number(stream, "q75", es_stats_quantile(entropy, 0.75), unknown);
    fputc('}', stream);
}

static void put_onsets(FILE *stream, const es_compared *run)
{
    begin(stream, "onsets", false);
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++) {
        const es_onset *onset = &run->onsets[kind];
        begin(stream, es_flag_name((es_flag_kind)kind), kind == 0);
        fprintf(stream, "\"episodes\":%zu,\"stands\":%s", onset->n_episodes,
                onset->stands ? "true" : "false");
        es_json_integer(stream, "any", onset->any);
        es_json_integer(stream, "error", onset->error);
        fputc('}', stream);
    }
    fputc('}', stream);
}

static void put_distance(FILE *stream, const es_compared *run, size_t to)
{
    begin(stream, "distance", false);
    fprintf(stream, "\"to\":%zu", to);
    es_json_number(stream, "ks", run->ks, "missing");
    es_json_number(stream, "p", run->p, "missing");
    es_json_number(stream, "wasserstein", run->wasserstein, "missing");
    fputc('}', stream);
}

static void put_points(FILE *stream, const es_compare_number *bands)
{
    es_json_name(stream, "bands_points", false);
    fputc('[', stream);
    for (int band = 0; band < ES_N_BANDS; band++) {
        fputs(band ? "," : "", stream);
        if (bands[band].missing)
            fputs("null", stream);
        else
            es_json_digits(stream, bands[band].value);
    }
    fputc(']', stream);
    if (bands[0].missing)
        fputs(",\"bands_points_state\":\"missing\"", stream);
}

static void put_relative(FILE *stream, const es_relative *relative, size_t to)
{
    begin(stream, "relative", false);
    fprintf(stream, "\"to\":%zu", to);
    put_percent(stream, "final_percent", relative->final);
    put_percent(stream, "best_percent", relative->best);
    put_points(stream, relative->bands);
    put_percent(stream, "balanced_points", relative->balanced);
}

static void put_later(FILE *stream, const es_relative *relative)
{
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++) {
        const char *name = es_flag_name((es_flag_kind)kind);
        char member[64];
        snprintf(member, sizeof member, "%s_later", name);
        es_json_integer(stream, member, relative->later[kind].any);
        snprintf(member, sizeof member, "%s_error_later", name);
        es_json_integer(stream, member, relative->later[kind].error);
    }
}

static es_status put_run(FILE *stream, const es_comparison *comparison,
                         size_t index)
{
    const es_compared *run = &comparison->runs[index];
    const size_t to = comparison->reference;
    es_relative relative;
    fputs(index ? ",\n{" : "\n{", stream);
    es_status status = put_settings(stream, comparison, index, false, true);
    if (status < 0)
        return status;
    es_json_integer(stream, "configuration", (int64_t)run->configuration);
    put_evaluations(stream, run);
    put_entropy(stream, &run->entropy);
    put_onsets(stream, run);
    put_distance(stream, run, to);
    if (comparison->has_baseline) {
        es_compare_runs(&relative, run, &comparison->runs[to]);
        put_relative(stream, &relative, to);
        put_later(stream, &relative);
        fputc('}', stream);
    }
    fputc('}', stream);
    return ES_OK;
}

/* --- configurations -------------------------------------------------------*/

static void put_summary(FILE *stream, const char *name,
                        const es_summary *summary)
{
    const char *unknown = summary->nonfinite ? "nan" : "missing";
    begin_counted(stream, name, summary->n_finite, summary->nonfinite,
                  summary->missing);
    es_json_number(stream, "mean", summary->mean, unknown);
    es_json_number(stream, "std", summary->std,
                   summary->n_finite ? "missing" : unknown);
    es_json_number(stream, "min", summary->min, unknown);
    es_json_number(stream, "max", summary->max, unknown);
    fputc('}', stream);
}

static void put_members(FILE *stream, const es_comparison *comparison,
                        size_t index)
{
    size_t n = 0;
    es_json_name(stream, "runs", true);
    fputc('[', stream);
    for (size_t i = 0; i < comparison->n_runs; i++)
        if (comparison->runs[i].configuration == index)
            fprintf(stream, n++ ? ",%zu" : "%zu", i);
    fputc(']', stream);
}

static void put_pooled(FILE *stream, const es_bands *bands)
{
    begin(stream, "bands", false);
    fprintf(stream, "\"heads\":%zu,\"nonfinite\":%zu", bands->n_heads,
            bands->nonfinite);
    es_json_fractions(stream, bands);
    es_json_number(stream, "balanced", es_bands_balanced(bands), "missing");
    fputc('}', stream);
}

static es_status
put_configuration(FILE *stream, const es_comparison *comparison, size_t index)
{
    const es_configuration *one = &comparison->configurations[index];
    fputs(index ? ",\n{" : "\n{", stream);
    put_members(stream, comparison, index);
    es_status status =
        put_settings(stream, comparison, one->first, true, false);
    if (status < 0)
        return status;
    put_summary(stream, "final", &one->final);
    put_summary(stream, "best", &one->best);
    put_pooled(stream, &one->bands);
    if (comparison->has_baseline) {
        size_t to = comparison->runs[comparison->reference].configuration;
        es_relative relative;
        es_compare_configurations(&relative, one,
                                  &comparison->configurations[to]);
        put_relative(stream, &relative, to);
        fputc('}', stream);
    }
    fputc('}', stream);
    return ES_OK;
}

/* --- distances ------------------------------------------------------------*/

typedef double measure_distance(const es_distribution *a,
                                const es_distribution *b);

static void put_matrix(FILE *stream, const es_comparison *comparison,
                       const char *name, bool first, measure_distance *measure)
{
    size_t n = comparison->n_runs;
    es_json_name(stream, name, first);
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            double distance = measure(&comparison->runs[i].entropy,
                                      &comparison->runs[j].entropy);
            fputs(j ? "," : i ? "],\n[" : "[[", stream);
            if (isnan(distance))
                fputs("null", stream);
            else
                es_json_digits(stream, distance);
        }
    fputs("]]", stream);
}

static void put_distances(FILE *stream, const es_comparison *comparison)
{
    if (comparison->n_runs > ES_COMPARE_MATRIX_MOST) {
        es_json_name(stream, "distances", false);
        fputs("null", stream);
        return;
    }
    begin(stream, "distances", false);
    put_matrix(stream, comparison, "ks", true, es_stats_ks);
    put_matrix(stream, comparison, "wasserstein", false, es_stats_wasserstein);
    fputc('}', stream);
}

es_status es_comparison_json(const es_comparison *comparison, FILE *stream)
{
    es_status status;
    begin(stream, "comparison", false);
    fprintf(stream, "\"reference\":%zu,\"baseline\":", comparison->reference);
    fprintf(stream, comparison->has_baseline ? "%zu" : "null",
            comparison->reference);
    if ((status = put_keys(stream, comparison, "differing", false)) < 0 ||
        (status = put_keys(stream, comparison, "incidental", true)) < 0)
        return status;
    es_json_name(stream, "runs", false);
    fputc('[', stream);
    for (size_t i = 0; i < comparison->n_runs; i++)
        if ((status = put_run(stream, comparison, i)) < 0)
            return status;
    fputs("]", stream);
    es_json_name(stream, "configurations", false);
    fputc('[', stream);
    for (size_t i = 0; i < comparison->n_configurations; i++)
        if ((status = put_configuration(stream, comparison, i)) < 0)
            return status;
    fputs("]", stream);
    if (comparison->n_runs > 0)
        put_distances(stream, comparison);
    fputs("}\n", stream);
    return ES_OK;
}
