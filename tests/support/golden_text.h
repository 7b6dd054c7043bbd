/** Compares text that a function has printed with a file in tests/golden. */
#ifndef ES_TESTS_GOLDEN_TEXT_H
#define ES_TESTS_GOLDEN_TEXT_H

#include <stdbool.h>

/**
 * Returns true if `text` equals tests/golden/NAME. If it differs, writes it to
 * BUILD/golden/NAME. If the environment has ES_GOLDEN_UPDATE=1, replaces the
 * file in tests/golden instead.
 */
bool es_text_is_golden(const char *text, const char *name);

#endif
