/**
 * Collects numbers with a name and a step, in any order, into samples; used by
 * the parsers of event files, histories and wide tables. First all names are
 * added, then the numbers.
 *
 * If a position and step has two numbers, the later one counts. Memory: the
 * whole run.
 */
#ifndef ES_IMPORT_SCALARS_H
#define ES_IMPORT_SCALARS_H

#include "cli/exchange/import_internal.h"
#include "cli/exchange/tags.h"

typedef struct es_scalars es_scalars;

/** `rules` is borrowed. Returns ES_OK or ES_ENOMEM. */
es_status es_scalars_new(es_scalars **out, es_import *import,
                         const es_tag_rules *rules) ES_MUST_USE;
void es_scalars_free(es_scalars *scalars); /* scalars may be NULL */

/** Adds a name; `place` is the line or record, for messages. Returns ES_OK;
 *  ES_EFORMAT (too many series); ES_ENOMEM. */
es_status es_scalars_name(es_scalars *scalars, const char *tag,
                          size_t place) ES_MUST_USE;

/** Ends the names, and begins the run. Returns ES_OK; ES_EFORMAT: there was no
 *  name, or as es_import_begin; ES_ENOMEM. */
es_status es_scalars_begin(es_scalars *scalars) ES_MUST_USE;

/** Adds a number. Returns ES_OK; ES_EFORMAT: the run would be much larger than
 *  the text; ES_EIO: the name is new, so the file has changed; ES_ENOMEM. */
es_status es_scalars_put(es_scalars *scalars, const char *tag, int64_t step,
                         float value) ES_MUST_USE;

/** A restart: removes the samples at `step` and later. */
void es_scalars_void(es_scalars *scalars, int64_t step);

/** Passes all samples to the sink, in order of steps. Returns as the sink. */
es_status es_scalars_finish(es_scalars *scalars) ES_MUST_USE;

#endif
