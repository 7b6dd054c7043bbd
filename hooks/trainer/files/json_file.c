/* Reads a JSON object from a file, such as config.json or the index of weights
 * in several files. */
#include "hooks/trainer/files/json_file.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/json_words.h"

#include <stdlib.h>
#include <string.h>

static es_status quote_words(char **text, size_t *n)
{
    char *quoted;
    if (strlen(*text) != *n)
        return ES_OK; /* the parser will report that the text contains a NUL
                         byte */
    es_status status =
        es_alloc(&quoted, ES_JSON_QUOTED_SIZE(*n), 1, "a configuration");
    if (status < 0)
        return status;
    es_json_quote_words(quoted, *text);
    free(*text);
    *text = quoted;
    *n = strlen(quoted);
    return ES_OK;
}

es_status es_json_load(json_t **out, const char *path,
                       const es_infile_limit *limit, bool words)
{
    json_error_t error;
    size_t n;
    char *text;
    *out = NULL;
    es_status status = es_infile_load(&text, &n, path, limit);
    if (status == ES_OK && words)
        status = quote_words(&text, &n);
    if (status < 0) {
        free(text);
        return status;
    }
    json_t *json = json_loadb(text, n, JSON_REJECT_DUPLICATES, &error);
    free(text);
    if (!json)
        return es_fail(ES_EFORMAT, "%s: line %d: %s", path, error.line,
                       error.text);
    if (!json_is_object(json)) {
        json_decref(json);
        return es_fail(ES_EFORMAT, "%s: not a JSON object", path);
    }
    *out = json;
    return ES_OK;
}
