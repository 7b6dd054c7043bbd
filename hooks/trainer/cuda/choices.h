/**
 * Stores in a file which of cuBLASLt's candidates is fastest for each product,
 * so that the next run computes the same bits. The file belongs to one device
 * and one version of the library. It contains the candidates' numbers only, and
 * nothing from it is passed to the library.
 */
#ifndef ES_CUDA_CHOICES_H
#define ES_CUDA_CHOICES_H

#include <stddef.h>

/** Maximum number of candidates for a product. */
enum { ES_MAX_CANDIDATES = 8 };

/** Size of a key including its NUL. A key consists of numbers separated by
 *  single spaces. */
enum { ES_CHOICE_KEY = 160 };

typedef struct es_choices es_choices;

/**
 * Reads the choices for the device and library that the string `of` names.
 * ENTROPY_TRAIN_TUNING names the file, or is "off"; by default the file is in
 * the folder entropy-train of XDG_CACHE_HOME or ~/.cache.
 *
 *   note  (size) written: one line about a file that cannot be read or written,
 *         or ""
 *
 * Returns NULL if products are not to be timed, because timing is off, its
 * results could not be stored, or memory is short.
 */
es_choices *es_choices_open(const char *of, char *note, size_t size);
void es_choices_close(es_choices *choices); /* NULL is accepted */

/** Returns the number of the candidate chosen for a key; -1 if none has been
 *  chosen. */
int es_choices_find(const es_choices *choices, const char *key);

/** Stores a choice in memory and in the file. Replaces an earlier choice for
 *  the same key. */
void es_choices_add(es_choices *choices, const char *key, int candidate);

#endif
