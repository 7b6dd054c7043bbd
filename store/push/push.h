/**
 * Pushes runs into a PostgreSQL database (postgres_schema.c): the data that a
 * reader has and the database lacks. Each run is stored once, even if pushes
 * are killed, interrupted or repeated: data that belongs together is one
 * transaction, and the next push resumes after the last one.
 *
 * A push compares a digest of each series in the database with the file. If
 * they differ, for example after a training was resumed from an earlier step,
 * the first sample that differs and all later ones are replaced. Values are
 * written bit by bit; a damaged sample is written as missing values.
 */
#ifndef ES_PUSH_H
#define ES_PUSH_H

#include "store/postgresql/postgres.h"
#include "store/reader.h"

typedef struct es_pusher es_pusher;

/**
 * Connects, and creates the tables if there are none.
 *
 *   url        borrowed until the end
 *   low_share  a head is low below this share of the ceiling: collapse_head of
 *              the flags. Low heads are counted when samples of entropies are
 *              written. A run keeps the share of its first push
 *
 * ES_OK; ES_EVERSION: the tables are newer; the errors of es_postgres_open and
 * es_postgres_fail.
 */
es_status es_pusher_open(es_pusher **out, const es_postgres_url *url,
                         double low_share) ES_MUST_USE;

/** Opens a second pusher with the URL and share of an open one. */
es_status es_pusher_open_another(es_pusher **out,
                                 const es_pusher *pusher) ES_MUST_USE;

void es_pusher_close(es_pusher *pusher); /* NULL is fine */

/** After a failure: returns true if a retry makes sense, for example after a
 *  lost connection. The next call reconnects. */
bool es_pusher_may_retry(const es_pusher *pusher, es_status status);

/** After a failure: returns true if the database is the cause, whatever the
 *  file, for example a full disk. */
bool es_pusher_is_blamed(const es_pusher *pusher, es_status status);

typedef struct es_push_source {
    const char *path; /* absolute path of the file; its storage format does not
                         matter */
    int64_t changed_at; /* Unix time of the file's last change */
} es_push_source;

/** Counts of what pushes have done; each push increments them. */
typedef struct es_push_counts {
    uint64_t runs;    /* new */
    uint64_t changed; /* existing runs that were continued */
    uint64_t same;    /* nothing to do */
    uint64_t samples; /* written */
    uint64_t cut;     /* deleted samples of an earlier attempt */
    uint64_t events, maps;
    uint64_t alerts; /* new */
} es_push_counts;

void es_push_counts_add(es_push_counts *to, const es_push_counts *more);

/** One alert. Strings are borrowed; step and onset may be ES_UNKNOWN. */
typedef struct es_push_alert {
    const char *id, *title, *line, *json;
    es_severity severity;
    int64_t onset, step;
} es_push_alert;

/**
 * Finds all alerts of a run that is being pushed; called when its samples are
 * in the database but not committed yet.
 *
 *   alerts  written: (n) owned by the finder until its next call
 *
 * A return value other than ES_OK ends the push.
 */
typedef es_status es_push_alert_finder(void *user, const es_push_alert **alerts,
                                       size_t *n);

/**
 * Pushes one run of a reader. Commits every 16 MiB, and everything else with
 * the last samples: a failure leaves the committed samples, counted, for a
 * later push to continue.
 *
 *   finder  of alerts, called with `user`; existing alerts are skipped, and
 *           listeners are notified of new ones; may be NULL
 *
 * ES_OK; ES_EFORMAT: the database has other numbers of layers or heads, a
 * series of another shape, or other samples from another file of this uuid, or
 * a series' name is not UTF-8; ES_ELOCKED: other processes kept pushing this
 * run; the errors of reading the run, of the finder and of es_postgres_fail.
 */
es_status es_push_run(es_pusher *pusher, es_reader *reader, size_t run,
                      const es_push_source *source,
                      es_push_alert_finder *finder, void *user,
                      es_push_counts *counts) ES_MUST_USE;

/** Finds the run's highest step in the database; ES_UNKNOWN if there is
 *  none. ES_OK; the errors of es_postgres_fail. */
es_status es_push_find_last_step(es_pusher *pusher, const char *uuid,
                                 int64_t *last_step) ES_MUST_USE;

/** A run for es_push_group; parameters as for es_push_run. */
typedef struct es_push_item {
    es_reader *reader;
    size_t run;
    const es_push_source *source;
    es_push_alert_finder *finder;
    void *user;
    bool is_pushed; /* written */
} es_push_item;

/**
 * Pushes small runs (n, at most 4096) that are not in the database in one
 * transaction, which is far cheaper than one each. Runs that are already there
 * or too large are left, with is_pushed false. On failure all are left, and
 * es_push_run finds out which one fails, and why.
 */
es_status es_push_group(es_pusher *pusher, es_push_item *items, size_t n,
                        es_push_counts *counts) ES_MUST_USE;

/** Returns when a run last changed, Unix time: its end, or the last change
 *  of its file. */
int64_t es_push_changed_at(const es_run_info *info, int64_t file_changed_at);

/** Deletes runs that last changed more than `days` ago; *n_runs is set to
 *  their number. */
es_status es_push_keep(es_pusher *pusher, double days,
                       int64_t *n_runs) ES_MUST_USE;

#endif
