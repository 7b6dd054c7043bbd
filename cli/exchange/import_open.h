/** Opens the input of import. Inputs that no parser reads directly are first
 *  converted to a format that one reads. */
#ifndef ES_IMPORT_OPEN_H
#define ES_IMPORT_OPEN_H

#include "cli/exchange/lines.h"

/**
 * Opens a file, standard input ("-"), or the folder of an MLflow run, which is
 * converted to an event file.
 *
 *   what  set to the input in words, "an MLflow folder"; NULL: its format says
 * enough
 *
 * Returns ES_OK; ES_EFORMAT; ES_EIO; ES_ENOMEM.
 */
es_status es_import_open(es_line_reader **out, const char **what,
                         const char *path) ES_MUST_USE;

/** If the file is one JSON document, replaces `lines` by its rows as JSON
 *  lines. Returns ES_OK, also for any other file; ES_EFORMAT; ES_EIO;
 *  ES_ENOMEM. */
es_status es_import_unpack(bool *is_document,
                           es_line_reader **lines) ES_MUST_USE;

/** Writes the numbers of an MLflow run as an event file to *out; `path` is the
 *  run's folder or its folder metrics. Returns ES_OK; ES_EFORMAT; ES_EIO;
 *  ES_ENOMEM. */
es_status es_import_mlflow(FILE **out, const char *path) ES_MUST_USE;

#endif
