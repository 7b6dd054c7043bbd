/* Parses the attention maps of a long CSV, which export writes as comments. */
#include "cli/exchange/import_internal.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"

#include <string.h>

static const char key[] = "# attention_map:";

/** Returns the next word of the text at *at, and its length in *n. */
static const char *next_word(const char **at, size_t *n)
{
    const char *word = *at + strspn(*at, " ");
    *n = strcspn(word, " ");
    *at = word + *n;
    return word;
}

static es_status take_number(int64_t *out, const char **at, int64_t low,
                             int64_t high)
{
    char text[24];
    size_t n;
    const char *word = next_word(at, &n);
    if (n > 0 && word[n - 1] == ':') /* a colon follows the last number */
        n--;
    snprintf(text, sizeof text, "%.*s", n < 23 ? (int)n : 23, word);
    return es_int_parse(out, text, low, high);
}

/** Parses the words before the values: phase, step, layer, head and sizes. */
static es_status take_place(es_map *map, const char **at,
                            const es_run_info *info)
{
    size_t n;
    const char *phase = next_word(at, &n);
    es_status status;
    map->phase = n == 4 && memcmp(phase, "eval", 4) == 0 ? ES_PHASE_EVAL
                                                         : ES_PHASE_TRAIN;
    if (map->phase == ES_PHASE_TRAIN &&
        !(n == 5 && memcmp(phase, "train", 5) == 0))
        return es_fail(ES_EFORMAT, "the phase is neither train nor eval");
    if ((status = take_number(&map->step, at, 0, ES_MAX_STEP)) < 0 ||
        (status = take_number(&map->layer, at, 0, info->n_layer - 1)) < 0)
        return status;
    map->head = ES_MAP_MEAN;
    if (strncmp(*at, " - ", 3) == 0)
        *at += 2;
    else if ((status = take_number(&map->head, at, 0, info->n_head - 1)) < 0)
        return status;
    if ((status = take_number(&map->size, at, 1, ES_MAP_MAX)) < 0)
        return status;
    return take_number(&map->n_ctx, at, map->size, INT32_MAX);
}

static es_status take_values(float *values, const char *at, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        size_t length;
        const char *word = next_word(&at, &length);
        if (!length)
            return es_fail(ES_EFORMAT, "has %lld values instead of %lld",
                           (long long)i, (long long)n);
        if (length == 2 && memcmp(word, "NA", 2) == 0)
            values[i] = es_missing();
        else if (es_float_parse(&values[i], word, length) != ES_OK)
            return ES_EFORMAT;
    }
    return at[strspn(at, " ")]
               ? es_fail(ES_EFORMAT, "has more than %lld values", (long long)n)
               : ES_OK;
}

es_status es_import_map(es_import *import, const es_line *line)
{
    float values[ES_MAP_MAX * ES_MAP_MAX];
    const char *at = line->text + sizeof key - 1;
    es_map map;
    if (strncmp(line->text, key, sizeof key - 1) != 0 || !import->sink->map)
        return ES_OK;
    if (take_place(&map, &at, &import->about.info) < 0 ||
        take_values(values, at, map.size * map.size) < 0) {
        char why[ES_MESSAGE_MAX];
        snprintf(why, sizeof why, "%s", es_message());
        return es_fail(ES_EFORMAT, "%s: line %zu: an attention map: %s",
                       es_line_reader_name(import->lines), line->number, why);
    }
    return import->sink->map(import->sink->user, &map, values);
}
