/**
 * The list of runs in the process that answers browsers. It contains the runs
 * sent by the process that reads run files. Each run has the version in which
 * it last changed, so that a page can get only the changes since the version
 * that it has.
 */
#ifndef ES_SERVE_LISTING_H
#define ES_SERVE_LISTING_H

#include "cli/serve/messages.h"
#include <stdio.h>

typedef struct es_serve_listed {
    char key[ES_SERVE_KEY];
    char *path;    /* path or URL for es_reader_open */
    size_t number; /* number of the run in its file, from 1 */
    int phase;     /* es_phase of the run's summary */
    char *json;    /* members of the run's JSON object, n bytes */
    size_t n;
    uint64_t version; /* version in which the run last changed */
} es_serve_listed;

/** A run that was removed. */
typedef struct es_serve_lost {
    char key[ES_SERVE_KEY];
    uint64_t version;
} es_serve_lost;

/** Maximum number of removed runs that are remembered. */
#define ES_SERVE_LOST_MOST 4096

typedef struct es_serve_listing {
    char boot[17]; /* random hexadecimal number that distinguishes the versions
                      of different server processes */
    es_serve_listed *runs; /* array of n_runs runs, sorted by key */
    size_t n_runs;
    es_serve_lost *lost; /* array of n_lost removed runs, sorted by version */
    size_t n_lost;
    char *head; /* JSON members that concern all runs, n_head bytes */
    size_t n_head;
    uint64_t version; /* number of the current version; later changes will
                         belong to the next one */
    uint64_t since;   /* oldest version of the list since which all changes are
                         known */
    bool changed;     /* true if something has changed since `version` */
} es_serve_listing;

/** Sets the listing to an empty list. */
void es_serve_listing_begin(es_serve_listing *listing);

void es_serve_listing_free(es_serve_listing *listing);

/** Updates the list from a message of the kind RUN, GONE or HEAD. Returns
 *  ES_OK, ES_EFORMAT or ES_ENOMEM. */
es_status es_serve_listing_take(es_serve_listing *listing, es_serve_kind kind,
                                const char *bytes, size_t n) ES_MUST_USE;

/** If a run has changed since the current version was made, increments the
 *  version and returns true; otherwise returns false. */
bool es_serve_listing_close(es_serve_listing *listing);

/** Returns the data of the server-sent event "runs": the newest version and, if
 *  `changes` is true, the runs that changed in it. The caller frees the string.
 *  Returns NULL if memory is short. */
char *es_serve_listing_event(const es_serve_listing *listing, bool changes);

/** Removes the runs that were not sent again after version `version`. Called
 *  after a restart of the process that reads run files. */
void es_serve_listing_forget(es_serve_listing *listing, uint64_t version);

/** Returns the run with the key `key` (n bytes, need not be terminated), or
 *  NULL. */
const es_serve_listed *es_serve_listing_find(const es_serve_listing *listing,
                                             const char *key, size_t n);

/** Writes the version as "BOOT.NUMBER". */
void es_serve_listing_version(char out[40], const es_serve_listing *listing);

/**
 * Writes the list as JSON, which README.md describes: the changes since the
 * version `since`, or all runs if `since` is NULL or too old to be known.
 */
void es_serve_listing_write(FILE *stream, const es_serve_listing *listing,
                            const char *since);

#endif
