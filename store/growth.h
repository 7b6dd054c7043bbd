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
    ES_GROWTH_OTHER    /* events, series, runs, maps, an end, damage; another
                          file: a reader has to be opened or refreshed */
} es_growth_news;

/**
 * Begins where a reader stands, which may be closed then.
 *
 *   out  NULL: the reader is not of a fragment, or its writer has closed it
 *
 * ES_OK, ES_ENOMEM.
 */
es_status es_growth_begin(es_growth **out, const es_reader *reader) ES_MUST_USE;

/**
 * Opens the file, which on a file system that hosts share fetches what another
 * host wrote, looks, and closes it.
 *
 * ES_OK; ES_EIO, ES_EFORMAT, ES_ENOMEM: begin anew.
 */
es_status es_growth_look(es_growth_news *out, es_growth *growth) ES_MUST_USE;

/** The highest step that it knows of; ES_UNKNOWN: none. */
int64_t es_growth_last_step(const es_growth *growth);

/** Whether another machine writes it: this one's kernel reports no changes. */
bool es_growth_is_abroad(const es_growth *growth);

/** NULL is fine. */
void es_growth_end(es_growth *growth);

#endif
