/** What the files of a push share. */
#ifndef ES_PUSH_INTERNAL_H
#define ES_PUSH_INTERNAL_H

#include "store/layers.h"
#include "store/push/copy_in.h"
#include "store/push/push.h"

#define ES_DATE_SIZE 11 /* "2026-11-01" */

/** How much of a series there is: as a digest of steps and checksums. */
typedef struct es_push_place {
    int64_t n, last; /* samples; the last one's step, or ES_UNKNOWN */
    uint32_t digest;
} es_push_place;

typedef struct es_pushed_series {
    int32_t number;
    char *name;
    es_phase phase;
    es_shape shape;
    es_push_place place;
    bool is_found; /* in the file */
} es_pushed_series;

typedef enum es_push_part_kind {
    ES_PUSH_RUN,
    ES_PUSH_EVENT,
    ES_PUSH_MAP_TRAIN,
    ES_PUSH_MAP_EVAL,
    ES_N_PUSH_PARTS
} es_push_part_kind;

/** Of what has no series; digest 0 of none. */
typedef struct es_push_part {
    int64_t n;
    uint32_t digest;
} es_push_part;

/** What a database has of a run. */
typedef struct es_pushed {
    int64_t run_id; /* 0: nothing */
    int64_t revision, n_layer, n_head;
    char run[24]; /* run_id as text */
    char month[ES_DATE_SIZE];
    double low_below; /* nats; NaN: not known */
    char *source;
    es_pushed_series *series;
    size_t n_series;
    int32_t last_number;
    es_push_part parts[ES_N_PUSH_PARTS];
} es_pushed;

const char *es_push_part_name(es_push_part_kind kind);

/** What the database has of the run `uuid`, into a zeroed `out`, which is to be
 *  es_pushed_free'd in either case. */
es_status es_pushed_load(es_pushed *out, es_postgres *postgres,
                         const char *uuid) ES_MUST_USE;
void es_pushed_free(es_pushed *pushed);

/** One more sample. */
void es_push_place_add(es_push_place *place, int64_t step, int32_t crc);

/** The checksum of a sample that a cursor gave. */
int32_t es_push_crc(const es_series *series, int64_t step, const float *values);

typedef enum es_push_difference {
    ES_PUSH_AGREES,  /* what was pushed is in the file */
    ES_PUSH_ENDS,    /* the file ends earlier, and agrees up to there */
    ES_PUSH_DIFFERS, /* from some sample on */
    ES_PUSH_LACKS    /* the database lacks what it once had */
} es_push_difference;

/**
 * Compares what was pushed of a series with the file.
 *
 *   place  written: up to where they agree
 *   cut    written: the step from which the database's is to be deleted, if
 *          they do not agree
 */
es_status es_push_compare(es_push_difference *out, es_push_place *place,
                          int64_t *cut, es_postgres *postgres,
                          const es_pushed *pushed,
                          const es_pushed_series *known, es_reader *reader,
                          const es_series *series) ES_MUST_USE;

/** Digests of the events and maps (ES_PUSH_EVENT to ES_PUSH_MAP_EVAL) of a
 *  file: `whole` (ES_N_PUSH_PARTS) of all of them, `begun` of the first as many
 *  as were pushed. */
es_status es_push_measure(es_push_part *whole, es_push_part *begun,
                          const es_pushed *pushed, es_reader *reader,
                          size_t run) ES_MUST_USE;

/** All events of a new run, into the COPY that es_push_begin_events began. */
es_status es_push_begin_events(es_copy_in *copy,
                               es_postgres *postgres) ES_MUST_USE;
es_status es_push_put_events(es_copy_in *copy, int64_t run_id, int64_t n_kept,
                             es_reader *reader, size_t run,
                             es_push_counts *counts) ES_MUST_USE;

/** Writes what is new of them: behind what was pushed where that is how they
 *  begin, and else all anew. A file that grows may have more maps than were
 *  measured: `whole` becomes what was written. */
es_status es_push_events(es_copy_in *copy, es_postgres *postgres,
                         const es_pushed *pushed, const es_push_part *begun,
                         es_reader *reader, size_t run,
                         es_push_counts *counts) ES_MUST_USE;
es_status es_push_maps(es_copy_in *copy, es_postgres *postgres,
                       const es_pushed *pushed, const es_push_part *begun,
                       es_push_part *whole, es_reader *reader, size_t run,
                       es_push_counts *counts) ES_MUST_USE;

/** One series of the file. */
typedef struct es_push_lane {
    es_series series;
    int32_t number;      /* in the database */
    es_push_place place; /* what is there, when the transaction ends */
    int64_t cut;         /* delete from this step on; ES_UNKNOWN: nothing */
    bool is_new, has_more, has_changed;
    bool has_low; /* entropies of heads, whose ceiling is known */
} es_push_lane;

/** One run under way. */
typedef struct es_push_job {
    es_pusher *pusher;
    es_reader *reader;
    size_t run;
    const es_push_source *source;
    es_push_alert_finder *finder;
    void *user;
    es_push_counts *counts;
    es_run_info info;
    es_layers *layers; /* or NULL */
    es_judge_run judged;
    double ceiling; /* nats: the largest of the heads; or NaN */
    char *config;
    uint32_t about; /* digest of the run's row */
    es_pushed pushed;
    es_push_lane *lanes;  /* (n_lanes) */
    size_t n_lanes, lane; /* the one under way */
    es_cursor *cursor;
    es_push_part whole[ES_N_PUSH_PARTS], begun[ES_N_PUSH_PARTS];
    es_push_counts added; /* in this transaction */
    bool is_elsewhere;    /* it was pushed from another file */
} es_push_job;

/** What is to be done, into the job; nothing is locked. ES_OK; ES_DONE: nothing
 *  is; ES_EFORMAT: see es_push_run; as es_postgres_fail. */
es_status es_push_plan(es_push_job *job) ES_MUST_USE;

/** The same of a run that the database has not. */
es_status es_push_plan_new(es_push_job *job) ES_MUST_USE;

/** What is to be known of the run before; es_push_forget it in any case. */
es_status es_push_prepare(es_push_job *job) ES_MUST_USE;

/** Of the plan, and of the job. */
void es_push_forget(es_push_job *job);
void es_push_job_free(es_push_job *job);

/** COPY into sample begins; then samples from where the job stands, up to a
 *  transaction's most: ES_DONE: that was all of them. */
es_status es_push_begin_samples(es_pusher *pusher) ES_MUST_USE;
es_status es_push_put_samples(es_push_job *job) ES_MUST_USE;

/** The same of new series. */
es_status es_push_begin_series(es_pusher *pusher) ES_MUST_USE;
void es_push_put_series(es_push_job *job);

/** Series `i` of the database is not in the file any more. */
bool es_push_is_vanished(const es_push_job *job, size_t i);

/** Enters the alerts of the job's finder. */
es_status es_push_alerts(es_push_job *job) ES_MUST_USE;

/** The same of a new run, into the COPY that es_push_begin_alerts began. */
es_status es_push_begin_alerts(es_pusher *pusher) ES_MUST_USE;
es_status es_push_put_alerts(es_push_job *job) ES_MUST_USE;

/** The run's row: a new one (ES_DONE: somebody else has just made it), its last
 *  columns, and the digest of all of them. */
es_status es_push_insert_run(es_push_job *job) ES_MUST_USE;
es_status es_push_update_run(const es_push_job *job) ES_MUST_USE;

/** The whole rows of new runs (n), in order of uuid, whose months are there:
 *  those that somebody else has made meanwhile get no run_id. */
es_status es_push_insert_runs(es_push_job *jobs, size_t n) ES_MUST_USE;
es_status es_push_measure_run(uint32_t *digest,
                              const es_push_job *job) ES_MUST_USE;

/** The members of es_pusher are push.c's and push_run.c's. */
struct es_pusher {
    const es_postgres_url *url;
    es_postgres *postgres; /* NULL: to be opened */
    double low_share;
    bool in_transaction;
    es_copy_in copy;
};

/** Opens the connection again if it is lost, and makes the tables. */
es_status es_pusher_connect(es_pusher *pusher) ES_MUST_USE;

/** BEGIN, beside other pushers and never beside es_push_keep. */
es_status es_pusher_begin(es_pusher *pusher) ES_MUST_USE;
es_status es_pusher_commit(es_pusher *pusher) ES_MUST_USE;
void es_pusher_rollback(es_pusher *pusher); /* keeps the message */

#endif
