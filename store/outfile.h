/** Output files that appear whole or not at all. */
#ifndef ES_OUTFILE_H
#define ES_OUTFILE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdio.h>

typedef struct es_outfile es_outfile;

/**
 * Opens a temporary file beside `path`, or standard output for "-".
 *
 *   out     owned by the caller: close or abandon it
 *   stream  borrowed; write to it
 *
 * A link is followed to the file it points to. The new file has the mode of
 * the one it replaces, else 0666 less the umask. Temporary files of killed
 * processes are removed from its folder: store/leftover.h. What is no regular
 * file (a FIFO, a device, /dev/stdout) is written directly.
 *
 * ES_OK, ES_EIO (a directory, not writable, ...) or ES_ENOMEM.
 */
es_status es_outfile_open(es_outfile **out, FILE **stream,
                          const char *path) ES_MUST_USE;

/**
 * Flushes, syncs, renames over `path`, syncs the directory. Standard output
 * is flushed. A write error anywhere before makes it fail and removes the
 * temporary file. Frees. ES_OK or ES_EIO.
 */
es_status es_outfile_close(es_outfile *file) ES_MUST_USE;

/** Removes the temporary file and what lies beside it, leaves `path` alone,
 * frees. NULL is fine. */
void es_outfile_abandon(es_outfile *file);

/** Closes the file if all went well until now, and abandons it otherwise.
 *  Returns the status, or that of closing. */
es_status es_outfile_finish(es_outfile *file, es_status status) ES_MUST_USE;

/**
 * The temporary file's path, empty so far, for who opens by name (es_writer)
 * and syncs what he writes; he may replace the file. NULL if there is none:
 * standard output, a FIFO, a device.
 */
const char *es_outfile_temporary(const es_outfile *file);

#endif
