/**
 * Runs into a PostgreSQL database (postgres_schema.c): what a reader has and
 * the database has not. Each run is there once, whatever is killed, cut off or
 * done twice: what belongs together is one transaction, and the next push goes
 * on behind the last one.
 *
 * A push compares a digest of what the database has of each series with the
 * file. Where they differ, as after a training that was resumed from an earlier
 * step, the first sample that differs and all after it are replaced. Values are
 * written bit by bit; a damaged sample as missing values.
 */
#ifndef ES_PUSH_H
#define ES_PUSH_H

#include "store/postgresql/postgres.h"
#include "store/reader.h"

typedef struct es_pusher es_pusher;

/**
 * Connects, and makes the tables if there are none.
 *
 *   url        borrowed until the end
 *   low_share  a head is low below this part of the ceiling: the flags'
 *              collapse_head; counted for each sample of entropies as it is
 *              written. A run keeps that of its first push
 *
 * ES_OK; ES_EVERSION: the tables are newer; es_postgres_open's and
 * es_postgres_fail's errors.
 */
es_status es_pusher_open(es_pusher **out, const es_postgres_url *url,
                         double low_share) ES_MUST_USE;

/** The same with the URL and share of another one, which is open. */
es_status es_pusher_open_another(es_pusher **out,
                                 const es_pusher *pusher) ES_MUST_USE;

void es_pusher_close(es_pusher *pusher); /* NULL is fine */

/** After a failure: whether to try again is sensible, as after the end of a
 *  connection. It is opened anew at the next call. */
bool es_pusher_may_retry(const es_pusher *pusher, es_status status);

/** After a failure: it is the database's, of whatever file, as a full disk. */
bool es_pusher_is_blamed(const es_pusher *pusher, es_status status);

typedef struct es_push_source {
    const char *path; /* the file, absolute; how it is stored does not count */
    int64_t changed_at; /* Unix time of the file's last change */
} es_push_source;

/** Added to by each push. */
typedef struct es_push_counts {
    uint64_t runs;    /* new */
    uint64_t changed; /* there before, gone on with */
    uint64_t same;    /* nothing to do */
    uint64_t samples; /* written */
    uint64_t cut;     /* samples that an earlier attempt had written */
    uint64_t events, maps;
    uint64_t alerts; /* new */
} es_push_counts;

void es_push_counts_add(es_push_counts *to, const es_push_counts *more);

/** Strings are borrowed; step and onset may be ES_UNKNOWN. */
typedef struct es_push_alert {
    const char *id, *title, *line, *json;
    es_severity severity;
    int64_t onset, step;
} es_push_alert;

/**
 * Finds all alerts of a run that is being pushed, called when its samples are
 * in the database and not committed yet.
 *
 *   alerts  written: (n) the finder's own until its next call
 *
 * What it returns ends the push if it is not ES_OK.
 */
typedef es_status es_push_alert_finder(void *user, const es_push_alert **alerts,
                                       size_t *n);

/**
 * One run of a reader. Committed every 16 MiB, with the last samples all the
 * rest: a failure leaves what was committed, counted, to be gone on with.
 *
 *   finder  of alerts, with `user`: those that are there already are passed
 *           over, and who listens is notified of the others; NULL: none
 *
 * ES_OK; ES_EFORMAT: other numbers of layers or heads, a series of another
 * shape, a series' name that is no UTF-8, or another file of this uuid with
 * other samples was pushed; ES_ELOCKED: others kept pushing this run; what
 * reading the run, the finder, or es_postgres_fail, says.
 */
es_status es_push_run(es_pusher *pusher, es_reader *reader, size_t run,
                      const es_push_source *source,
                      es_push_alert_finder *finder, void *user,
                      es_push_counts *counts) ES_MUST_USE;

/** *last_step: the highest step that the database has of the run; ES_UNKNOWN:
 *  none. ES_OK; as es_postgres_fail. */
es_status es_push_find_last_step(es_pusher *pusher, const char *uuid,
                                 int64_t *last_step) ES_MUST_USE;

/** A run for es_push_group: as es_push_run's parameters. */
typedef struct es_push_item {
    es_reader *reader;
    size_t run;
    const es_push_source *source;
    es_push_alert_finder *finder;
    void *user;
    bool is_pushed; /* written */
} es_push_item;

/**
 * Small runs (n, at most 4096) that the database has not, in one transaction:
 * far cheaper than one each. Those that it has, or that are too large for it,
 * are left: not is_pushed. On failure all are, and es_push_run says of which
 * one it is, and why.
 */
es_status es_push_group(es_pusher *pusher, es_push_item *items, size_t n,
                        es_push_counts *counts) ES_MUST_USE;

/** When a run changed last, Unix time: its end, or that of its file's last
 *  change. */
int64_t es_push_changed_at(const es_run_info *info, int64_t file_changed_at);

/** Deletes runs that changed last more than `days` ago; *n_runs: how many. */
es_status es_push_keep(es_pusher *pusher, double days,
                       int64_t *n_runs) ES_MUST_USE;

#endif
