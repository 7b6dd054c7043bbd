/** Python source out of folders, as two lists of documents end to end. */
#ifndef ES_CORPUS_COLLECT_H
#define ES_CORPUS_COLLECT_H

#include "analyzer/base/status.h"
#include <stddef.h>
#include <stdint.h>

/** Documents end to end, a NUL byte after each. */
typedef struct es_documents {
    unsigned char *bytes;
    size_t n, capacity;
    uint64_t n_documents;
} es_documents;

typedef struct es_corpus {
    es_documents train, held_out;
    uint64_t n_unreadable, n_empty, n_binary; /* files left out */
} es_corpus;

/** One document of this many, by the hash of its path, is held out. */
#define ES_CORPUS_HELD_OUT 32

/**
 * Adds every *.py below `folder`, in the byte order of its path relative to
 * `folder`, so that neither the order of a directory nor the place of the
 * folder matters.
 *
 *   limit   stops before the file that would make the corpus longer than this
 *           many bytes; 0 for no limit
 *
 * Left out without a word: directories named test, tests, site-packages,
 * dist-packages (what distributions split off or users install) and those
 * whose name begins with a dot; symbolic links below the folder. Left out and
 * counted: unreadable files and directories, empty files, files that hold a
 * NUL byte, which ends a document here.
 *
 * ES_OK; ES_EIO (no such folder, not a directory); ES_ENOMEM.
 */
es_status es_corpus_add_folder(es_corpus *corpus, const char *folder,
                               uint64_t limit) ES_MUST_USE;

void es_corpus_free(es_corpus *corpus);

#endif
