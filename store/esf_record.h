/**
 * Describes the records in a frame of a fragment file. Each call of a function
 * of es_writer appends one record. Strings and integers are packed as in
 * analyzer/base/pack.h.
 */
#ifndef ES_ESF_RECORD_H
#define ES_ESF_RECORD_H

#include "analyzer/base/pack.h"
#include "store/run.h"

typedef enum es_esf_kind {
    ES_ESF_WRITER = 1, /* record contains an es_esf_writer */
    ES_ESF_RUN,        /* record contains an es_esf_run; begins an attempt
                          (start or resumption) to record the run */
    ES_ESF_SERIES,     /* record contains an es_esf_series */
    ES_ESF_SAMPLE,     /* record contains an es_esf_sample, followed by the
                          values */
    ES_ESF_EVENT,      /* es_event */
    ES_ESF_MAP,        /* record contains an es_map, followed by the values */
    ES_ESF_END,        /* record contains an es_esf_end */
    /* Repetitions of a record that was written earlier in the same attempt to
       record the run. Readers that found the earlier record damaged use them;
       other readers skip them. */
    ES_ESF_RUN_AGAIN,    /* record contains an es_esf_run */
    ES_ESF_SERIES_AGAIN, /* record contains an es_esf_series */
} es_esf_kind;

/** Size in bytes of the kind and the length that begin each record. */
#define ES_ESF_RECORD_BYTES 8

/**
 * The process that writes the fragment. The pid and the clock are meaningful
 * to a reader only if `host` and `boot` equal those of the reader's machine.
 */
typedef struct es_esf_writer {
    const char *host, *boot; /* name of the host; boot id from its
                                /proc/sys/kernel/random/boot_id */
    int64_t pid;
} es_esf_writer;

/**
 * A run that begins or, if `resumed` is set, is resumed. For a resumed run only
 * uuid, n_layer, n_head and the new config, program and host are used.
 */
typedef struct es_esf_run {
    es_run_info info;
    int64_t resumed;
} es_esf_run;

typedef struct es_esf_series {
    int64_t number; /* number of the series, by which samples refer to it */
    const char *name, *unit;
    int64_t shape, phase;
} es_esf_series;

/** Header of a sample's record, 24 bytes, followed by the sample's values. */
typedef struct es_esf_sample {
    int64_t series, step;
    int32_t crc; /* checksum of the sample, from es_checksum_of_sample */
    uint32_t bytes;
} es_esf_sample;

typedef struct es_esf_end {
    int64_t status;
    const char *at; /* time at which the run ended; NULL if the run is
                       running */
} es_esf_end;

void es_esf_pack_writer(es_pack *pack, void *writer);
void es_esf_pack_run(es_pack *pack, void *run);
void es_esf_pack_series(es_pack *pack, void *series);
void es_esf_pack_event(es_pack *pack, void *event);
void es_esf_pack_map(es_pack *pack, void *map);
void es_esf_pack_end(es_pack *pack, void *end);

#endif
