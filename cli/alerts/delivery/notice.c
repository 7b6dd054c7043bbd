#include "cli/alerts/delivery/notice.h"

#include "analyzer/base/text.h"
#include "cli/output/print.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *es_notice_title(const es_notice *notice)
{
    return notice->rule ? notice->rule->name : es_flag_name(notice->kind);
}

bool es_notice_stops(const es_notice *notice)
{
    return notice->rule && notice->rule->action == ES_RULE_STOP;
}

/* --- from an event --------------------------------------------------------*/

/* "alert:TITLE@ONSET:SEVERITY" */
static void print_key(char *out, size_t size, const es_notice *notice)
{
    snprintf(out, size, "alert:%s@%" PRId64 ":%s", es_notice_title(notice),
             notice->onset, es_severity_name(notice->severity));
}

/* A number of the event's data; NaN if it is not there. */
static double find_number(const char *data, const char *name)
{
    char text[ES_FLOAT_TEXT_MAX];
    double number;
    const char *at = data ? strstr(data, name) : NULL;
    if (!at)
        return NAN;
    at += strlen(name);
    size_t n = strcspn(at, ",}");
    if (n >= sizeof text)
        return NAN;
    memcpy(text, at, n);
    text[n] = '\0';
    return es_double_parse(&number, text) == ES_OK ? number : NAN;
}

static void find_layers(es_notice *out, const char *data)
{
    const char *at = data ? strstr(data, "\"layers\":[") : NULL;
    if (!at)
        return;
    at += strlen("\"layers\":[");
    while (out->n_layers < ES_NOTICE_LAYERS) {
        char *end;
        long layer = strtol(at, &end, 10);
        if (end == at || layer < 0 || layer >= ES_MAX_LAYERS)
            return;
        out->layers[out->n_layers++] = (int)layer;
        if (*end != ',')
            return;
        at = end + 1;
    }
}

/* Kind and severity are known words; the onset follows from the whole key. */
static bool read_key(es_notice *out, const char *key)
{
    char again[96];
    const char *at = strchr(key, '@');
    out->kind = 0;
    while (out->kind < ES_N_FLAG_KINDS) {
        out->onset = at ? strtoll(at + 1, NULL, 10) : -1;
        print_key(again, sizeof again, out);
        if (out->onset >= 0 && strcmp(again, key) == 0)
            return true;
        out->kind++;
    }
    return false;
}

bool es_notice_of_event(es_notice *out, const es_event *event)
{
    *out = (es_notice){.step = event->step, .severity = event->severity};
    if (!event->dedupe || !read_key(out, event->dedupe))
        return false;
    out->value = find_number(event->data, "\"value\":");
    out->threshold = find_number(event->data, "\"threshold\":");
    find_layers(out, event->data);
    return true;
}

char *es_notice_id(const es_notice *notice)
{
    char key[96], *id;
    print_key(key, sizeof key, notice);
    return asprintf(&id, "%s/%s", notice->uuid, key) < 0 ? NULL : id;
}

/* --- as text --------------------------------------------------------------*/

/* " L9-11,14", or nothing. */
static void print_layers(FILE *out, const es_notice *notice)
{
    const int *layers = notice->layers;
    for (int i = 0; i < notice->n_layers; i++) {
        int first = i;
        while (i + 1 < notice->n_layers && layers[i + 1] == layers[i] + 1)
            i++;
        fprintf(out, "%s%d", first ? "," : " L", layers[first]);
        if (i > first)
            fprintf(out, "-%d", layers[i]);
    }
}

/* "/runs/a.db (EReg): collapse L9-11 since step 130 (critical): ..." */
static void print_line(FILE *out, const es_notice *notice)
{
    es_print_escaped(out, notice->path, ES_ESCAPE_TERMINAL);
    fputs(" (", out);
    es_print_escaped(out, notice->arch ? notice->arch : notice->name,
                     ES_ESCAPE_TERMINAL);
    fprintf(out, "): %s", es_notice_title(notice));
    print_layers(out, notice);
    fprintf(out, " since step %" PRId64 " (%s)", notice->onset,
            es_severity_name(notice->severity));
    if (isfinite(notice->value) && isfinite(notice->threshold))
        fprintf(out, ": %.4g, threshold %.4g", notice->value,
                notice->threshold);
}

static char *line_of(const es_notice *notice)
{
    char *line = NULL;
    size_t n;
    FILE *out = open_memstream(&line, &n);
    if (!out)
        return NULL;
    print_line(out, notice);
    return fclose(out) == 0 ? line : NULL;
}

/* --- as JSON --------------------------------------------------------------*/

static void print_string(FILE *out, const char *name, const char *text)
{
    fprintf(out, ",\"%s\":", name);
    es_print_json(out, text);
}

static void print_number(FILE *out, const char *name, double x)
{
    char text[ES_FLOAT_TEXT_MAX];
    fprintf(out, ",\"%s\":%s", name,
            isfinite(x) ? es_double_print(text, x) : "null");
}

static void print_step(FILE *out, const char *name, int64_t step)
{
    if (step == ES_UNKNOWN)
        fprintf(out, ",\"%s\":null", name);
    else
        fprintf(out, ",\"%s\":%" PRId64, name, step);
}

static void print_object(FILE *out, const es_notice *notice, const char *line,
                         const char *id)
{
    fputs("{\"text\":", out);
    es_print_json(out, line);
    print_string(out, "path", notice->path);
    print_string(out, "id", id);
    print_string(out, "run", notice->uuid);
    print_string(out, "name", notice->name);
    print_string(out, "arch", notice->arch);
    print_string(out, "kind", es_notice_title(notice));
    print_string(out, "severity", es_severity_name(notice->severity));
    print_step(out, "onset", notice->onset);
    print_step(out, "step", notice->step);
    print_number(out, "value", notice->value);
    print_number(out, "threshold", notice->threshold);
    fputs(",\"layers\":[", out);
    for (int i = 0; i < notice->n_layers; i++)
        fprintf(out, "%s%d", i ? "," : "", notice->layers[i]);
    fputs("]}", out);
}

char *es_notice_json(const es_notice *notice)
{
    char *json = NULL, *line = line_of(notice), *id = es_notice_id(notice);
    size_t n;
    FILE *out = line && id ? open_memstream(&json, &n) : NULL;
    if (out) {
        print_object(out, notice, line, id);
        if (fclose(out) != 0) {
            free(json);
            json = NULL;
        }
    }
    free(line);
    free(id);
    return json;
}

/* --- and back -------------------------------------------------------------*/

/* The character that an escape stands for, and how long the escape is. */
static char unescape(const char *at, size_t *n)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    char digits[5] = {0};
    *n = 2;
    if (at[1] == 'u' && strlen(at) >= 6) {
        memcpy(digits, at + 2, 4);
        *n = 6;
        long code = strtol(digits, NULL, 16);
        return code > 0 && code < 0x80 ? (char)code : '?';
    }
    const char *which = at[1] ? strchr(from, at[1]) : NULL;
    if (!at[1])
        *n = 1;
    return which ? to[which - from] : '?';
}

char *es_notice_member(const char *json, const char *name)
{
    char start[32];
    snprintf(start, sizeof start, "\"%s\":\"", name);
    /* Quotes in a string are escaped: the first is the member itself. */
    const char *at = strstr(json, start);
    char *out = at ? malloc(strlen(at)) : NULL, *end = out;
    if (!out)
        return NULL;
    for (at += strlen(start); *at && *at != '"';) {
        size_t n = 1;
        *end++ = *at == '\\' ? unescape(at, &n) : *at;
        at += n;
    }
    *end = '\0';
    return out;
}
