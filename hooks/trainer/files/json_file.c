/* Reads a JSON object from a file, for config.json and for the index of
   weights in several files. */
#include "hooks/trainer/files/json_file.h"

#include <stdlib.h>

es_status es_json_load(json_t **out, const char *path,
                       const es_infile_limit *limit)
{
    json_error_t error;
    size_t n;
    char *text;
    *out = NULL;
    es_status status = es_infile_load(&text, &n, path, limit);
    if (status < 0)
        return status;
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
