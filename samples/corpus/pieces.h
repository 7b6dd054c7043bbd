/** The vocabulary of a sentencepiece model. */
#ifndef ES_CORPUS_PIECES_H
#define ES_CORPUS_PIECES_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

typedef struct es_piece {
    size_t at; /* its bytes in es_pieces.bytes */
    size_t n;
} es_piece;

typedef struct es_pieces {
    char *model;          /* path */
    es_piece *items;      /* by id: the bytes of text it stands for */
    uint32_t n, capacity; /* n is the vocabulary */
    unsigned char *bytes;
    size_t n_bytes, bytes_capacity;
    uint32_t byte_id[256]; /* of the pieces <0x00> to <0xFF> */
    char name[32]; /* "sentencepiece 16384 1a2b3c4d", the latter of the file */
} es_pieces;

/**
 * Asks spm_export_vocab for a model's pieces.
 *
 * ES_OK; ES_EIO (no such file, spm_export_vocab missing or failed);
 * ES_EFORMAT (no byte fallback; a piece that a line cannot hold); ES_ENOMEM.
 */
es_status es_pieces_load(es_pieces *out, const char *model) ES_MUST_USE;

void es_pieces_free(es_pieces *pieces); /* zeroed is fine */

#endif
