/** Reads the JSON files that other libraries store with weights. */
#ifndef ES_JSON_FILE_H
#define ES_JSON_FILE_H

#include "analyzer/base/infile.h"
#include "analyzer/base/status.h"
#include <jansson.h>
#include <stdbool.h>

/**
 * Reads the object in a file; duplicate keys are refused.
 *
 *   out    freed by json_decref; NULL on failure
 *   words  true: read NaN and Infinity, which are not valid JSON, as strings
 *
 * Returns ES_OK; the errors of es_infile_load; ES_EFORMAT if the file is not
 * JSON or has no object.
 */
es_status es_json_load(json_t **out, const char *path,
                       const es_infile_limit *limit, bool words) ES_MUST_USE;

#endif
