/** What import opens: files as they are, and what is first made into one that a
 *  parser knows. */
#ifndef ES_IMPORT_OPEN_H
#define ES_IMPORT_OPEN_H

#include "cli/exchange/lines.h"

/**
 * Opens a file, standard input ("-"), or the folder of an MLflow run, which is
 * read as an event file.
 *
 *   what  what it is in words, "an MLflow folder"; NULL: what its format says
 *
 * ES_OK; ES_EFORMAT; ES_EIO; ES_ENOMEM.
 */
es_status es_import_open(es_line_reader **out, const char **what,
                         const char *path) ES_MUST_USE;

/** Where the file is one JSON document its rows, as JSON lines, take the place
 *  of `lines`. ES_OK, also of any other file; ES_EFORMAT; ES_EIO; ES_ENOMEM. */
es_status es_import_unpack(bool *is_document,
                           es_line_reader **lines) ES_MUST_USE;

/** The numbers of an MLflow run's folder as an event file in `out`; `path` is
 *  the run's folder or its folder metrics. ES_OK; ES_EFORMAT; ES_EIO;
 *  ES_ENOMEM. */
es_status es_import_mlflow(FILE **out, const char *path) ES_MUST_USE;

#endif
