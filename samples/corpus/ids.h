/** Token ids made elsewhere, as text. */
#ifndef ES_CORPUS_IDS_H
#define ES_CORPUS_IDS_H

#include "samples/corpus/spool.h"

/**
 * Reads decimal numbers with white space between them.
 *
 *   path   "-" is standard input; else one for es_infile_stream
 *
 * ES_OK; ES_EIO; ES_EFORMAT with the line: what is no number, an id outside
 * the spool's vocabulary, none at all.
 */
es_status es_ids_read(es_spool *spool, const char *path) ES_MUST_USE;

#endif
