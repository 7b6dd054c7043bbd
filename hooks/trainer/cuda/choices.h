/**
 * Which of cuBLASLt's candidates a product runs with, by time, kept in a file
 * so that the next run has the same bits. The file is of one device and one
 * version of the library; it holds numbers of candidates and nothing that is
 * handed to the library.
 */
#ifndef ES_CUDA_CHOICES_H
#define ES_CUDA_CHOICES_H

#include <stddef.h>

/** Candidates of a product at most. */
enum { ES_MAX_CANDIDATES = 8 };

/** Characters of a key, with its end: numbers with single blanks between. */
enum { ES_CHOICE_KEY = 160 };

typedef struct es_choices es_choices;

/**
 * Reads what has been chosen for `of`, the device and the library.
 * ENTROPY_TRAIN_TUNING names the file, or is "off"; without it the file is in
 * entropy-train/ below XDG_CACHE_HOME or ~/.cache.
 *
 *   note  (size) written: one line on a file that is not read or cannot be
 *         written, or ""
 *
 * NULL: nothing is to be timed: it is off, or could not be kept, or there is
 * no memory.
 */
es_choices *es_choices_open(const char *of, char *note, size_t size);
void es_choices_close(es_choices *choices); /* NULL is fine */

/** The candidate for a key; -1: none has been chosen. */
int es_choices_find(const es_choices *choices, const char *key);

/** Keeps one, in place of what was chosen before, and in the file as well. */
void es_choices_add(es_choices *choices, const char *key, int candidate);

#endif
