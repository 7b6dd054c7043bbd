/** A corpus as tokens, the training part first; a NUL ends a document. */
#ifndef ES_CORPUS_ENCODE_H
#define ES_CORPUS_ENCODE_H

#include "samples/corpus/collect.h"
#include "samples/corpus/pieces.h"
#include "samples/corpus/spool.h"

/** Walks the documents of one part, then of the other. */
typedef struct es_walk {
    es_split split; /* of the document that came last */
    size_t next;
} es_walk;

/** The next document; NULL after the last. A walk begins zeroed. */
const es_document *es_walk_next(es_walk *walk, const es_corpus *corpus);

/**
 * A token is a byte.
 *
 *   n_tokens   by es_split, written
 *
 * ES_OK, ES_EIO, ES_ENOMEM.
 */
es_status es_encode_bytes(es_spool *spool, uint64_t *n_tokens,
                          const es_corpus *corpus) ES_MUST_USE;

/**
 * Pieces of a sentencepiece model, by spm_encode.
 *
 * That program works line by line and takes U+2581 for a space. So the text is
 * cut at newlines and at U+2581, which become the pieces of their bytes, and
 * so does the NUL; all else is a line for spm_encode. Of what comes back every
 * piece is compared with the text it stands for: put end to end, the pieces
 * are the documents, byte for byte.
 *
 *   n_children   processes at a time, >= 1; the result does not depend on it
 *
 * ES_OK; ES_EIO; ES_EFORMAT (the model does not keep the text: it normalises,
 * adds or removes spaces); ES_ENOMEM.
 */
es_status es_encode_pieces(es_spool *spool, uint64_t *n_tokens,
                           const es_corpus *corpus, const es_pieces *pieces,
                           int n_children) ES_MUST_USE;

#endif
