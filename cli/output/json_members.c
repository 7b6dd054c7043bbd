/* Members of JSON objects as `--json` writes them, each with the comma before
 * it. New code uses analyzer/base/json_write.h. */
#include "cli/output/json_members.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/output/display.h"
#include "store/run.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

void es_json_name(FILE *stream, const char *name, bool first)
{
    fprintf(stream, first ? "\"%s\":" : ",\"%s\":", name);
}

es_status es_json_quoted(FILE *stream, const char *text)
{
    char *escaped = es_display_escape(text, ES_ESCAPE_JSON);
    if (!escaped)
        return ES_ENOMEM;
    fprintf(stream, "\"%s\"", escaped);
    free(escaped);
    return ES_OK;
}

es_status es_json_text(FILE *stream, const char *name, const char *text)
{
    es_json_name(stream, name, false);
    if (text)
        return es_json_quoted(stream, text);
    fputs("null", stream);
    return ES_OK;
}

es_status es_json_value(FILE *stream, const char *json)
{
    size_t n;
    for (const char *c = json; *c; c += n) {
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
            return es_fail(ES_ENOMEM, "out of memory for JSON");
        fputs(escaped, stream);
        free(escaped);
    }
    return ES_OK;
}

void es_json_digits(FILE *stream, double value)
{
    char text[ES_FLOAT_TEXT_MAX];
    fputs(es_display_number(text, value), stream);
}

static void put_state(FILE *stream, const char *name, const char *state)
{
    fprintf(stream, ",\"%s\":null,\"%s_state\":\"%s\"", name, name, state);
}

void es_json_number(FILE *stream, const char *name, double value,
                    const char *unknown)
{
    if (!isfinite(value)) {
        put_state(stream, name,
                  isnan(value) ? unknown
                  : value > 0  ? "inf"
                               : "-inf");
        return;
    }
    es_json_name(stream, name, false);
    es_json_digits(stream, value);
}

void es_json_measured(FILE *stream, const char *name, float value)
{
    es_json_number(stream, name, value,
                   es_is_missing(value) ? "missing" : "nan");
}

void es_json_integer(FILE *stream, const char *name, int64_t value)
{
    if (value == ES_UNKNOWN) {
        put_state(stream, name, "missing");
        return;
    }
    es_json_name(stream, name, false);
    fprintf(stream, "%" PRId64, value);
}

void es_json_fractions(FILE *stream, const es_bands *bands)
{
    fputs(",\"fractions\":[", stream);
    for (int band = 0; band < ES_N_BANDS; band++) {
        fputs(band ? "," : "", stream);
        if (bands->n_heads == 0)
            fputs("null", stream);
        else
            es_json_digits(stream, es_bands_fraction(bands, band));
    }
    fputs(bands->n_heads ? "]" : "],\"fractions_state\":\"missing\"", stream);
}
