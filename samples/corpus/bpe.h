/** A byte-pair model trained on a corpus, by spm_train. */
#ifndef ES_CORPUS_BPE_H
#define ES_CORPUS_BPE_H

#include "samples/corpus/collect.h"

typedef struct es_bpe {
    char *folder; /* a temporary one */
    char *model;  /* path of the model in it */
} es_bpe;

/**
 * Trains a model that keeps every text: no normalisation, no space added or
 * removed, bytes for rare characters, runs of spaces as pieces. The same
 * training part gives the same file: one thread, one seed.
 *
 *   vocab   pieces, the 256 bytes and <unk> among them
 *   sample  about so many bytes of the training part are looked at: all of it
 *           if it is shorter, else the documents whose hash is low enough
 *
 * ES_OK; ES_EIO (spm_train is missing, or says why not, e.g. that the text is
 * too short for so many pieces); ES_ENOMEM.
 */
es_status es_bpe_train(es_bpe *out, const es_corpus *corpus, int vocab,
                       uint64_t sample) ES_MUST_USE;

/** Writes the model to `path`, whole or not at all. ES_OK, ES_EIO. */
es_status es_bpe_save(const es_bpe *bpe, const char *path) ES_MUST_USE;

void es_bpe_free(es_bpe *bpe); /* removes the folder; zeroed is fine */

#endif
