/**
 * Collects numbers with a name and a step, in any order, into samples. The
 * parsers of event files, histories and wide tables first add all names, then
 * the numbers.
 *
 * If the same name and step occur twice, the later number is used. The complete
 * run is kept in memory.
 */
#ifndef ES_IMPORT_SCALARS_H
#define ES_IMPORT_SCALARS_H

#include "cli/exchange/import_internal.h"
#include "cli/exchange/tags.h"

typedef struct es_scalars es_scalars;

/** Creates an empty collection; `rules` is borrowed. Returns ES_OK or
 *  ES_ENOMEM. */
es_status es_scalars_new(es_scalars **out, es_import *import,
                         const es_tag_rules *rules) ES_MUST_USE;
void es_scalars_free(es_scalars *scalars); /* scalars may be NULL */

/** Adds a name; `place` is the number of the line or record, for messages.
 *  Returns ES_OK; ES_EFORMAT (too many series); ES_ENOMEM. */
es_status es_scalars_name(es_scalars *scalars, const char *tag,
                          size_t place) ES_MUST_USE;

/** Begins the run. All names must have been added before. Returns ES_OK;
 *  ES_EFORMAT (no name was added); ES_ENOMEM; otherwise the status of
 *  es_import_begin. */
es_status es_scalars_begin(es_scalars *scalars) ES_MUST_USE;

/** Adds a number with the name `tag`. Returns ES_OK; ES_EFORMAT if the run
 *  would be much larger than the imported text; ES_EIO if es_scalars_name has
 *  not added the tag, which means that the file has changed; ES_ENOMEM. */
es_status es_scalars_put(es_scalars *scalars, const char *tag, int64_t step,
                         float value) ES_MUST_USE;

/** Removes the samples at `step` and later, after a restart. */
void es_scalars_void(es_scalars *scalars, int64_t step);

/** Passes all samples to the sink, in order of steps. Returns ES_OK or the
 *  status of the sink. */
es_status es_scalars_finish(es_scalars *scalars) ES_MUST_USE;

#endif
