/* `--json`: the fields of cli/runs/fields.c, and what of a run is a list or an
   object: bands, layers, flags, damaged samples, configuration. */
#include "cli/runs/json.h"

#include "cli/output/json_members.h"
#include "cli/runs/fields.h"
#include <inttypes.h>
#include <math.h>

/* The fields of an output; the comma before the first one, if it is a text, is
   left out, for an object that begins with it. */
static es_status put_fields(FILE *stream, const es_run_summary *summary,
                            unsigned output)
{
    bool first = true;
    for (const es_field *field = NULL; (field = es_field_next(field, output));
         first = false) {
        if (field->type == ES_FIELD_INTEGER) {
            es_json_integer(stream, field->name,
                            es_field_integer(field, summary));
        } else if (field->type == ES_FIELD_MEASURED) {
            es_json_measured(stream, field->name,
                             es_field_measured(field, summary));
        } else if (field->type == ES_FIELD_COMPUTED) {
            es_json_number(stream, field->name, es_field_number(field, summary),
                           "missing");
        } else {
            const char *text = es_field_text(field, summary);
            es_json_name(stream, field->name, first);
            es_status status = text ? es_json_quoted(stream, text) : ES_OK;
            if (status < 0)
                return status;
            fputs(text ? "" : "null", stream);
        }
    }
    return ES_OK;
}

static es_status put_bands(FILE *stream, const es_run_summary *summary)
{
    const es_bands *bands = &summary->bands;
    fputs(",\"bands\":{\"counts\":[", stream);
    for (int band = 0; band < ES_N_BANDS; band++)
        fprintf(stream, band ? ",%zu" : "%zu", bands->counts[band]);
    fputs("]", stream);
    es_json_fractions(stream, bands);
    es_status status = put_fields(stream, summary, ES_FIELD_IN_BANDS);
    fputs("}", stream);
    return status;
}

static void put_layers(FILE *stream, const es_run_summary *summary)
{
    fputs(",\"layers\":[", stream);
    for (size_t row = 0; row < summary->n_rows; row++) {
        const es_summary *layer = &summary->layers[row];
        const char *unknown = layer->nonfinite ? "nan" : "missing";
        fprintf(stream, "%s{\"layer\":%zu", row ? "," : "", row);
        es_json_number(stream, "mean", layer->mean, unknown);
        es_json_number(stream, "min", layer->min, unknown);
        es_json_number(stream, "max", layer->max, unknown);
        es_json_number(stream, "std", layer->std,
                       layer->n_finite ? "missing" : unknown);
        fprintf(stream, ",\"nonfinite\":%zu}", layer->nonfinite);
    }
    fputs("]", stream);
}

static void put_places(FILE *stream, const es_flag *flag, int64_t n_heads)
{
    fputs(",\"layers\":[", stream);
    for (size_t i = 0; i < flag->n_layers; i++)
        fprintf(stream, i ? ",%" PRIu32 : "%" PRIu32, flag->layers[i]);
    fputs("],\"heads\":[", stream);
    for (size_t i = 0; i < flag->n_heads; i++)
        fprintf(stream, "%s[%" PRId64 ",%" PRId64 "]", i ? "," : "",
                flag->heads[i] / n_heads, flag->heads[i] % n_heads);
    fputs("]", stream);
}

static void put_flags(FILE *stream, const es_run_summary *summary)
{
    if (!summary->judged) {
        fputs(",\"flags\":null", stream);
        return;
    }
    fputs(",\"flags\":[", stream);
    for (size_t i = 0; i < summary->n_flags; i++) {
        const es_flag *flag = &summary->flags[i];
        fprintf(
            stream,
            "%s{\"kind\":\"%s\",\"severity\":\"%s\",\"stands\":%s"
            ",\"onset\":%" PRId64 ",\"last\":%" PRId64 ",\"reported\":%" PRId64,
            i ? "," : "", es_flag_title(flag), es_severity_name(flag->severity),
            flag->stands ? "true" : "false", flag->onset, flag->last,
            flag->alerted);
        put_places(stream, flag, summary->n_head);
        es_json_number(stream, "value", flag->value, "missing");
        es_json_number(stream, "threshold", flag->threshold, "missing");
        fputs("}", stream);
    }
    fputs(summary->end_damaged ? "],\"flags_state\":\"damaged\"" : "]", stream);
}

static es_status put_damage(FILE *stream, const es_run_summary *summary)
{
    es_status status = ES_OK;
    fprintf(stream, ",\"checksums\":%s,\"damaged\":[",
            summary->checksums ? "true" : "false");
    for (size_t i = 0; status == ES_OK && i < summary->n_damaged; i++) {
        const es_damaged *sample = &summary->damaged[i];
        fputs(i ? ",{" : "{", stream);
        es_json_name(stream, "series", true);
        status = es_json_quoted(stream, sample->series);
        fprintf(stream, ",\"phase\":\"%s\",\"step\":%" PRId64 "}",
                es_phase_name(sample->phase), sample->step);
    }
    fputs("]", stream);
    return status;
}

void es_json_begin(es_json *json, FILE *stream, const es_max *max,
                   double observed)
{
    bool shared =
        max->policy == ES_MAX_OBSERVED || max->policy == ES_MAX_NUMBER;
    *json = (es_json){.stream = stream};
    fprintf(stream, "{\"schema\":" ES_JSON_SCHEMA ",\"max\":{\"policy\":\"%s\"",
            es_max_name(max->policy));
    es_json_number(stream, "value",
                   shared ? es_max_value(max, observed, NAN, 0) : NAN,
                   "missing");
    fputs("},\n\"runs\":[", stream);
}

static es_status put_run(FILE *stream, const es_run_summary *summary)
{
    es_status status;
    fputs("{", stream);
    if ((status = put_fields(stream, summary, ES_FIELD_IN_JSON)) < 0 ||
        (status = put_bands(stream, summary)) < 0)
        return status;
    put_layers(stream, summary);
    put_flags(stream, summary);
    if ((status = put_fields(stream, summary, ES_FIELD_IN_JSON_END)) < 0 ||
        (status = put_damage(stream, summary)) < 0)
        return status;
    es_json_name(stream, "config", false);
    status = es_json_value(stream, summary->config ? summary->config : "null");
    fputs("}", stream);
    return status;
}

es_status es_json_run(es_json *json, const es_run_summary *summary)
{
    fputs(json->n_runs++ ? ",\n" : "\n", json->stream);
    return put_run(json->stream, summary);
}

es_status es_json_line(FILE *stream, const es_run_summary *summary)
{
    es_status status = put_run(stream, summary);
    fputs("\n", stream);
    return status;
}

void es_json_end_runs(es_json *json)
{
    if (!json->ended)
        fputs("\n]", json->stream);
    json->ended = true;
}

void es_json_rules(es_json *json, const es_rules_file *rules)
{
    es_json_end_runs(json);
    if (rules && es_rules_file_is_set(rules))
        es_rules_file_json(
            &(es_json_writer){.stream = json->stream, .comma = true}, rules);
}

void es_json_end(es_json *json)
{
    es_json_end_runs(json);
    fputs("}\n", json->stream);
}
