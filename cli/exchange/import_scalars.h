/**
 * Numbers with a name and a step, in any order, as samples: what the importers
 * of event files and of histories share. The names come first, all of them,
 * then the numbers.
 *
 * Of two numbers of one place and step the later counts. Memory: the run.
 */
#ifndef ES_IMPORT_SCALARS_H
#define ES_IMPORT_SCALARS_H

#include "cli/exchange/import_internal.h"
#include "cli/exchange/tags.h"

typedef struct es_scalars es_scalars;

/** `rules` is borrowed. ES_OK, ES_ENOMEM. */
es_status es_scalars_new(es_scalars **out, es_import *import,
                         const es_tag_rules *rules) ES_MUST_USE;
void es_scalars_free(es_scalars *scalars); /* NULL is fine */

/** A name; `place` is the line or record, for messages. ES_OK; ES_EFORMAT (too
 *  many series); ES_ENOMEM. */
es_status es_scalars_name(es_scalars *scalars, const char *tag,
                          size_t place) ES_MUST_USE;

/** No more names. ES_OK; ES_EFORMAT (there was none; es_import_begin's). */
es_status es_scalars_begin(es_scalars *scalars) ES_MUST_USE;

/** A number. ES_OK; ES_EFORMAT: far more than the text; ES_ENOMEM. */
es_status es_scalars_put(es_scalars *scalars, const char *tag, int64_t step,
                         float value) ES_MUST_USE;

/** A restart: what there is at `step` and later is void. */
void es_scalars_void(es_scalars *scalars, int64_t step);

/** Hands all samples to the sink, in order of steps. */
es_status es_scalars_finish(es_scalars *scalars) ES_MUST_USE;

#endif
