/** A JSON file as other libraries put beside weights. */
#ifndef ES_JSON_FILE_H
#define ES_JSON_FILE_H

#include "analyzer/base/status.h"
#include "store/infile.h"
#include <jansson.h>
#include <stdbool.h>

/**
 * The object that a file holds; no key may come twice in it.
 *
 *   out    to be freed by json_decref; NULL on failure
 *   words  NaN and Infinity, which JSON does not have, are read as strings
 *
 * ES_OK; es_infile_load's; ES_EFORMAT: not JSON, or no object.
 */
es_status es_json_load(json_t **out, const char *path,
                       const es_infile_limit *limit, bool words) ES_MUST_USE;

#endif
