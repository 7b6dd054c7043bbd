#include "cli/json.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/display.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Members are written with their comma before them; `first` leaves it out. */
static void put_name(FILE *stream, const char *name, bool first)
{
    fprintf(stream, first ? "\"%s\":" : ",\"%s\":", name);
}

static es_status put_quoted(FILE *stream, const char *text)
{
    char *escaped = es_display_escape(text, ES_ESCAPE_JSON);
    if (!escaped)
        return ES_ENOMEM;
    fprintf(stream, "\"%s\"", escaped);
    free(escaped);
    return ES_OK;
}

static es_status put_text(FILE *stream, const char *name, const char *text)
{
    put_name(stream, name, false);
    if (text)
        return put_quoted(stream, text);
    fputs("null", stream);
    return ES_OK;
}

static void put_digits(FILE *stream, double value)
{
    char text[ES_FLOAT_TEXT_MAX];
    fputs(es_display_number(text, value), stream);
}

static void put_state(FILE *stream, const char *name, const char *state)
{
    fprintf(stream, ",\"%s\":null,\"%s_state\":\"%s\"", name, name, state);
}

/* `unknown`: what it means if it is NaN. */
static void put_number(FILE *stream, const char *name, double value,
                       const char *unknown)
{
    if (!isfinite(value)) {
        put_state(stream, name,
                  isnan(value) ? unknown
                  : value > 0  ? "inf"
                               : "-inf");
        return;
    }
    put_name(stream, name, false);
    put_digits(stream, value);
}

static void put_measured(FILE *stream, const char *name, float value)
{
    put_number(stream, name, value, es_is_missing(value) ? "missing" : "nan");
}

static void put_integer(FILE *stream, const char *name, int64_t value)
{
    if (value == ES_UNKNOWN) {
        put_state(stream, name, "missing");
        return;
    }
    put_name(stream, name, false);
    fprintf(stream, "%" PRId64, value);
}

static void put_fractions(FILE *stream, const es_bands *bands)
{
    fputs(",\"fractions\":[", stream);
    for (int band = 0; band < ES_N_BANDS; band++) {
        fputs(band ? "," : "", stream);
        if (bands->n_heads == 0)
            fputs("null", stream);
        else
            put_digits(stream, es_bands_fraction(bands, band));
    }
    fputs(bands->n_heads ? "]" : "],\"fractions_state\":\"missing\"", stream);
}

static void put_bands(FILE *stream, const es_run_summary *summary)
{
    const es_bands *bands = &summary->bands;
    fputs(",\"bands\":{\"counts\":[", stream);
    for (int band = 0; band < ES_N_BANDS; band++)
        fprintf(stream, band ? ",%zu" : "%zu", bands->counts[band]);
    fputs("]", stream);
    put_fractions(stream, bands);
    fprintf(stream, ",\"nonfinite\":%zu,\"heads\":%zu", bands->nonfinite,
            bands->n_heads);
    put_number(stream, "balanced", es_bands_balanced(bands), "missing");
    put_number(stream, "max", summary->m, "missing");
    fputs("}", stream);
}

static void put_layers(FILE *stream, const es_run_summary *summary)
{
    fputs(",\"layers\":[", stream);
    for (size_t row = 0; row < summary->n_rows; row++) {
        const es_summary *layer = &summary->layers[row];
        const char *unknown = layer->nonfinite ? "nan" : "missing";
        fprintf(stream, "%s{\"layer\":%zu", row ? "," : "", row);
        put_number(stream, "mean", layer->mean, unknown);
        put_number(stream, "min", layer->min, unknown);
        put_number(stream, "max", layer->max, unknown);
        put_number(stream, "std", layer->std,
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
                ",\"onset\":%" PRId64 ",\"last\":%" PRId64,
                i ? "," : "", es_flag_name(flag->kind),
                es_severity_name(flag->severity),
                flag->stands ? "true" : "false", flag->onset, flag->last);
        put_places(stream, flag, summary->n_head);
        put_number(stream, "value", flag->value, "missing");
        put_number(stream, "threshold", flag->threshold, "missing");
        fputs("}", stream);
    }
    fputs("]", stream);
}

static es_status put_identity(FILE *stream, const es_run_summary *summary)
{
    es_status status;
    put_name(stream, "path", true);
    if ((status = put_quoted(stream, summary->path)))
        return status;
    put_integer(stream, "run", (int64_t)summary->number);
    if ((status = put_text(stream, "name", summary->name)) ||
        (status = put_text(stream, "arch", summary->arch)) ||
        (status = put_text(stream, "status", summary->status)))
        return status;
    put_integer(stream, "n_layer", summary->n_layer);
    put_integer(stream, "n_head", summary->n_head);
    put_integer(stream, "ctx", summary->ctx);
    put_integer(stream, "step", summary->step);
    if ((status = put_text(stream, "phase", es_phase_name(summary->phase))))
        return status;
    return put_text(stream, "series", summary->series);
}

/* It is JSON, but from a file: what is not ASCII can only stand in a string,
   and is escaped as in every other string. */
static es_status put_config(FILE *stream, const char *config)
{
    put_name(stream, "config", false);
    size_t n;
    for (const char *c = config ? config : "null"; *c; c += n) {
        bool plain = (unsigned char)*c < 0x7f;
        for (n = 1; c[n] && ((unsigned char)c[n] < 0x7f) == plain; n++)
            ;
        if (plain) {
            fwrite(c, 1, n, stream);
            continue;
        }
        char *part = strndup(c, n);
        char *escaped = part ? es_display_escape(part, ES_ESCAPE_JSON) : NULL;
        free(part);
        if (!escaped)
            return es_fail(ES_ENOMEM, "out of memory for a configuration");
        fputs(escaped, stream);
        free(escaped);
    }
    return ES_OK;
}

void es_json_begin(es_json *json, FILE *stream, const es_max *max,
                   double observed)
{
    bool shared =
        max->policy == ES_MAX_OBSERVED || max->policy == ES_MAX_NUMBER;
    *json = (es_json){.stream = stream};
    fprintf(stream, "{\"schema\":1,\"max\":{\"policy\":\"%s\"",
            es_max_name(max->policy));
    put_number(stream, "value",
               shared ? es_max_value(max, observed, NAN, 0) : NAN, "missing");
    fputs("},\n\"runs\":[", stream);
}

es_status es_json_run(es_json *json, const es_run_summary *summary)
{
    FILE *stream = json->stream;
    fputs(json->n_runs++ ? ",\n{" : "\n{", stream);
    es_status status = put_identity(stream, summary);
    if (status)
        return status;
    put_measured(stream, "loss", summary->loss);
    put_measured(stream, "ppl", summary->ppl);
    put_measured(stream, "eval_loss", summary->eval_loss);
    put_measured(stream, "eval_ppl", summary->eval_ppl);
    put_number(stream, "ceiling", summary->ceiling, "missing");
    put_bands(stream, summary);
    put_layers(stream, summary);
    put_flags(stream, summary);
    status = put_config(stream, summary->config);
    fputs("}", stream);
    return status;
}

void es_json_end(es_json *json)
{
    fputs("\n]}\n", json->stream);
}
