/* Writes the member "comparison" of --json, which cli/compare/compare.h
 * describes. */
#include "cli/runs/json.h"
#include "cli/compare/compare_internal.h"

#include <math.h>

static void begin_counted(es_json_writer *json, const char *name,
                          size_t n_finite, size_t nonfinite, size_t missing)
{
    es_json_write_object(json, name);
    es_json_write_size(json, "n", n_finite);
    es_json_write_size(json, "nonfinite", nonfinite);
    es_json_write_size(json, "missing", missing);
}

static void put_number(es_json_writer *json, const char *name,
                       es_compare_number number)
{
    es_json_write_stated(json, name,
                         number.missing ? (double)NAN : number.value,
                         number.missing ? "missing" : "nan");
}

/* --- settings -------------------------------------------------------------*/

/* Writes a run's values of the settings in which runs differ. If `shared` is
 * true, the run represents its configuration, and only settings that all runs
 * of the configuration share are written. */
static void put_settings(es_json_writer *json, const es_comparison *comparison,
                         size_t run, bool shared)
{
    es_json_write_object(json, "settings");
    for (size_t i = 0; i < comparison->n_differences; i++) {
        const es_difference *difference = &comparison->differences[i];
        const es_run_setting *value = es_comparison_value(comparison, run, i);
        if (!value || (shared && (difference->seed || difference->incidental)))
            continue;
        if (value->kind == ES_CONFIG_TEXT)
            es_json_write_text(json, difference->key, value->text);
        else if (value->kind == ES_CONFIG_NUMBER && !isfinite(value->number))
            es_json_write_null(json, difference->key); /* a number that JSON
                                                          cannot represent */
        else
            es_json_write_json(json, difference->key, value->text);
    }
    es_json_write_end(json, "}");
}

static void put_keys(es_json_writer *json, const es_comparison *comparison,
                     const char *name, bool incidental)
{
    es_json_write_array(json, name);
    for (size_t i = 0; i < comparison->n_differences; i++)
        if (comparison->differences[i].incidental == incidental)
            es_json_write_text(json, NULL, comparison->differences[i].key);
    es_json_write_end(json, "]");
}

/* --- runs -----------------------------------------------------------------*/

static void put_entropy(es_json_writer *json, const es_distribution *entropy)
{
    static const char *const names[] = {"q25", "median", "q75"};
    begin_counted(json, "entropy", entropy->n_finite, entropy->nonfinite,
                  entropy->missing);
    for (int i = 0; i < 3; i++)
        es_json_write_stated(json, names[i],
                             es_stats_quantile(entropy, (i + 1) / 4.0),
                             entropy->nonfinite ? "nan" : "missing");
    es_json_write_end(json, "}");
}

static void put_onsets(es_json_writer *json, const es_compared *run)
{
    es_json_write_object(json, "onsets");
    for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++) {
        const es_onset *onset = &run->onsets[kind];
        es_json_write_object(json, es_flag_name((es_flag_kind)kind));
        es_json_write_size(json, "episodes", onset->n_episodes);
        es_json_write_bool(json, "stands", onset->stands);
        es_json_write_known(json, "any", onset->any);
        es_json_write_known(json, "error", onset->error);
        es_json_write_end(json, "}");
    }
    es_json_write_end(json, "}");
}

/* Writes the object "relative" and leaves it open, so that the caller can add
 * members. */
static void put_relative(es_json_writer *json, const es_relative *relative,
                         size_t to)
{
    es_json_write_object(json, "relative");
    es_json_write_size(json, "to", to);
    put_number(json, "final_percent", relative->final);
    put_number(json, "best_percent", relative->best);
    es_json_write_array(json, "bands_points");
    for (int band = 0; band < ES_N_BANDS; band++)
        es_json_write_number(json, NULL,
                             relative->bands[band].missing
                                 ? (double)NAN
                                 : relative->bands[band].value);
    es_json_write_end(json, "]");
    if (relative->bands[0].missing)
        es_json_write_text(json, "bands_points_state", "missing");
    put_number(json, "balanced_points", relative->balanced);
}

static void put_run(es_json_writer *json, const es_comparison *comparison,
                    size_t index)
{
    const es_compared *run = &comparison->runs[index];
    const size_t to = comparison->reference;
    es_relative relative;
    es_json_write_line(json);
    es_json_write_object(json, NULL);
    es_json_write_text(json, "label", comparison->labels.plain[index]);
    put_settings(json, comparison, index, false);
    es_json_write_size(json, "configuration", run->configuration);
    es_json_write_object(json, "eval");
    es_json_write_size(json, "n", run->n_evals);
    es_json_write_size(json, "nonfinite", run->nonfinite_evals);
    es_json_write_known(json, "final_step", run->final.step);
    es_json_write_measured(json, "final_ppl", run->final.ppl);
    es_json_write_known(json, "best_step", run->best.step);
    es_json_write_measured(json, "best_ppl", run->best.ppl);
    es_json_write_end(json, "}");
    put_entropy(json, &run->entropy);
    put_onsets(json, run);
    es_json_write_object(json, "distance");
    es_json_write_size(json, "to", to);
    es_json_write_stated(json, "ks", run->ks, "missing");
    es_json_write_stated(json, "p", run->p, "missing");
    es_json_write_stated(json, "p_holm", run->p_holm, "missing");
    es_json_write_stated(json, "wasserstein", run->wasserstein, "missing");
    es_json_write_end(json, "}");
    if (comparison->has_baseline) {
        es_compare_runs(&relative, run, &comparison->runs[to]);
        put_relative(json, &relative, to);
        for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++) {
            const char *name = es_flag_name((es_flag_kind)kind);
            char member[64];
            snprintf(member, sizeof member, "%s_later", name);
            es_json_write_known(json, member, relative.later[kind].any);
            snprintf(member, sizeof member, "%s_error_later", name);
            es_json_write_known(json, member, relative.later[kind].error);
        }
        es_json_write_end(json, "}");
    }
    es_json_write_end(json, "}");
}

/* --- configurations -------------------------------------------------------*/

static void put_summary(es_json_writer *json, const char *name,
                        const es_summary *summary)
{
    const char *unknown = summary->nonfinite ? "nan" : "missing";
    begin_counted(json, name, summary->n_finite, summary->nonfinite,
                  summary->missing);
    es_json_write_stated(json, "mean", summary->mean, unknown);
    es_json_write_stated(json, "std", summary->std,
                         summary->n_finite ? "missing" : unknown);
    es_json_write_stated(json, "min", summary->min, unknown);
    es_json_write_stated(json, "max", summary->max, unknown);
    es_json_write_end(json, "}");
}

static void put_reason(es_json_writer *json, const char *name, es_reason reason)
{
    if (reason)
        es_json_write_text(json, name, es_reason_text(reason));
    else
        es_json_write_null(json, name);
}

static void put_evidence(es_json_writer *json, const es_evidence *by)
{
    const struct {
        const char *name;
        double value;
    } members[] = {{"ppl_difference", by->ppl.difference},
                   {"ppl_low", by->ppl.low},
                   {"ppl_high", by->ppl.high},
                   {"hedges_g", by->ppl.g},
                   {"welch_t", by->ppl.t},
                   {"welch_freedom", by->ppl.freedom},
                   {"welch_p", by->ppl.p},
                   {"welch_p_holm", by->welch_holm},
                   {"seeds_p", by->ppl.permuted},
                   {"seeds_p_holm", by->permuted_holm},
                   {"ks", by->ks},
                   {"layers_p", by->p},
                   {"layers_p_holm", by->p_holm}};
    es_json_write_object(json, "evidence");
    for (size_t i = 0; i < sizeof members / sizeof *members; i++)
        es_json_write_stated(json, members[i].name, members[i].value,
                             "missing");
    put_reason(json, "ppl_reason", by->ppl.reason);
    es_json_write_end(json, "}");
}

static void put_configuration(es_json_writer *json,
                              const es_comparison *comparison, size_t index)
{
    const es_configuration *one = &comparison->configurations[index];
    es_json_write_line(json);
    es_json_write_object(json, NULL);
    es_json_write_array(json, "runs");
    for (size_t i = 0; i < comparison->n_runs; i++)
        if (comparison->runs[i].configuration == index)
            es_json_write_size(json, NULL, i);
    es_json_write_end(json, "]");
    es_json_write_text(json, "label",
                       comparison->configuration_labels.plain[index]);
    put_settings(json, comparison, one->first, true);
    put_summary(json, "final", &one->final);
    put_summary(json, "best", &one->best);
    es_json_write_object(json, "interval");
    es_json_write_stated(json, "low", one->mean.low, "missing");
    es_json_write_stated(json, "high", one->mean.high, "missing");
    put_reason(json, "reason", one->mean.reason);
    es_json_write_end(json, "}");
    es_json_write_object(json, "bands");
    es_json_write_size(json, "heads", one->bands.n_heads);
    es_json_write_size(json, "nonfinite", one->bands.nonfinite);
    es_json_fractions(json, &one->bands);
    es_json_write_stated(json, "balanced", es_bands_balanced(&one->bands),
                         "missing");
    es_json_write_end(json, "}");
    if (comparison->has_baseline) {
        size_t to = comparison->runs[comparison->reference].configuration;
        es_relative relative;
        es_compare_configurations(&relative, one,
                                  &comparison->configurations[to]);
        put_relative(json, &relative, to);
        es_json_write_end(json, "}");
        if (index != to)
            put_evidence(json, &one->evidence);
    }
    es_json_write_end(json, "}");
}

/* --- distances ------------------------------------------------------------*/

typedef double measure_distance(const es_distribution *a,
                                const es_distribution *b);

static void put_matrix(es_json_writer *json, const es_comparison *comparison,
                       const char *name, measure_distance *measure)
{
    const es_compared *runs = comparison->runs;
    es_json_write_array(json, name);
    for (size_t i = 0; i < comparison->n_runs; i++) {
        if (i > 0)
            es_json_write_line(json);
        es_json_write_array(json, NULL);
        for (size_t k = 0; k < comparison->n_runs; k++)
            es_json_write_number(json, NULL,
                                 measure(&runs[i].entropy, &runs[k].entropy));
        es_json_write_end(json, "]");
    }
    es_json_write_end(json, "]");
}

void es_comparison_json(const es_comparison *comparison, es_json_writer *json)
{
    es_json_write_object(json, "comparison");
    es_json_write_size(json, "reference", comparison->reference);
    if (comparison->has_baseline)
        es_json_write_size(json, "baseline", comparison->reference);
    else
        es_json_write_null(json, "baseline");
    put_keys(json, comparison, "differing", false);
    put_keys(json, comparison, "incidental", true);
    es_json_write_array(json, "runs");
    for (size_t i = 0; i < comparison->n_runs; i++)
        put_run(json, comparison, i);
    es_json_write_end(json, "]");
    es_json_write_array(json, "configurations");
    for (size_t i = 0; i < comparison->n_configurations; i++)
        put_configuration(json, comparison, i);
    es_json_write_end(json, "]");
    if (comparison->n_runs > ES_COMPARE_MATRIX_MOST) {
        es_json_write_null(json, "distances");
    } else if (comparison->n_runs > 0) {
        es_json_write_object(json, "distances");
        put_matrix(json, comparison, "ks", es_stats_ks);
        put_matrix(json, comparison, "wasserstein", es_stats_wasserstein);
        es_json_write_end(json, "}");
    }
    es_json_write_end(json, "}");
    fputc('\n', json->stream);
}
