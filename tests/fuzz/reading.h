/** Reads the contents of any file, for the targets that damage files. */
#ifndef ES_FUZZ_READING_H
#define ES_FUZZ_READING_H

#include "store/reader.h"

/** Reads everything, and aborts if something is out of bounds. */
void fuzz_read_all(es_reader *reader);

#endif
