/**
 * Damaged samples and rows of all files that a program reads, and damaged
 * frames of fragments. Samples and frames are shown as missing values; these
 * functions collect them, report them, and turn them into the exit code.
 */
#ifndef ES_DAMAGE_H
#define ES_DAMAGE_H

#include "store/reader.h"

/** Notes a damaged sample of a file, once. sample NULL: a part of the file
 *  could not be read. The notes are global; call from one thread at a time. */
void es_damage_note(const char *path, const es_damaged *sample);

/** Notes the damaged samples that the reader has met, and whether it could not
 *  see all of a fragment, then closes it. NULL is allowed. */
void es_damage_close(es_reader *reader);

/** --salvage: damage no longer makes the program fail. */
void es_damage_accept(void);

/** Prints a line for each file with new damage since the last call. */
void es_damage_print(void);

/**
 * Returns the exit code of a program that would otherwise exit with `code`: 3
 * if a file was damaged, 4 if there are several inputs; `code` itself if it is
 * above 1, or after es_damage_accept. Prints the damage that was not printed
 * yet.
 */
int es_damage_exit(int code, size_t n_inputs);

#endif
