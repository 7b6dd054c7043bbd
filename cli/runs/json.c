#include "cli/runs/json.h"

#include "cli/output/json_members.h"
#include <inttypes.h>
#include <math.h>

static void put_bands(FILE *stream, const es_run_summary *summary)
{
    const es_bands *bands = &summary->bands;
    fputs(",\"bands\":{\"counts\":[", stream);
    for (int band = 0; band < ES_N_BANDS; band++)
        fprintf(stream, band ? ",%zu" : "%zu", bands->counts[band]);
    fputs("]", stream);
    es_json_fractions(stream, bands);
    fprintf(stream, ",\"nonfinite\":%zu,\"heads\":%zu", bands->nonfinite,
            bands->n_heads);
    es_json_number(stream, "balanced", es_bands_balanced(bands), "missing");
    es_json_number(stream, "max", summary->m, "missing");
    fputs("}", stream);
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
        fprintf(stream,
                "%s{\"kind\":\"%s\",\"severity\":\"%s\",\"stands\":%s"
                ",\"onset\":%" PRId64 ",\"last\":%" PRId64 ",\"told\":%" PRId64,
                i ? "," : "", es_flag_title(flag),
                es_severity_name(flag->severity),
                flag->stands ? "true" : "false", flag->onset, flag->last,
                flag->told);
        put_places(stream, flag, summary->n_head);
        es_json_number(stream, "value", flag->value, "missing");
        es_json_number(stream, "threshold", flag->threshold, "missing");
        fputs("}", stream);
    }
    fputs("]", stream);
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

static es_status put_identity(FILE *stream, const es_run_summary *summary)
{
    es_status status;
    es_json_name(stream, "path", true);
    if ((status = es_json_quoted(stream, summary->path)))
        return status;
    es_json_integer(stream, "run", (int64_t)summary->number);
    if ((status = es_json_text(stream, "name", summary->name)) ||
        (status = es_json_text(stream, "arch", summary->arch)) ||
        (status = es_json_text(stream, "status", summary->status)))
        return status;
    es_json_integer(stream, "n_layer", summary->n_layer);
    es_json_integer(stream, "n_head", summary->n_head);
    es_json_integer(stream, "ctx", summary->ctx);
    es_json_integer(stream, "step", summary->step);
    if ((status = es_json_text(stream, "phase", es_phase_name(summary->phase))))
        return status;
    return es_json_text(stream, "series", summary->series);
}

void es_json_begin(es_json *json, FILE *stream, const es_max *max,
                   double observed)
{
    bool shared =
        max->policy == ES_MAX_OBSERVED || max->policy == ES_MAX_NUMBER;
    *json = (es_json){.stream = stream};
    fprintf(stream, "{\"schema\":1,\"max\":{\"policy\":\"%s\"",
            es_max_name(max->policy));
    es_json_number(stream, "value",
                   shared ? es_max_value(max, observed, NAN, 0) : NAN,
                   "missing");
    fputs("},\n\"runs\":[", stream);
}

static es_status put_run(FILE *stream, const es_run_summary *summary)
{
    fputs("{", stream);
    es_status status = put_identity(stream, summary);
    if (status)
        return status;
    es_json_measured(stream, "loss", summary->loss);
    es_json_measured(stream, "ppl", summary->ppl);
    es_json_measured(stream, "eval_loss", summary->eval_loss);
    es_json_measured(stream, "eval_ppl", summary->eval_ppl);
    es_json_number(stream, "ceiling", summary->ceiling, "missing");
    put_bands(stream, summary);
    put_layers(stream, summary);
    put_flags(stream, summary);
    es_json_integer(stream, "collapse_before_nan",
                    es_summary_collapse_before_nan(summary));
    if ((status = put_damage(stream, summary)))
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
    fputs("\n]", json->stream);
    json->ended = true;
}

void es_json_end(es_json *json)
{
    if (!json->ended)
        es_json_end_runs(json);
    fputs("}\n", json->stream);
}
