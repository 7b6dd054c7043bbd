/**
 * Following fragments (esf.h) that grow, for who watches many: what a reader
 * has read of one is remembered in about a KiB, without a descriptor, and a
 * look reads what was appended since and no more.
 */
#ifndef ES_GROWTH_H
#define ES_GROWTH_H

#include "store/reader.h"

typedef struct es_growth es_growth;

/** What has come since es_growth_begin, or since the last look that found it.
 */
typedef enum es_growth_news {
    ES_GROWTH_NONE,    /* nothing, or heartbeats */
    ES_GROWTH_SAMPLES, /* samples, and nothing else */
    ES_GROWTH_OTHER    /* events, series, runs, maps, an end, damage, a writer
                          that has died; another file: a reader has to be opened
                          or refreshed */
} es_growth_news;

/** One that was appended, of a series that the reader knew. */
typedef struct es_growth_sample {
    size_t run;       /* index */
    const char *name; /* of its series */
    es_phase phase;
    int64_t step;
    const float *values; /* (n) */
    size_t n;
} es_growth_sample;

/**
 * es_reader_open, which searches a fragment for whole frames behind damage no
 * further than `most` bytes at a time, and not where `growth` did, which
 * follows the same path; NULL: nobody did. es_growth_begin searches on.
 */
es_status es_growth_open(es_reader **out, const char *path,
                         const es_growth *growth, int64_t most) ES_MUST_USE;

/**
 * Begins where a reader stands, which may be closed then. That the writer dies
 * from here on is news.
 *
 *   out      NULL: the reader is not of a fragment, or its writer has closed it
 *            and all of it is searched
 *   samples  looks keep what they find of them, es_growth_samples hands it out
 *
 * ES_OK, ES_ENOMEM.
 */
es_status es_growth_begin(es_growth **out, const es_reader *reader,
                          bool samples) ES_MUST_USE;

/**
 * Opens the file, which on a file system that hosts share fetches what another
 * host wrote, looks, and closes it.
 *
 * ES_OK; ES_EIO, ES_EFORMAT, ES_ENOMEM: begin anew.
 */
es_status es_growth_look(es_growth_news *out, es_growth *growth) ES_MUST_USE;

/** Those that the last look found, as they were appended; borrowed until the
 *  next one or until they are dropped. Of news other than ES_GROWTH_SAMPLES
 *  there are none. */
const es_growth_sample *es_growth_samples(size_t *n, const es_growth *growth);
void es_growth_drop_samples(es_growth *growth);

/** The highest step that it knows of; ES_UNKNOWN: none. */
int64_t es_growth_last_step(const es_growth *growth);

/** Whether there is more to be searched for frames behind damage: the next look
 *  goes on where the last one stopped. */
bool es_growth_is_searching(const es_growth *growth);

/** Whether another machine writes it: this one's kernel reports no changes. */
bool es_growth_is_abroad(const es_growth *growth);

/** NULL is fine. */
void es_growth_end(es_growth *growth);

#endif
