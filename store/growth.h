/**
 * Follows growing fragments (esf.h), for programs that watch many of them.
 * The state takes about 1 KiB per fragment and no open descriptor; a look reads
 * only the bytes that were appended since the last look.
 */
#ifndef ES_GROWTH_H
#define ES_GROWTH_H

#include "store/reader.h"

typedef struct es_growth es_growth;

/** The changes since es_growth_begin, or since the last look that
 *  found something. */
typedef enum es_growth_news {
    ES_GROWTH_NONE,    /* nothing new, or only heartbeats */
    ES_GROWTH_SAMPLES, /* samples only */
    ES_GROWTH_OTHER    /* events, series, runs, maps, an end, damage, a dead
                          writer, or another file: a reader has to be opened or
                          refreshed */
} es_growth_news;

/** An appended sample of a series that the reader had loaded. */
typedef struct es_growth_sample {
    size_t run;       /* index of the run */
    const char *name; /* name of the series */
    es_phase phase;
    int64_t step;
    const float *values; /* (n) */
    size_t n;
} es_growth_sample;

/**
 * Opens a reader as es_reader_open does, but searches at most `most` bytes of a
 * fragment for whole frames behind damage. The search starts where the search
 * of `growth`, which follows the same path, has stopped, or at the damage if
 * `growth` is NULL. es_growth_begin continues it.
 */
es_status es_growth_open(es_reader **out, const char *path,
                         const es_growth *growth, int64_t most) ES_MUST_USE;

/**
 * Starts to follow a fragment from a reader's position; the reader may be
 * closed afterwards. If the writer dies from now on, looks report it.
 *
 *   out  NULL if the reader has no fragment, or its writer has closed the
 *        fragment and all of it is searched
 *
 * Returns ES_OK, ES_ENOMEM.
 */
es_status es_growth_begin(es_growth **out, const es_reader *reader) ES_MUST_USE;

/**
 * Opens the file, reads what was appended, and closes the file. On a file
 * system that hosts share, opening it fetches what another host wrote.
 *
 * Returns ES_OK; after ES_EIO, ES_EFORMAT or ES_ENOMEM begin again with a new
 * reader.
 */
es_status es_growth_look(es_growth_news *out, es_growth *growth) ES_MUST_USE;

/**
 * Returns the n samples of the last look, in the order in which they were
 * appended; borrowed until the next look or until they are dropped. n is 0
 * unless the look returned ES_GROWTH_SAMPLES.
 */
const es_growth_sample *es_growth_samples(size_t *n, const es_growth *growth);
void es_growth_drop_samples(es_growth *growth);

/** Returns true if the search for frames behind damage is not finished: the
 *  next look resumes it. */
bool es_growth_is_searching(const es_growth *growth);

/** Returns true if another machine writes the fragment: the local kernel then
 * does not notify of its changes. */
bool es_growth_is_abroad(const es_growth *growth);

/** Frees the state; NULL is fine. */
void es_growth_end(es_growth *growth);

#endif
