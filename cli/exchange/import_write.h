/** Imports a text file into a run file. */
#ifndef ES_IMPORT_WRITE_H
#define ES_IMPORT_WRITE_H

#include "cli/exchange/import.h"

typedef struct es_imported {
    es_import_format format;
    es_import_report report;
    int64_t n_layer, n_head;
    size_t n_series;
    const char *what; /* description of the input from es_import_open; may be
                         NULL */
} es_imported;

/**
 * Reads the text file `input`, or standard input for "-", and writes the run
 * file `output`, which appears either complete or not at all.
 *
 *   format   format of the input; NULL to detect the format by content
 *   quiet    if true, no progress is printed
 *
 * Returns ES_OK, ES_EFORMAT, ES_EIO, ES_ELOCKED, ES_EUSAGE or ES_ENOMEM.
 */
es_status es_import_file(es_imported *out, const char *input,
                         const char *output, const es_import_format *format,
                         const es_import_options *options,
                         bool quiet) ES_MUST_USE;

#endif
