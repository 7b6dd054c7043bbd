/** Writes output files that appear completely or not at all. */
#ifndef ES_OUTFILE_H
#define ES_OUTFILE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdio.h>

typedef struct es_outfile es_outfile;

/**
 * Opens a temporary file in the folder of `path`, or standard output for "-".
 *
 *   out     owned by the caller, who must close or abandon it
 *   stream  borrowed; the caller writes to it
 *
 * If `path` is a link, its target is replaced. The new file has the mode of the
 * file that it replaces, else 0666 minus the umask. Temporary files that killed
 * processes left in the folder are removed (analyzer/base/leftover.h). A FIFO,
 * a device or /dev/stdout is written directly.
 *
 * Returns ES_OK, ES_EIO (a directory, not writable, ...) or ES_ENOMEM.
 */
es_status es_outfile_open(es_outfile **out, FILE **stream,
                          const char *path) ES_MUST_USE;

/**
 * Flushes and syncs the file, renames it to `path`, and syncs the directory;
 * standard output is only flushed. If any earlier write has failed, removes the
 * temporary file and fails. Frees `file` in every case. Returns ES_OK or
 * ES_EIO.
 */
es_status es_outfile_close(es_outfile *file) ES_MUST_USE;

/**
 * Removes the temporary file and the files that SQLite or the writer left next
 * to it, and frees `file`. An existing file at `path` is unchanged. `file` may
 * be NULL.
 */
void es_outfile_abandon(es_outfile *file);

/** Closes the file if `status` is ES_OK, and abandons it otherwise. Returns
 *  `status`, or the status of closing. */
es_status es_outfile_finish(es_outfile *file, es_status status) ES_MUST_USE;

/**
 * Returns the path of the temporary file, which is empty at first. It is for
 * callers that open the file by name (es_writer) and sync it themselves; they
 * may also replace the temporary file. Returns NULL for standard output, a FIFO
 * or a device, which have no temporary file.
 */
const char *es_outfile_temporary(const es_outfile *file);

#endif
