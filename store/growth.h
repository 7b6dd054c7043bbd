/**
 * Follows growing fragments (esf.h), for programs that watch many of them. The
 * state of each fragment takes about 1 KiB and no open descriptor.
 * es_growth_look reads only the bytes that were appended since its last call.
 */
#ifndef ES_GROWTH_H
#define ES_GROWTH_H

#include "store/reader.h"

typedef struct es_growth es_growth;

/**
 * The kind of changes since es_growth_begin or since the last es_growth_look
 * that found a change.
 */
typedef enum es_growth_news {
    ES_GROWTH_NONE,    /* no change, or only heartbeats */
    ES_GROWTH_SAMPLES, /* samples only */
    ES_GROWTH_OTHER    /* any other change: events, series, runs, maps, the end
                          of a run, damage, a dead writer, or another file. The
                          caller has to open or refresh a reader */
} es_growth_news;

/** An appended sample of a series that the reader knew. */
typedef struct es_growth_sample {
    size_t run;       /* index of the run */
    const char *name; /* name of the series */
    es_phase phase;
    int64_t step;
    const float *values; /* (n) */
    size_t n;
} es_growth_sample;

/**
 * Opens a reader like es_reader_open. After a damaged frame of a fragment,
 * however, it reads at most `most` bytes in search of the next complete frame;
 * es_growth_begin and es_growth_look continue the search. If `growth`, which
 * must follow the same path, has already searched a part of these bytes, the
 * search resumes after that part. If `growth` is NULL, the search starts at the
 * damaged frame.
 */
es_status es_growth_open(es_reader **out, const char *path,
                         const es_growth *growth, int64_t most) ES_MUST_USE;

/**
 * Starts to follow a fragment from the position of a reader, which may be
 * closed afterwards. From now on es_growth_look also reports if the writer
 * dies.
 *
 *   out  NULL if the reader does not read a fragment, or if the writer has
 *        closed the fragment and all of it has been searched
 *
 * Returns ES_OK, ES_ENOMEM.
 */
es_status es_growth_begin(es_growth **out, const es_reader *reader) ES_MUST_USE;

/**
 * Opens the file, reads the data that was appended since the last call, and
 * closes the file. On a file system that hosts share, opening the file makes
 * data of other hosts visible.
 *
 * Returns ES_OK. After ES_EIO, ES_EFORMAT or ES_ENOMEM the caller must begin
 * again with a new reader.
 */
es_status es_growth_look(es_growth_news *out, es_growth *growth) ES_MUST_USE;

/**
 * Returns the n samples that the last es_growth_look found, in the order in
 * which they were appended. They are valid until the next es_growth_look or
 * es_growth_drop_samples. n is 0 unless es_growth_look returned
 * ES_GROWTH_SAMPLES.
 */
const es_growth_sample *es_growth_samples(size_t *n, const es_growth *growth);
void es_growth_drop_samples(es_growth *growth);

/** Returns true if the search for frames after a damaged frame is not finished.
 *  The next es_growth_look resumes the search. */
bool es_growth_is_searching(const es_growth *growth);

/**
 * Returns true if another machine writes the fragment. The local kernel then
 * sends no notifications about changes of the file.
 */
bool es_growth_is_abroad(const es_growth *growth);

/** Frees the state. `growth` may be NULL. */
void es_growth_end(es_growth *growth);

#endif
