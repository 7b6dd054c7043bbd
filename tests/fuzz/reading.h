/**
 * Reads the contents of a file that may be damaged, for the fuzz targets that
 * damage files.
 */
#ifndef ES_FUZZ_READING_H
#define ES_FUZZ_READING_H

#include "store/reader.h"

/** Reads everything in the file. Aborts if a result is out of bounds. */
void fuzz_read_all(es_reader *reader);

#endif
