/** Declarations shared by push*.c. */
#ifndef ES_PUSH_INTERNAL_H
#define ES_PUSH_INTERNAL_H

#include "store/layers.h"
#include "store/push/copy_in.h"
#include "store/push/push.h"

#define ES_DATE_SIZE 11 /* "2026-11-01" */

/**
 * The part of a series that was pushed, with a digest of its steps and
 * checksums.
 */
typedef struct es_push_place {
    int64_t n, last; /* number of samples, and step of the last sample or
                        ES_UNKNOWN */
    uint32_t digest;
} es_push_place;

typedef struct es_pushed_series {
    int32_t number;
    char *name;
    es_phase phase;
    es_shape shape;
    es_push_place place;
    bool is_found; /* true if the file contains this series, too */
} es_pushed_series;

typedef enum es_push_part_kind {
    ES_PUSH_RUN,
    ES_PUSH_EVENT,
    ES_PUSH_MAP_TRAIN,
    ES_PUSH_MAP_EVAL,
    ES_N_PUSH_PARTS
} es_push_part_kind;

/**
 * Size and digest of the run's row, its events or its maps. The digest of an
 * empty part is 0.
 */
typedef struct es_push_part {
    int64_t n;
    uint32_t digest;
} es_push_part;

/** The state of a run in the database. */
typedef struct es_pushed {
    int64_t run_id; /* run_id in the database; 0 if the run is not there */
    int64_t revision, n_layer, n_head;
    char run[24]; /* run_id as text */
    char month[ES_DATE_SIZE];
    double low_below; /* entropy in nats below which a head counts as low; NaN
                         if unknown */
    char *source;
    es_pushed_series *series;
    size_t n_series;
    int32_t last_number;
    es_push_part parts[ES_N_PUSH_PARTS];
} es_pushed;

const char *es_push_part_name(es_push_part_kind kind);

/**
 * Loads the state of the run `uuid` from the database into `out`, which must be
 * zeroed. The caller must call es_pushed_free, even on failure.
 */
es_status es_pushed_load(es_pushed *out, es_postgres *postgres,
                         const char *uuid) ES_MUST_USE;
void es_pushed_free(es_pushed *pushed);

/** Adds one sample to the pushed part and its digest. */
void es_push_place_add(es_push_place *place, int64_t step, int32_t crc);

/** Computes the checksum of a sample that a cursor returned. */
int32_t es_push_crc(const es_series *series, int64_t step, const float *values);

typedef enum es_push_difference {
    ES_PUSH_AGREES,  /* the file contains all samples that were pushed */
    ES_PUSH_ENDS,    /* the file has fewer samples than were pushed, but agrees
                        with them up to its end */
    ES_PUSH_DIFFERS, /* a sample in the file differs from the database */
    ES_PUSH_LACKS    /* the database has lost samples that were pushed */
} es_push_difference;

/**
 * Compares the pushed samples of a series with the file.
 *
 *   place  set to the part on which database and file agree
 *   cut    if they differ, set to the first step whose samples must be deleted
 *          from the database; the samples of all later steps must be deleted,
 *          too
 */
es_status es_push_compare(es_push_difference *out, es_push_place *place,
                          int64_t *cut, es_postgres *postgres,
                          const es_pushed *pushed,
                          const es_pushed_series *known, es_reader *reader,
                          const es_series *series) ES_MUST_USE;

/**
 * Computes digests of the events and maps (ES_PUSH_EVENT to ES_PUSH_MAP_EVAL)
 * of a file: `whole` (ES_N_PUSH_PARTS) covers all events or maps, and `begun`
 * (ES_N_PUSH_PARTS) only as many of the first ones as were pushed earlier.
 */
es_status es_push_measure(es_push_part *whole, es_push_part *begun,
                          const es_pushed *pushed, es_reader *reader,
                          size_t run) ES_MUST_USE;

/**
 * es_push_begin_events begins a COPY; es_push_put_events writes the events of a
 * run after the first n_kept events into this COPY.
 */
es_status es_push_begin_events(es_copy_in *copy,
                               es_postgres *postgres) ES_MUST_USE;
es_status es_push_put_events(es_copy_in *copy, int64_t run_id, int64_t n_kept,
                             es_reader *reader, size_t run,
                             es_push_counts *counts) ES_MUST_USE;

/**
 * Write the new events or maps. If the file still begins with the pushed events
 * or maps, only the following ones are appended; otherwise all are replaced.
 * `whole` is set to the size and digest of the written maps, because a growing
 * file may have more maps than were measured.
 */
es_status es_push_events(es_copy_in *copy, es_postgres *postgres,
                         const es_pushed *pushed, const es_push_part *begun,
                         es_reader *reader, size_t run,
                         es_push_counts *counts) ES_MUST_USE;
es_status es_push_maps(es_copy_in *copy, es_postgres *postgres,
                       const es_pushed *pushed, const es_push_part *begun,
                       es_push_part *whole, es_reader *reader, size_t run,
                       es_push_counts *counts) ES_MUST_USE;

/** One series of the file that is being pushed. */
typedef struct es_push_lane {
    es_series series;
    int32_t number;      /* series number in the database */
    es_push_place place; /* the part of the series that is in the database after
                            the transaction */
    int64_t cut;         /* first step to delete, or ES_UNKNOWN to delete
                            nothing */
    bool is_new, has_more, has_changed;
    bool has_low; /* true for entropies with a known ceiling; the heads with a
                     low entropy are then counted */
} es_push_lane;

/** One run that is being pushed. */
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
    double ceiling; /* largest ceiling of a head in nats, or NaN */
    char *config;
    uint32_t about; /* digest of the run's row */
    es_pushed pushed;
    es_push_lane *lanes;  /* (n_lanes) */
    size_t n_lanes, lane; /* number of series, and index of the current
                             series */
    es_cursor *cursor;
    es_push_part whole[ES_N_PUSH_PARTS], begun[ES_N_PUSH_PARTS];
    es_push_counts added; /* counts of what the current transaction has
                             written */
    bool is_elsewhere;    /* true if the run in the database was first pushed
                             from another file */
} es_push_job;

/**
 * Plans the push of a run; takes no lock. Returns ES_OK; ES_DONE if there is
 * nothing to push; ES_EFORMAT as for es_push_run; the errors of
 * es_postgres_fail.
 */
es_status es_push_plan(es_push_job *job) ES_MUST_USE;

/**
 * Plans the push of a run that is not in the database. Returns the same
 * statuses as es_push_plan.
 */
es_status es_push_plan_new(es_push_job *job) ES_MUST_USE;

/**
 * Reads the facts about the run that are needed to plan its push. The caller
 * must call es_push_forget afterwards, even on failure.
 */
es_status es_push_prepare(es_push_job *job) ES_MUST_USE;

/** es_push_forget frees the plan; es_push_job_free frees the whole job. */
void es_push_forget(es_push_job *job);
void es_push_job_free(es_push_job *job);

/**
 * es_push_begin_samples begins a COPY into the table sample.
 * es_push_put_samples writes the job's next samples, as many as one transaction
 * may contain, and returns ES_DONE if all samples are written.
 */
es_status es_push_begin_samples(es_pusher *pusher) ES_MUST_USE;
es_status es_push_put_samples(es_push_job *job) ES_MUST_USE;

/**
 * es_push_begin_series begins a COPY into the table series; es_push_put_series
 * writes the job's new series.
 */
es_status es_push_begin_series(es_pusher *pusher) ES_MUST_USE;
void es_push_put_series(es_push_job *job);

/** Returns true if the pushed series with index `i` is no longer in the file.
 */
bool es_push_is_vanished(const es_push_job *job, size_t i);

/** Finds alerts with the job's finder, and writes them to the database. */
es_status es_push_alerts(es_push_job *job) ES_MUST_USE;

/**
 * Write the alerts of a new run with a COPY, which es_push_begin_alerts begins.
 */
es_status es_push_begin_alerts(es_pusher *pusher) ES_MUST_USE;
es_status es_push_put_alerts(es_push_job *job) ES_MUST_USE;

/**
 * es_push_insert_run adds the run's row, or returns ES_DONE if another process
 * has just added it. es_push_update_run sets the row's columns after all data
 * is written.
 */
es_status es_push_insert_run(es_push_job *job) ES_MUST_USE;
es_status es_push_update_run(const es_push_job *job) ES_MUST_USE;

/**
 * es_push_insert_runs adds the complete rows of new runs (n), in order of uuid;
 * the partitions of their months must exist. If another process has added a run
 * in the meantime, the run gets no run_id. es_push_measure_run computes the
 * digest of a run's row.
 */
es_status es_push_insert_runs(es_push_job *jobs, size_t n) ES_MUST_USE;
es_status es_push_measure_run(uint32_t *digest,
                              const es_push_job *job) ES_MUST_USE;

/** A pusher. Only push.c and push_run.c use these members directly. */
struct es_pusher {
    const es_postgres_url *url;
    es_postgres *postgres; /* NULL while there is no connection */
    double low_share;
    bool in_transaction;
    es_copy_in copy;
};

/** Reconnects if the connection is lost, and creates the tables. */
es_status es_pusher_connect(es_pusher *pusher) ES_MUST_USE;

/**
 * Begins a transaction. It may run at the same time as those of other pushers,
 * but waits for es_push_keep to end.
 */
es_status es_pusher_begin(es_pusher *pusher) ES_MUST_USE;
es_status es_pusher_commit(es_pusher *pusher) ES_MUST_USE;
void es_pusher_rollback(
    es_pusher *pusher); /* a rollback does not change the error message */

#endif
