/** Describes the records in a frame of a fragment file: one record per call of
 * es_writer, in order. Strings and integers have the form of
 * analyzer/base/pack.h. */
#ifndef ES_ESF_RECORD_H
#define ES_ESF_RECORD_H

#include "analyzer/base/pack.h"
#include "store/run.h"

typedef enum es_esf_kind {
    ES_ESF_WRITER = 1, /* contains es_esf_writer */
    ES_ESF_RUN,        /* contains es_esf_run: the first record of an attempt */
    ES_ESF_SERIES,     /* contains es_esf_series */
    ES_ESF_SAMPLE,     /* contains es_esf_sample, then the values */
    ES_ESF_EVENT,      /* es_event */
    ES_ESF_MAP,        /* contains es_map, then the values */
    ES_ESF_END,        /* contains es_esf_end */
    /* Repetitions of an earlier record of the attempt, for readers that found
       the original damaged; other readers skip them. */
    ES_ESF_RUN_AGAIN,    /* contains es_esf_run */
    ES_ESF_SERIES_AGAIN, /* contains es_esf_series */
} es_esf_kind;

#define ES_ESF_RECORD_BYTES 8 /* kind and size precede each record */

/** The writing process. Host and boot show whether the pid and the clock are
 * those of this machine. */
typedef struct es_esf_writer {
    const char *host, *boot; /* /proc/sys/kernel/random/boot_id */
    int64_t pid;
} es_esf_writer;

/** A run that begins or, if `resumed` is set, continues. For a resumed run only
 * uuid, n_layer, n_head and the new config, program and host are used. */
typedef struct es_esf_run {
    es_run_info info;
    int64_t resumed;
} es_esf_run;

typedef struct es_esf_series {
    int64_t number; /* the number that samples refer to */
    const char *name, *unit;
    int64_t shape, phase;
} es_esf_series;

/** Head of a sample, 24 bytes, followed by the values. */
typedef struct es_esf_sample {
    int64_t series, step;
    int32_t crc; /* es_checksum_of_sample */
    uint32_t bytes;
} es_esf_sample;

typedef struct es_esf_end {
    int64_t status;
    const char *at; /* time of the end; NULL if the run is running */
} es_esf_end;

void es_esf_pack_writer(es_pack *pack, void *writer);
void es_esf_pack_run(es_pack *pack, void *run);
void es_esf_pack_series(es_pack *pack, void *series);
void es_esf_pack_event(es_pack *pack, void *event);
void es_esf_pack_map(es_pack *pack, void *map);
void es_esf_pack_end(es_pack *pack, void *end);

#endif
