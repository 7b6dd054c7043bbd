/**
 * Writes the output files of the program through es_outfile. In addition, a
 * signal that ends the process removes the temporary file first, and an output
 * never replaces its own input.
 */
#ifndef ES_OUTPUT_H
#define ES_OUTPUT_H

#include "analyzer/base/status.h"
#include "store/writer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct es_output es_output;

/**
 * Installs the signal handlers; must be called once, at the start. SIGHUP,
 * SIGINT and SIGTERM remove temporary files, then end the process by their
 * default action. SIGBUS, which occurs if another program truncates a mapped
 * file, prints a message and exits with code 3. SIGPIPE keeps its default
 * action.
 */
void es_output_catch_signals(void);

/** Same as es_outfile_open, but signals remove the temporary file, and at most
 *  one output may be open at a time. */
es_status es_output_open(es_output **out, FILE **stream,
                         const char *path) ES_MUST_USE;

/**
 * Opens an output that is a run file, and a writer for its temporary file. The
 * caller must close or abandon the writer before the output.
 *
 * Returns ES_OK, ES_EUSAGE if `path` cannot be replaced atomically (such as
 * standard output), or an error of es_outfile_open or es_writer_open.
 */
es_status es_output_open_run(es_output **out, es_writer **writer,
                             const char *path) ES_MUST_USE;

/**
 * If `status` is the failure of a writer, adds the path of the output to its
 * message, because the writer only knows the path of the temporary file.
 * Returns `status`.
 */
es_status es_output_status(const es_output *output, es_status status);

/**
 * Returns true if the last error message is about the output's temporary file
 * and not about an input.
 */
bool es_output_is_blamed(const es_output *output);

es_status es_output_close(es_output *output) ES_MUST_USE;
void es_output_abandon(es_output *output); /* output may be NULL */

/**
 * Closes the output if `status` is ES_OK, and abandons it otherwise. Returns
 * `status`, or the error of closing the output.
 */
es_status es_output_finish(es_output *output, es_status status) ES_MUST_USE;

/** Returns true if both paths lead to the same existing file. */
bool es_path_is_same(const char *a, const char *b);

/**
 * Returns ES_EUSAGE if `path` leads to the same file as one of the inputs, even
 * under another name.
 */
es_status es_output_check(const char *path, char *const *inputs,
                          size_t n_inputs) ES_MUST_USE;

/**
 * Checks the path of an output that is a text or picture, like es_output_check.
 * Also returns ES_EUSAGE if `path` is a database, which is probably a run file
 * that took hours to record.
 */
es_status es_output_check_text(const char *path, char *const *inputs,
                               size_t n_inputs) ES_MUST_USE;

/**
 * Checks if a run file may be written at `path`. This is allowed if no file
 * exists, if the file is empty, or if the file is a run file that has no log
 * and that no process is writing.
 *
 * Returns ES_OK; ES_EIO if `path` is any other file, which must not be
 * replaced; ES_ELOCKED if a process is writing the run file.
 */
es_status es_output_check_run_file(const char *path) ES_MUST_USE;

#endif
