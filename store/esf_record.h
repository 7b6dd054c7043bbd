/** The records in a frame of a fragment file: what the calls of es_writer were,
 *  in their order. Strings and integers as analyzer/base/pack.h writes them. */
#ifndef ES_ESF_RECORD_H
#define ES_ESF_RECORD_H

#include "analyzer/base/pack.h"
#include "store/run.h"

typedef enum es_esf_kind {
    ES_ESF_WRITER = 1, /* es_esf_writer */
    ES_ESF_RUN,        /* es_esf_run: the first record of an attempt */
    ES_ESF_SERIES,     /* es_esf_series */
    ES_ESF_SAMPLE,     /* es_esf_sample, then its values */
    ES_ESF_EVENT,      /* es_event */
    ES_ESF_MAP,        /* es_map, then its values */
    ES_ESF_END,        /* es_esf_end */
    /* What an earlier frame of the attempt said, for who finds that damaged:
       passed over by who does not. */
    ES_ESF_RUN_AGAIN,    /* es_esf_run */
    ES_ESF_SERIES_AGAIN, /* es_esf_series */
} es_esf_kind;

#define ES_ESF_RECORD_BYTES 8 /* kind and size */

/** Who writes. Times of other boots and processes of other hosts cannot be
 *  looked up here. */
typedef struct es_esf_writer {
    const char *host, *boot; /* /proc/sys/kernel/random/boot_id */
    int64_t pid;
} es_esf_writer;

/** A run that begins, or with `resumed` goes on: then only uuid, n_layer and
 *  n_head and what replaces config, program and host are read. */
typedef struct es_esf_run {
    es_run_info info;
    int64_t resumed;
} es_esf_run;

typedef struct es_esf_series {
    int64_t number; /* what samples call it */
    const char *name, *unit;
    int64_t shape, phase;
} es_esf_series;

/** 24 bytes in front of the values. */
typedef struct es_esf_sample {
    int64_t series, step;
    int32_t crc; /* es_checksum_of_sample */
    uint32_t bytes;
} es_esf_sample;

typedef struct es_esf_end {
    int64_t status;
    const char *at; /* NULL: it runs */
} es_esf_end;

void es_esf_pack_writer(es_pack *pack, void *writer);
void es_esf_pack_run(es_pack *pack, void *run);
void es_esf_pack_series(es_pack *pack, void *series);
void es_esf_pack_event(es_pack *pack, void *event);
void es_esf_pack_map(es_pack *pack, void *map);
void es_esf_pack_end(es_pack *pack, void *end);

#endif
