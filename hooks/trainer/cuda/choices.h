/**
 * Stores in a file which of cuBLASLt's candidates (proposed algorithms) is
 * fastest for each product, so that the next run uses the same candidates and
 * computes the same bits. A file belongs to one device and one version of the
 * library. Only the numbers of candidates are stored, and no data from the file
 * are passed to the library.
 */
#ifndef ES_CUDA_CHOICES_H
#define ES_CUDA_CHOICES_H

#include <stddef.h>

/** Maximum number of candidate algorithms for a product. */
enum { ES_MAX_CANDIDATES = 8 };

/** Size of a key including its NUL. A key consists of numbers separated by
 *  single spaces. */
enum { ES_CHOICE_KEY = 160 };

typedef struct es_choices es_choices;

/**
 * Reads from the file which candidate algorithms were chosen for the device and
 * library that the string `of` names. The environment variable
 * ENTROPY_TRAIN_TUNING contains the path of the file, or "off". By default the
 * file is in the folder entropy-train, which is in XDG_CACHE_HOME or ~/.cache.
 *
 *   note  (size) set to a one-line warning if the file cannot be read or
 *         written, otherwise to ""
 *
 * Returns NULL if products must not be timed: the variable is "off", the
 * results could not be stored, or there is not enough memory.
 */
es_choices *es_choices_open(const char *of, char *note, size_t size);
void es_choices_close(es_choices *choices); /* Closes `choices`, which may be
                                             * NULL. */

/** Returns the number of the candidate algorithm that is stored for `key`, or
 *  -1 if none is stored. */
int es_choices_find(const es_choices *choices, const char *key);

/** Stores the choice for `key` in memory and in the file. Replaces an earlier
 *  choice for the same key. */
void es_choices_add(es_choices *choices, const char *key, int candidate);

#endif
