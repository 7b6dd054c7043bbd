/* Formats alerts as text and as JSON. */
#include "cli/alerts/alert.h"

#include "analyzer/base/json_write.h"
#include "analyzer/base/text_stream.h"
#include "cli/output/layers.h"
#include "cli/output/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

/* Closes the stream `out`, which es_text_stream has opened, and returns the
 * text that was written to it; NULL if memory is short. */
static char *end_text(FILE *out, char **text)
{
    if (out && fclose(out) == 0)
        return *text;
    free(out ? *text : NULL);
    es_fail(ES_ENOMEM, "out of memory for an alert");
    return NULL;
}

char *es_alert_id(const es_alert *alert)
{
    char *text = NULL;
    size_t n;
    FILE *out = es_text_stream(&text, &n);
    if (out)
        fprintf(out, "%s/alert:%s@%" PRId64 ":%s", alert->uuid, alert->title,
                alert->onset, es_severity_name(alert->severity));
    return end_text(out, &text);
}

/* Prints " L9-11,14", or nothing if the alert names no layers. */
static void print_layers(FILE *out, const es_alert *alert,
                         const es_layers *described)
{
    enum { SIZE = 16 * ES_ALERT_LAYERS + 256 };
    bool marks[ES_MAX_LAYERS + 1] = {false};
    char text[SIZE] = "";
    es_text to = es_text_begin(text, sizeof text);
    for (int i = 0; i < alert->n_layers; i++)
        marks[alert->layers[i]] = true;
    es_layers_append(&to, described, marks, ES_MAX_LAYERS);
    fputs(text, out);
}

/* Prints an alert as "/runs/a.db (EReg): collapse L9-11 since step 130
 * (critical): ...". */
static void print_line(FILE *out, const es_alert *alert, es_flag_kind kind,
                       const es_layers *described)
{
    char value[ES_FLOAT_TEXT_MAX], threshold[ES_FLOAT_TEXT_MAX];
    const char *model = alert->arch ? alert->arch : alert->name;
    es_print_escaped(out, alert->path, ES_ESCAPE_TERMINAL);
    fputs(" (", out);
    es_print_escaped(out, model ? model : "", ES_ESCAPE_TERMINAL);
    fputs("): ", out);
    es_print_escaped(out, alert->title, ES_ESCAPE_TERMINAL);
    print_layers(out, alert, described);
    fprintf(out, " since step %" PRId64 " (%s)", alert->onset,
            es_flag_verdict(kind, alert->severity));
    if (isfinite(alert->value) && isfinite(alert->threshold))
        fprintf(out, ": %s, threshold %s",
                es_number_print(value, alert->value, 4),
                es_number_print(threshold, alert->threshold, 4));
}

char *es_alert_line(const es_alert *alert, es_flag_kind kind,
                    const es_layers *described)
{
    char *text = NULL;
    size_t n;
    FILE *out = es_text_stream(&text, &n);
    if (out)
        print_line(out, alert, kind, described);
    return end_text(out, &text);
}

char *es_alert_json(const es_alert *alert)
{
    char *text = NULL;
    size_t n;
    FILE *out = es_text_stream(&text, &n);
    if (!out)
        return end_text(out, &text);
    es_json_writer json = {.stream = out};
    es_json_write_object(&json, NULL);
    es_json_write_text(&json, "text", alert->text);
    es_json_write_text(&json, "path", alert->path);
    es_json_write_text(&json, "id", alert->id);
    es_json_write_text(&json, "run", alert->uuid);
    es_json_write_text(&json, "name", alert->name);
    es_json_write_text(&json, "arch", alert->arch);
    es_json_write_text(&json, "kind", alert->title);
    es_json_write_text(&json, "severity", es_severity_name(alert->severity));
    es_json_write_integer(&json, "onset", alert->onset);
    es_json_write_integer(&json, "step", alert->step);
    es_json_write_double(&json, "value", alert->value);
    es_json_write_double(&json, "threshold", alert->threshold);
    es_json_write_array(&json, "layers");
    for (int i = 0; i < alert->n_layers; i++)
        es_json_write_integer(&json, NULL, alert->layers[i]);
    es_json_write_end(&json, "]}");
    return end_text(out, &text);
}
