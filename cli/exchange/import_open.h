/** Opens the input of import. MLflow folders and JSON documents are first
 *  converted to formats that have a parser. */
#ifndef ES_IMPORT_OPEN_H
#define ES_IMPORT_OPEN_H

#include "cli/exchange/lines.h"

/**
 * Opens a file, standard input ("-"), or the folder of an MLflow run, which is
 * converted to an event file.
 *
 *   what  set to a description of the input for messages, such as "an MLflow
 *         folder"; NULL if the name of the format suffices
 *
 * Returns ES_OK; ES_EFORMAT; ES_EIO; ES_ENOMEM.
 */
es_status es_import_open(es_line_reader **out, const char **what,
                         const char *path) ES_MUST_USE;

/**
 * If the file is a single JSON document, replaces *lines by a reader of the
 * same rows as JSON lines. Returns ES_OK, even if the file is not a JSON
 * document; ES_EFORMAT; ES_EIO; ES_ENOMEM.
 */
es_status es_import_unpack(bool *is_document,
                           es_line_reader **lines) ES_MUST_USE;

/** Writes the metrics of an MLflow run as an event file to *out; `path` is the
 *  run's folder or its subfolder metrics. Returns ES_OK; ES_EFORMAT; ES_EIO;
 *  ES_ENOMEM. */
es_status es_import_mlflow(FILE **out, const char *path) ES_MUST_USE;

#endif
