/**
 * Damaged samples and rows of all files that a program reads, and damaged
 * frames of fragments. Samples and frames are shown as missing values; here is
 * what is said of them, and that the program ends as failed.
 */
#ifndef ES_DAMAGE_H
#define ES_DAMAGE_H

#include "store/reader.h"

/** Notes a damaged sample of a file, once; NULL: that not all of the file could
 *  be read. The notes are the process's own, of one thread. */
void es_damage_note(const char *path, const es_damaged *sample);

/** Notes which of the samples read were damaged, and whether the reader has not
 *  seen all of a fragment, and closes it. NULL is fine. */
void es_damage_close(es_reader *reader);

/** --salvage: damage is not a failure. */
void es_damage_accept(void);

/** Prints a line for each file of which more damage was noted since the last
 *  call. */
void es_damage_print(void);

/**
 * The exit code of a program that would end with `code`: 3 if a file was
 * damaged, 4 if it was one of several inputs. One that says that something
 * failed stays. Prints what es_damage_print has not.
 */
int es_damage_exit(int code, size_t n_inputs);

#endif
