/* Formats alerts as text and JSON, and reads them back from the data of a
 * recorder's event and from the ledger. This program wrote these data, but
 * other programs may have changed the files since; therefore jansson parses the
 * data and every member is checked. */
#include "cli/alerts/alert.h"

#include "analyzer/base/json_write.h"
#include "analyzer/base/text_stream.h"
#include "cli/output/layers.h"
#include "cli/output/print.h"

#include <inttypes.h>
#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define KEY_SIZE 96

/* Formats the key "alert:TITLE@ONSET:SEVERITY". */
static const char *print_key(char out[KEY_SIZE], const es_alert *alert)
{
    snprintf(out, KEY_SIZE, "alert:%s@%" PRId64 ":%s", alert->title,
             alert->onset, es_severity_name(alert->severity));
    return out;
}

/* Prints " L9-11,14", or nothing if the alert names no layers. */
static void print_layers(FILE *out, const es_alert *alert)
{
    enum { SIZE = 16 * ES_ALERT_LAYERS + 256 };
    bool marks[ES_MAX_LAYERS + 1] = {false};
    char text[SIZE] = "";
    es_text to = es_text_begin(text, sizeof text);
    for (int i = 0; i < alert->n_layers; i++)
        marks[alert->layers[i]] = true;
    es_layers_append(&to, alert->described, marks, ES_MAX_LAYERS);
    fputs(text, out);
}

/* Prints an alert as "/runs/a.db (EReg): collapse L9-11 since step 130
 * (critical): ...". */
static void print_line(FILE *out, const es_alert *alert)
{
    if (alert->line) {
        es_print_escaped(out, alert->line, ES_ESCAPE_TERMINAL);
        return;
    }
    es_print_escaped(out, alert->path, ES_ESCAPE_TERMINAL);
    fputs(" (", out);
    const char *model = alert->arch ? alert->arch : alert->name;
    es_print_escaped(out, model ? model : "", ES_ESCAPE_TERMINAL);
    fputs("): ", out);
    es_print_escaped(out, alert->title, ES_ESCAPE_TERMINAL);
    print_layers(out, alert);
    fprintf(out, " since step %" PRId64 " (%s)", alert->onset,
            es_flag_verdict(alert->kind, alert->severity));
    char value[ES_FLOAT_TEXT_MAX], threshold[ES_FLOAT_TEXT_MAX];
    if (isfinite(alert->value) && isfinite(alert->threshold))
        fprintf(out, ": %s, threshold %s",
                es_number_print(value, alert->value, 4),
                es_number_print(threshold, alert->threshold, 4));
}

static void print_id(FILE *out, const es_alert *alert)
{
    char key[KEY_SIZE];
    fprintf(out, "%s/%s", alert->uuid, print_key(key, alert));
}

/* Returns the output of `print` as a string that the caller frees; NULL if
 * memory is short. */
static char *printed(void (*print)(FILE *, const es_alert *),
                     const es_alert *alert)
{
    char *text = NULL;
    size_t n;
    FILE *out = es_text_stream(&text, &n);
    if (out)
        print(out, alert);
    if (out && fclose(out) == 0)
        return text;
    free(out ? text : NULL);
    es_fail(ES_ENOMEM, "out of memory for an alert");
    return NULL;
}

char *es_alert_id(const es_alert *alert)
{
    return printed(print_id, alert);
}

char *es_alert_line(const es_alert *alert)
{
    return printed(print_line, alert);
}

/* --- JSON -----------------------------------------------------------------*/

/* Prints the alert as JSON; prints nothing if memory for the text or the id is
 * short. */
static void print_json(FILE *out, const es_alert *alert)
{
    es_json_writer json = {.stream = out};
    char *line = es_alert_line(alert), *id = es_alert_id(alert);
    if (!line || !id)
        goto done;
    es_json_write_object(&json, NULL);
    es_json_write_text(&json, "text", line);
    es_json_write_text(&json, "path", alert->path);
    es_json_write_text(&json, "id", id);
    es_json_write_text(&json, "run", alert->uuid);
    es_json_write_text(&json, "name", alert->name);
    es_json_write_text(&json, "arch", alert->arch);
    es_json_write_text(&json, "kind", alert->title);
    es_json_write_text(&json, "severity", es_severity_name(alert->severity));
    es_json_write_integer(&json, "onset", alert->onset);
    if (alert->step == ES_UNKNOWN)
        es_json_write_null(&json, "step");
    else
        es_json_write_integer(&json, "step", alert->step);
    es_json_write_double(&json, "value", alert->value);
    es_json_write_double(&json, "threshold", alert->threshold);
    es_json_write_array(&json, "layers");
    for (int i = 0; i < alert->n_layers; i++)
        es_json_write_integer(&json, NULL, alert->layers[i]);
    es_json_write_end(&json, "]}");
done:
    free(line);
    free(id);
}

char *es_alert_json(const es_alert *alert)
{
    char *json = printed(print_json, alert);
    if (json && *json)
        return json;
    free(json);
    return NULL;
}

/* --- reading --------------------------------------------------------------*/

/* Parses JSON. A double of 20 digits is printed without a decimal point, and
 * jansson refuses an integer of this size; in that case all numbers are read as
 * doubles. */
static json_t *load(const char *json)
{
    json_t *value = json_loads(json, 0, NULL);
    return value ? value : json_loads(json, JSON_DECODE_INT_AS_REAL, NULL);
}

static int64_t read_integer(const json_t *value)
{
    const double real = json_real_value(value);
    if (json_is_integer(value))
        return json_integer_value(value);
    return json_is_real(value) && fabs(real) < 0x1p63 ? (int64_t)real
                                                      : ES_UNKNOWN;
}

static double read_number(const json_t *from, const char *name)
{
    const json_t *value = json_object_get(from, name);
    return json_is_number(value) ? json_number_value(value) : (double)NAN;
}

/* Reads up to ES_ALERT_LAYERS layers and stops at the first number that is not
 * a valid layer. */
static void read_layers(es_alert *out, const json_t *from)
{
    const json_t *layers = json_object_get(from, "layers");
    const size_t n = json_array_size(layers);
    for (size_t i = 0; i < n && i < ES_ALERT_LAYERS; i++) {
        int64_t layer = read_integer(json_array_get(layers, i));
        if (layer < 0 || layer >= ES_MAX_LAYERS)
            return;
        out->layers[out->n_layers++] = (int)layer;
    }
}

static void read_measures(es_alert *out, const json_t *from)
{
    out->value = read_number(from, "value");
    out->threshold = read_number(from, "threshold");
    read_layers(out, from);
}

/* Parses an alert's key. Returns false unless print_key would print exactly
 * this key for a known kind and the event's severity. */
static bool read_key(es_alert *out, const char *key)
{
    const char *onset = strchr(key, '@');
    char again[KEY_SIZE];
    if (!onset || (out->onset = strtoll(onset + 1, NULL, 10)) < 0)
        return false;
    for (out->kind = 0; out->kind < ES_N_FLAG_KINDS; out->kind++) {
        out->title = es_flag_name(out->kind);
        if (strcmp(print_key(again, out), key) == 0)
            return true;
    }
    return false;
}

bool es_alert_of_event(es_alert *out, const es_event *event,
                       const es_alert *about)
{
    *out = (es_alert){.path = about->path,
                      .uuid = about->uuid,
                      .name = about->name,
                      .arch = about->arch,
                      .is_written = about->is_written,
                      .step = event->step,
                      .severity = event->severity};
    if (!event->dedupe || !read_key(out, event->dedupe))
        return false;
    json_t *data = event->data ? load(event->data) : NULL;
    read_measures(out, data);
    json_decref(data);
    return true;
}

static es_severity read_severity(const json_t *from)
{
    const char *name = json_string_value(json_object_get(from, "severity"));
    for (int i = ES_SEVERITY_INFO; name && i <= ES_SEVERITY_CRITICAL; i++)
        if (strcmp(name, es_severity_name((es_severity)i)) == 0)
            return (es_severity)i;
    return ES_SEVERITY_NONE;
}

es_status es_alert_read(es_alert *out, const char *json)
{
    json_t *from = load(json);
    const struct {
        const char **out, *name;
        bool optional;
    } strings[] = {{&out->path, "path", false},  {&out->uuid, "run", false},
                   {&out->title, "kind", false}, {&out->line, "text", true},
                   {&out->name, "name", true},   {&out->arch, "arch", true}};
    *out = (es_alert){.owner = from, .kind = ES_N_FLAG_KINDS};
    out->severity = read_severity(from);
    out->onset = read_integer(json_object_get(from, "onset"));
    out->step = read_integer(json_object_get(from, "step"));
    read_measures(out, from);
    bool whole = out->severity != ES_SEVERITY_NONE;
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        *strings[i].out =
            json_string_value(json_object_get(from, strings[i].name));
        whole = whole && (*strings[i].out || strings[i].optional);
    }
    if (whole)
        return ES_OK;
    es_alert_free(out);
    return es_fail(
        ES_EFORMAT,
        "cannot read a stored alert: out of memory, or a damaged file");
}

void es_alert_free(es_alert *alert)
{
    json_decref(alert->owner);
    *alert = (es_alert){.owner = NULL};
}
