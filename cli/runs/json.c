/* Implements --json: writes the fields of cli/runs/fields.c, and the lists and
   objects of a run: bands, layers, flags, damaged samples, configuration. */
#include "cli/runs/json.h"

#include "cli/runs/fields.h"
#include <math.h>

static void put_fields(es_json_writer *json, const es_run_summary *summary,
                       unsigned output)
{
    for (const es_field *field = NULL;
         (field = es_field_next(field, output));) {
        const char *name = field->name;
        switch (field->type) {
        case ES_FIELD_TEXT:
            es_json_write_text(json, name, es_field_text(field, summary));
            break;
        case ES_FIELD_INTEGER:
            es_json_write_known(json, name, es_field_integer(field, summary));
            break;
        case ES_FIELD_MEASURED:
            es_json_write_measured(json, name,
                                   es_field_measured(field, summary));
            break;
        case ES_FIELD_COMPUTED:
            es_json_write_stated(json, name, es_field_number(field, summary),
                                 "missing");
            break;
        }
    }
}

void es_json_fractions(es_json_writer *json, const es_bands *bands)
{
    es_json_write_array(json, "fractions");
    for (int band = 0; band < ES_N_BANDS; band++)
        es_json_write_number(json, NULL, es_bands_fraction(bands, band));
    es_json_write_end(json, "]");
    if (!bands->n_heads)
        es_json_write_text(json, "fractions_state", "missing");
}

void es_json_advice(es_json_writer *json, const char *name,
                    const es_flag_info *info)
{
    if (!info) {
        es_json_write_null(json, name);
        return;
    }
    es_json_write_object(json, name);
    es_json_write_text(json, "causes", info->causes);
    es_json_write_text(json, "remedies", info->remedies);
    es_json_write_array(json, "sources");
    for (size_t i = 0; i < ES_FLAG_SOURCES_MOST && info->sources[i]; i++)
        es_json_write_text(json, NULL, info->sources[i]);
    es_json_write_end(json, "]");
    es_json_write_end(json, "}");
}

/* Writes a flag. If `by_name` is true, writes only the name of the flag's
   advice instead of the text, because the caller writes the text of each kind
   once elsewhere. */
static void put_flag(es_json_writer *json, const es_flag *flag, int64_t n_heads,
                     bool by_name)
{
    const es_flag_info *info = es_flag_advice(flag);
    es_json_write_object(json, NULL);
    es_json_write_text(json, "kind", es_flag_title(flag));
    es_json_write_text(json, "severity", es_severity_name(flag->severity));
    es_json_write_bool(json, "stands", flag->stands);
    es_json_write_integer(json, "onset", flag->onset);
    es_json_write_integer(json, "last", flag->last);
    es_json_write_integer(json, "reported", flag->reported);
    es_json_write_array(json, "layers");
    for (size_t i = 0; i < flag->n_layers; i++)
        es_json_write_integer(json, NULL, flag->layers[i]);
    es_json_write_end(json, "]");
    es_json_write_array(json, "heads");
    for (size_t i = 0; i < flag->n_heads; i++) {
        es_json_write_array(json, NULL);
        es_json_write_integer(json, NULL, flag->heads[i] / n_heads);
        es_json_write_integer(json, NULL, flag->heads[i] % n_heads);
        es_json_write_end(json, "]");
    }
    es_json_write_end(json, "]");
    es_json_write_stated(json, "value", flag->value, "missing");
    es_json_write_stated(json, "threshold", flag->threshold, "missing");
    if (!flag->rule)
        es_json_write_text(json, "verdict",
                           es_flag_verdict(flag->kind, flag->severity));
    if (by_name)
        es_json_write_text(json, "advice", info ? info->name : NULL);
    else
        es_json_advice(json, "advice", info);
    es_json_write_end(json, "}");
}

static void put_flags(es_json_writer *json, const es_run_summary *summary,
                      bool by_name)
{
    if (!summary->judged) {
        es_json_write_null(json, "flags");
        return;
    }
    es_json_write_array(json, "flags");
    for (size_t i = 0; i < summary->n_flags; i++)
        put_flag(json, &summary->flags[i], summary->n_head, by_name);
    es_json_write_end(json, "]");
    if (summary->end_damaged)
        es_json_write_text(json, "flags_state", "damaged");
}

static void put_damage(es_json_writer *json, const es_run_summary *summary)
{
    es_json_write_bool(json, "checksums", summary->checksums);
    es_json_write_array(json, "damaged");
    for (size_t i = 0; i < summary->n_damaged; i++) {
        const es_damaged *sample = &summary->damaged[i];
        es_json_write_object(json, NULL);
        if (sample->table) {
            es_json_write_text(json, "row", es_row_table_name(sample->table));
            es_json_write_integer(json, "id", sample->row);
        } else if (sample->n_frames) {
            es_json_write_integer(json, sample->is_lost ? "lost" : "frames",
                                  (int64_t)sample->n_frames);
        } else {
            es_json_write_text(json, "series", sample->series);
            es_json_write_text(json, "phase", es_phase_name(sample->phase));
        }
        es_json_write_known(json, "step", sample->step);
        es_json_write_end(json, "}");
    }
    es_json_write_end(json, "]");
}

/* Writes the ceiling with which flags compare the layer's heads: a number, or
   an array if the heads have different ceilings. */
static void put_ceiling(es_json_writer *json, const es_run_summary *summary,
                        size_t layer)
{
    const es_judge_run run = es_summary_judged(summary);
    const size_t n = (size_t)summary->n_head;
    const double first = es_judge_run_ceiling_of(&run, layer * n);
    bool same = true;
    for (size_t h = 1; h < n; h++)
        same = same && !(es_judge_run_ceiling_of(&run, layer * n + h) != first);
    if (same) {
        es_json_write_stated(json, "ceiling", first, "missing");
        return;
    }
    es_json_write_array(json, "ceiling");
    for (size_t h = 0; h < n; h++)
        es_json_write_number(json, NULL,
                             es_judge_run_ceiling_of(&run, layer * n + h));
    es_json_write_end(json, "]");
}

static void put_described(es_json_writer *json, const es_run_summary *summary,
                          size_t layer)
{
    const es_layer *known = &summary->described->list[layer];
    es_json_write_text(json, "name", known->name);
    es_json_write_text(json, "kind",
                       known->kind == ES_LAYER_UNKNOWN
                           ? NULL
                           : es_layer_kind_name(known->kind));
    put_ceiling(json, summary, layer);
}

void es_json_run_members(es_json_writer *json, const es_run_summary *summary,
                         bool advice_by_name)
{
    put_fields(json, summary, ES_FIELD_IN_JSON);
    es_json_write_object(json, "bands");
    es_json_write_array(json, "counts");
    for (int band = 0; band < ES_N_BANDS; band++)
        es_json_write_size(json, NULL, summary->bands.counts[band]);
    es_json_write_end(json, "]");
    es_json_fractions(json, &summary->bands);
    put_fields(json, summary, ES_FIELD_IN_BANDS);
    es_json_write_end(json, "}");
    es_json_write_array(json, "layers");
    for (size_t row = 0; row < summary->n_rows; row++) {
        const es_summary *layer = &summary->layers[row];
        const char *unknown = layer->nonfinite ? "nan" : "missing";
        es_json_write_object(json, NULL);
        es_json_write_size(json, "layer", row);
        es_json_write_stated(json, "mean", layer->mean, unknown);
        es_json_write_stated(json, "min", layer->min, unknown);
        es_json_write_stated(json, "max", layer->max, unknown);
        es_json_write_stated(json, "std", layer->std,
                             layer->n_finite ? "missing" : unknown);
        es_json_write_size(json, "nonfinite", layer->nonfinite);
        if (summary->described && summary->n_rows == (size_t)summary->n_layer)
            put_described(json, summary, row);
        es_json_write_end(json, "}");
    }
    es_json_write_end(json, "]");
    put_flags(json, summary, advice_by_name);
    put_fields(json, summary, ES_FIELD_IN_JSON_END);
    put_damage(json, summary);
    es_json_write_json(json, "config",
                       summary->config ? summary->config : "null");
}

static void put_run(es_json_writer *json, const es_run_summary *summary,
                    bool advice_by_name)
{
    es_json_write_object(json, NULL);
    es_json_run_members(json, summary, advice_by_name);
    es_json_write_end(json, "}");
}

/* --- document ------------------------------------------------------------- */

void es_json_max(es_json_writer *to, const es_max *max, double observed)
{
    const bool shared =
        max->policy == ES_MAX_OBSERVED || max->policy == ES_MAX_NUMBER;
    es_json_write_object(to, "max");
    es_json_write_text(to, "policy", es_max_name(max->policy));
    es_json_write_stated(to, "value",
                         shared ? es_max_value(max, observed, NAN, NAN, 0)
                                : (double)NAN,
                         "missing");
    es_json_write_end(to, "}");
}

void es_json_begin(es_json *json, FILE *stream, const es_max *max,
                   double observed)
{
    *json = (es_json){.writer = {.stream = stream}};
    es_json_writer *to = &json->writer;
    es_json_write_object(to, NULL);
    es_json_write_integer(to, "schema", ES_JSON_SCHEMA);
    es_json_max(to, max, observed);
    es_json_write_line(to);
    es_json_write_array(to, "runs");
}

void es_json_run(es_json *json, const es_run_summary *summary)
{
    es_json_write_line(&json->writer);
    put_run(&json->writer, summary, json->advice_by_name);
}

void es_json_line(FILE *stream, const es_run_summary *summary)
{
    put_run(&(es_json_writer){.stream = stream}, summary, false);
    fputc('\n', stream);
}

es_json_writer *es_json_end_runs(es_json *json)
{
    if (!json->ended) {
        es_json_write_line(&json->writer);
        es_json_write_end(&json->writer, "]");
    }
    json->ended = true;
    return &json->writer;
}

void es_json_rules(es_json *json, const es_rules_file *rules)
{
    es_json_writer *to = es_json_end_runs(json);
    if (rules && es_rules_file_is_set(rules))
        es_rules_file_json(to, rules);
}

void es_json_end(es_json *json)
{
    es_json_write_end(es_json_end_runs(json), "}");
    fputc('\n', json->writer.stream);
}
