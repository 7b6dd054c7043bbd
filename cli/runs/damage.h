/**
 * Collects damaged samples and rows of all files that a program reads, and
 * damaged frames of fragments; reports the damage, and determines the exit
 * code. The outputs treat the values of damaged samples and frames as missing.
 */
#ifndef ES_DAMAGE_H
#define ES_DAMAGE_H

#include "store/reader.h"

/** Notes that a sample of a file is damaged, or, if `sample` is NULL, that a
 *  part of the file could not be read. Repeated notes of the same sample count
 *  once. The notes are global; call from one thread at a time. */
void es_damage_note(const char *path, const es_damaged *sample);

/** Notes the damaged samples that the reader has found, and whether a part of a
 *  fragment could not be read. Then closes the reader, which may be NULL. */
void es_damage_close(es_reader *reader);

/** Makes damage acceptable, for --salvage: afterwards es_damage_exit returns
 *  its argument unchanged. */
void es_damage_accept(void);

/** Prints a line for each file with new damage since the last call. */
void es_damage_print(void);

/**
 * Returns the exit code of a program that would exit with `code` if no file
 * were damaged: 3 if a file was damaged, or 4 if there are several inputs.
 * Returns `code` itself if `code` is above 1, or after es_damage_accept. Prints
 * the damage that has not been printed yet.
 */
int es_damage_exit(int code, size_t n_inputs);

#endif
