/* Parses histories. A history has one JSON object per line, with a step and
   named numbers. Histories are written by W&B exports, by the callback of
   llm-internal-medicine (internal_medicine.jsonl, with members such as
   global_step and qk_stats/layer_3/...), and by most training loops. Reads the
   file three times: first to choose the member that contains the step, then to
   collect the names, and last to read the numbers. NaN and Infinity may be
   spelled as in Python; a number beyond float32 becomes infinite, as in a
   training run that records it. A line is skipped and counted if its step is
   negative or not an integer, or if a number exceeds the range of double. A
   list of lists is read as a series with a value for each head. */
#include "cli/exchange/import_scalars.h"
#include "cli/exchange/import_steps.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_words.h"
#include "analyzer/base/value.h"

#include <jansson.h>
#include <math.h>
#include <string.h>

enum { MAX_DEPTH = 8 };

typedef enum pass { STEPS, NAMES, NUMBERS } pass;

typedef struct history {
    es_import *import;
    es_scalars *scalars;
    es_tag_rules rules;
    pass pass;
    es_step_keys keys;
    const char *step_key;          /* key of the member that contains the
                                      step; set after the first reading (pass
                                      STEPS) */
    size_t n_attention, n_numbers; /* in the first reading (pass STEPS): number
                                      of values of heads or layers in the
                                      current line, and number of all values in
                                      the line */
    json_t *places;                /* maps the name of each member to true if it
                                      belongs to a layer */
    char *copy;                    /* the current line, made valid JSON;
                                      ES_LINE_MAX * 2 bytes */
    size_t line;                   /* number of the current line */
    int64_t step;                  /* step of the last line that has a step */
    size_t n_steps;                /* number of lines with a step */
} history;

static es_status fail_line(const history *h, const char *fmt, const char *name)
{
    char text[256];
    snprintf(text, sizeof text, fmt, name);
    return es_fail(ES_EFORMAT, "%s: line %zu: %s",
                   es_line_reader_name(h->import->lines), h->line, text);
}

/* --- lines -----------------------------------------------------------------*/

/* Parses a line. If the line is not a JSON object, returns NULL and sets the
   error message. If a number exceeds the range of double, returns NULL and sets
   *beyond. */
static json_t *parse_line(const history *h, const es_line *line, bool *beyond)
{
    json_error_t error;
    *beyond = false;
    if (line->cut) {
        fail_line(h, "the line is longer than 1 MiB%s", "");
        return NULL;
    }
    if (strlen(line->text) != line->n) {
        fail_line(h, "contains a NUL byte: not a text file%s", "");
        return NULL;
    }
    es_json_quote_words(h->copy, line->text);
    json_t *json = json_loads(h->copy, 0, &error);
    /* Integers beyond 64 bits, such as hashes or seeds, are read as doubles. */
    if (!json && json_error_code(&error) == json_error_numeric_overflow)
        json = json_loads(h->copy, JSON_DECODE_INT_AS_REAL, &error);
    if (!json && json_error_code(&error) == json_error_numeric_overflow) {
        *beyond = true;
        return NULL;
    }
    if (!json)
        fail_line(h, "not JSON: %.200s", error.text);
    else if (!json_is_object(json))
        fail_line(h, "not a JSON object%s", "");
    else
        return json;
    json_decref(json);
    return NULL;
}

/* --- numbers ---------------------------------------------------------------*/

/* Reads a number, null (a missing value), or a word such as NaN that Python's
   json module writes. Returns false for any other value. */
static bool is_number(const json_t *json, float *out)
{
    static const struct {
        const char *word;
        float value;
    } words[] = {{"NaN", NAN},
                 {"nan", NAN},
                 {"Infinity", INFINITY},
                 {"inf", INFINITY},
                 {"-Infinity", -INFINITY},
                 {"-inf", -INFINITY}};
    if (json_is_null(json)) {
        *out = es_missing();
        return true;
    }
    if (json_is_number(json)) {
        *out = (float)json_number_value(json);
        return true;
    }
    const char *text = json_string_value(json);
    for (size_t i = 0; text && i < sizeof words / sizeof *words; i++)
        if (strcmp(text, words[i].word) == 0) {
            *out = words[i].value;
            return true;
        }
    return false;
}

/* Returns false for the step member and for W&B's internal members, such as
   _runtime and _timestamp, which are not imported. */
static bool is_wanted(const history *h, const char *key)
{
    return key[0] && key[0] != '_' &&
           !es_import_is_step(h->import->options, key);
}

static es_status take_number(history *h, const char *key, const json_t *json)
{
    float number;
    es_tag tag;
    if (!is_number(json, &number))
        return ES_OK; /* skip texts */
    if (h->pass == NUMBERS)
        return es_scalars_put(h->scalars, key, h->step, number);
    if (h->pass == NAMES)
        return es_scalars_name(h->scalars, key, h->line);
    const json_t *known = json_object_get(h->places, key);
    const bool has_place =
        known ? json_is_true(known)
              : es_tag_parse(&tag, key, &h->rules) && tag.shape != ES_SHAPE_RUN;
    if (!known)
        json_object_set_new(h->places, key, json_boolean(has_place));
    h->n_numbers++;
    h->n_attention += has_place;
    return ES_OK;
}

/* Reads a list of lists, in which each inner list is a layer and contains a
   number for each head. Skips other lists, such as histograms. */
static es_status take_heads(history *h, const char *key, const json_t *rows)
{
    size_t layer, head;
    const json_t *row, *json;
    es_status status = ES_OK;
    json_array_foreach(rows, layer, row)
    {
        json_array_foreach(row, head, json)
        {
            char name[ES_TAG_MAX];
            int n = snprintf(name, sizeof name, "%s/layer_%zu/head_%zu", key,
                             layer, head);
            if (status == ES_OK && n < (int)sizeof name)
                status = take_number(h, name, json);
        }
    }
    return status;
}

/* Reads the members of an object. Nested members are named outer.inner, as in
   W&B. */
static es_status take_members(history *h, const char *prefix, json_t *object,
                              int depth)
{
    const char *key;
    json_t *json;
    es_status status = ES_OK;
    json_object_foreach(object, key, json)
    {
        char name[ES_TAG_MAX];
        int n = snprintf(name, sizeof name, "%s%s%s", prefix,
                         *prefix ? "." : "", key);
        if (n >= (int)sizeof name || (!*prefix && !is_wanted(h, key)))
            continue;
        if (json_is_array(json))
            status = take_heads(h, name, json);
        else if (!json_is_object(json))
            status = take_number(h, name, json);
        else if (depth < MAX_DEPTH)
            status = take_members(h, name, json, depth + 1);
        if (status != ES_OK)
            return status;
    }
    return status;
}

/* Returns false if the value is not a non-negative integer. */
static bool read_step(int64_t *out, const json_t *json)
{
    const double high = 9.2e18;
    double number = json_number_value(json);
    if (!json_is_number(json) || number < 0 || number > high ||
        number != floor(number))
        return false;
    *out = json_is_integer(json) ? json_integer_value(json) : (int64_t)number;
    return true;
}

/* Counts, for each member that could provide the steps, the numbers that would
   be imported if it did. */
static es_status count_steps(history *h, json_t *object)
{
    const char *key;
    json_t *json;
    int64_t step;
    h->n_attention = h->n_numbers = 0;
    es_status status = take_members(h, "", object, 0);
    json_object_foreach(object, key, json)
    {
        if (es_step_key_of(key) < 0 || !read_step(&step, json))
            continue;
        es_step_keys_add(&h->keys, key, h->n_attention, h->n_numbers);
        h->n_steps++;
    }
    return status;
}

static es_status take_line(history *h, json_t *object)
{
    int64_t step = 0;
    if (json_is_object(json_object_get(object, "run")) &&
        json_is_array(json_object_get(object, "series")))
        return fail_line(h,
                         "is a JSON line that export wrote, but import reads "
                         "only export's CSV%s",
                         ": use entropy-scan export --format csv");
    if (h->pass == STEPS)
        return count_steps(h, object);
    if (!read_step(&step, json_object_get(object, h->step_key))) {
        h->import->report->n_ignored += h->pass == NUMBERS;
        return ES_OK;
    }
    if (h->pass == NUMBERS && h->n_steps && step < h->step) {
        h->import->report->n_again++;
        es_scalars_void(h->scalars, step);
    }
    h->step = step;
    h->n_steps++;
    return take_members(h, "", object, 0);
}

static bool is_last(es_import *import)
{
    es_line line;
    es_status status;
    while ((status = es_line_reader_next(import->lines, &line)) == ES_OK)
        if (!es_import_is_blank(&line))
            return false;
    return status == ES_DONE;
}

static es_status read_all(history *h)
{
    es_line line;
    es_status status;
    h->n_steps = 0;
    while ((status = es_line_reader_next(h->import->lines, &line)) == ES_OK) {
        h->line = line.number;
        if (es_import_is_blank(&line))
            continue;
        bool beyond;
        json_t *object = parse_line(h, &line, &beyond);
        if (beyond) {
            h->import->report->n_ignored += h->pass == NUMBERS;
            continue;
        }
        if (!object && h->n_steps && is_last(h->import)) {
            h->import->report->n_cut = 1; /* the last line is truncated */
            return ES_OK;
        }
        if (!object)
            return ES_EFORMAT; /* parse_line has set the message */
        status = take_line(h, object);
        json_decref(object);
        if (status != ES_OK)
            return status;
    }
    return status == ES_DONE ? ES_OK : status;
}

static es_status fail_steps(const history *h, const char *keys)
{
    return es_fail(
        ES_EFORMAT,
        "%s: no line has a step (%s): name the member with --step-key",
        es_line_reader_name(h->import->lines), keys);
}

static es_status choose_steps(history *h)
{
    h->pass = NAMES;
    h->step_key = h->import->options->step_key;
    if (h->step_key)
        return ES_OK;
    h->pass = STEPS;
    h->places = json_object();
    es_status status = read_all(h);
    json_decref(h->places);
    if (status < 0)
        return status;
    h->pass = NAMES;
    h->step_key = es_step_keys_choose(&h->keys, h->import->report);
    return h->step_key ? es_line_reader_rewind(h->import->lines)
                       : fail_steps(h, "_step, global_step or step");
}

es_status es_import_history(es_import *import)
{
    history h = {.import = import,
                 .rules = {.pattern = import->options->tags,
                           .series = import->options->series}};
    es_status status;
    if ((status = es_alloc(&h.copy, ES_JSON_QUOTED_SIZE((size_t)ES_LINE_MAX), 1,
                           "a line")) == ES_OK &&
        (status = es_scalars_new(&h.scalars, import, &h.rules)) == ES_OK &&
        (status = choose_steps(&h)) == ES_OK &&
        (status = read_all(&h)) == ES_OK &&
        (status = h.n_steps ? ES_OK : fail_steps(&h, h.step_key)) == ES_OK &&
        (status = es_scalars_begin(h.scalars)) == ES_OK &&
        (status = es_line_reader_rewind(import->lines)) == ES_OK) {
        h.pass = NUMBERS;
        if ((status = read_all(&h)) == ES_OK)
            status = es_scalars_finish(h.scalars);
    }
    free(h.copy);
    es_scalars_free(h.scalars);
    return status;
}
