/**
 * Outputs of the program: es_outfile, plus what a program has to see to. A
 * signal that ends the process removes the temporary file first, and no output
 * replaces what it is made from.
 */
#ifndef ES_OUTPUT_H
#define ES_OUTPUT_H

#include "analyzer/base/status.h"
#include "store/writer.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

typedef struct es_output es_output;

/** Default actions for SIGPIPE; SIGHUP, SIGINT and SIGTERM remove temporary
 *  files, then end the process as they would have; SIGBUS, which a file that
 *  another program truncates causes, prints a line and ends it with code 3.
 *  Once, at the start. */
void es_output_catch_signals(void);

/** es_outfile_open. At most one output is open at a time. */
es_status es_output_open(es_output **out, FILE **stream,
                         const char *path) ES_MUST_USE;

/**
 * An output that is a run file, and the writer on its temporary file. Close
 * or abandon the writer first, then the output.
 *
 * ES_OK; ES_EUSAGE where no file can appear whole, as on standard output;
 * es_outfile_open's and es_writer_open's errors.
 */
es_status es_output_open_run(es_output **out, es_writer **writer,
                             const char *path) ES_MUST_USE;

/** Passes a writer's failure on with the output's name before the message: it
 *  knows the temporary file's alone. ES_OK stays ES_OK. */
es_status es_output_status(const es_output *output, es_status status);

/** True if the last message is the writer's, not an input's. */
bool es_output_is_blamed(const es_output *output);

es_status es_output_close(es_output *output) ES_MUST_USE;
void es_output_abandon(es_output *output); /* NULL is fine */

/** Closes it if all went well until now, and abandons it otherwise. Returns the
 *  status, or that of closing. */
es_status es_output_finish(es_output *output, es_status status) ES_MUST_USE;

/** Two paths to one file that is there. */
bool es_path_is_same(const char *a, const char *b);

/** ES_EUSAGE if `path` is one of the inputs (also by another name). */
es_status es_output_check(const char *path, char *const *inputs,
                          size_t n_inputs) ES_MUST_USE;

/** The same for text and pictures; also if `path` is a database, which most
 *  likely is a run that took hours. */
es_status es_output_check_text(const char *path, char *const *inputs,
                               size_t n_inputs) ES_MUST_USE;

/**
 * May a run file be written as `path`? Yes if nothing is there, or an empty
 * file, or a run file that nobody is writing and no log lies beside.
 *
 * ES_OK, ES_EIO (something else: it is left alone), ES_ELOCKED.
 */
es_status es_output_check_run_file(const char *path) ES_MUST_USE;

#endif
