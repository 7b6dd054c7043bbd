/** Python source out of folders: which files, which part, read when needed. */
#ifndef ES_CORPUS_COLLECT_H
#define ES_CORPUS_COLLECT_H

#include "analyzer/base/status.h"
#include "hooks/trainer/files/tokens.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct es_document {
    size_t folder; /* index into the corpus's folders */
    char *path;    /* relative to it */
    size_t size;   /* bytes, never 0 */
    uint64_t hash; /* es_tokens_hash of its bytes */
    es_split split;
} es_document;

typedef struct es_corpus {
    es_document *items;
    size_t n, capacity;
    char **folders; /* owned */
    size_t n_folders;
    uint64_t *seen; /* hash set of the contents, 0 for a free place */
    size_t n_seen, n_places;
    size_t largest;          /* bytes of the largest document */
    uint64_t n_documents[2]; /* by es_split */
    uint64_t n_bytes[2];     /* a NUL behind each document included */
    /* files left out */
    uint64_t n_unreadable, n_empty, n_binary, n_not_utf8, n_twice;
} es_corpus;

/** One document of this many, by the hash of its path, is held out. */
#define ES_CORPUS_HELD_OUT 32

/**
 * Adds the *.py below `folder` (es_paths_find), in the byte order of their
 * relative paths, so that neither the order of a directory nor the place of
 * the folder matters. Each file is read once and let go: memory is a path a
 * document and the largest file.
 *
 *   limit   stops before the file that would make the corpus longer than this
 *           many bytes; 0 for no limit
 *
 * Left out and counted: unreadable files and directories, empty files, files
 * that hold a NUL byte, which ends a document; what is not UTF-8, so that
 * every tokenizer gets the same text; a file whose size and 64-bit hash an
 * earlier one had, as the same text must not stand in both parts.
 *
 * ES_OK; ES_EIO (no such folder, not a directory); ES_ENOMEM.
 */
es_status es_corpus_add_folder(es_corpus *corpus, const char *folder,
                               uint64_t limit) ES_MUST_USE;

/**
 * Reads a document again.
 *
 *   out   room for document->size bytes
 *
 * ES_OK; ES_EIO (it cannot be read, or is not what it was).
 */
es_status es_corpus_read(unsigned char *out, const es_corpus *corpus,
                         const es_document *document) ES_MUST_USE;

/** A number for the whole text: every document's, its part, their order. */
uint64_t es_corpus_checksum(const es_corpus *corpus);

void es_corpus_free(es_corpus *corpus);

#endif
