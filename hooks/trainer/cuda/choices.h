/**
 * Remembers which of cuBLASLt's candidates is fastest for each product, in a
 * file, so that the next run has the same bits. The file belongs to one device
 * and one version of the library; it contains numbers of candidates and nothing
 * that is passed to the library.
 */
#ifndef ES_CUDA_CHOICES_H
#define ES_CUDA_CHOICES_H

#include <stddef.h>

/** Largest number of candidates of a product. */
enum { ES_MAX_CANDIDATES = 8 };

/** Size of a key with its NUL: numbers separated by single blanks. */
enum { ES_CHOICE_KEY = 160 };

typedef struct es_choices es_choices;

/**
 * Reads the choices for `of`, the device and the library. ENTROPY_TRAIN_TUNING
 * names the file, or is "off"; by default the file is in entropy-train/ below
 * XDG_CACHE_HOME or ~/.cache.
 *
 *   note  (size) written: one line about a file that cannot be read or written,
 *         or ""
 *
 * Returns NULL if nothing is to be timed: timing is off, its results could not
 * be kept, or memory is short.
 */
es_choices *es_choices_open(const char *of, char *note, size_t size);
void es_choices_close(es_choices *choices); /* NULL is accepted */

/** Returns the candidate for a key; -1 if none has been chosen. */
int es_choices_find(const es_choices *choices, const char *key);

/** Stores a choice in memory and in the file, replacing an earlier one. */
void es_choices_add(es_choices *choices, const char *key, int candidate);

#endif
