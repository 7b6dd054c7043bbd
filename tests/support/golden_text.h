/** Compares what a function prints with a file in tests/golden. */
#ifndef ES_TESTS_GOLDEN_TEXT_H
#define ES_TESTS_GOLDEN_TEXT_H

#include <stdbool.h>

/**
 * Returns true if `text` is exactly tests/golden/NAME. A different text is
 * written to BUILD/golden/NAME. With ES_GOLDEN_UPDATE=1 in the environment,
 * writes the file in tests/golden instead.
 */
bool es_text_is_golden(const char *text, const char *name);

#endif
