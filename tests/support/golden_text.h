/** Text that a function prints, compared with a file under tests/golden. */
#ifndef ES_TESTS_GOLDEN_TEXT_H
#define ES_TESTS_GOLDEN_TEXT_H

#include <stdbool.h>

/**
 * True if `text` is tests/golden/NAME to the byte. Text that differs is left
 * as BUILD/golden/NAME. With ES_GOLDEN_UPDATE=1 in the environment the file
 * is written instead.
 */
bool es_text_is_golden(const char *text, const char *name);

#endif
