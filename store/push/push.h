/**
 * Pushes runs into a PostgreSQL database (postgres_schema.c): adds the data
 * that a reader has and the database lacks. Each run is stored once, even if
 * pushes are killed, interrupted or repeated: data that belongs together is
 * committed in one transaction, and the next push continues after the last
 * transaction.
 *
 * A push compares a digest of each series in the database with the file. If
 * they differ, for example after training was resumed from an earlier step, the
 * first sample that differs and all later ones are replaced. Values are written
 * bit for bit; a damaged sample is written as missing values.
 */
#ifndef ES_PUSH_H
#define ES_PUSH_H

#include "store/postgresql/postgres.h"
#include "store/reader.h"

typedef struct es_pusher es_pusher;

/**
 * Connects, and creates the tables if they do not exist.
 *
 *   url        borrowed until es_pusher_close
 *   low_share  a head whose entropy is below this share of the ceiling counts
 *              as low, like collapse_head of the flags. Low heads are counted
 *              when entropies are written. A run keeps the share with which it
 *              was first pushed
 *
 * Returns ES_OK, ES_EVERSION if the tables have a newer schema, or the errors
 * of es_postgres_open and es_postgres_fail.
 */
es_status es_pusher_open(es_pusher **out, const es_postgres_url *url,
                         double low_share) ES_MUST_USE;

/** Opens a second pusher with the URL and the low_share of an open pusher. */
es_status es_pusher_open_another(es_pusher **out,
                                 const es_pusher *pusher) ES_MUST_USE;

void es_pusher_close(es_pusher *pusher); /* `pusher` may be NULL */

/**
 * Called after a failure. Returns true if a retry may succeed, for example
 * after the connection was lost. The next call of the pusher reconnects.
 */
bool es_pusher_may_retry(const es_pusher *pusher, es_status status);

/**
 * Called after a failure. Returns true if the cause is the database and not the
 * file, for example if the server's disk is full.
 */
bool es_pusher_is_blamed(const es_pusher *pusher, es_status status);

typedef struct es_push_source {
    const char *path;   /* absolute path of the file, which may have any storage
                           format */
    int64_t changed_at; /* Unix time of the file's last change */
} es_push_source;

/** Totals of one or more pushes. Each push adds its counts. */
typedef struct es_push_counts {
    uint64_t runs;    /* new */
    uint64_t changed; /* existing runs to which data was added */
    uint64_t same;    /* runs that were already up to date */
    uint64_t samples; /* written samples */
    uint64_t cut;     /* number of samples of earlier attempts that were
                         deleted */
    uint64_t events, maps;
    uint64_t alerts; /* new */
} es_push_counts;

void es_push_counts_add(es_push_counts *to, const es_push_counts *more);

/** One alert. Strings are borrowed. `step` and `onset` may be ES_UNKNOWN. */
typedef struct es_push_alert {
    const char *id, *title, *line, *json;
    es_severity severity;
    int64_t onset, step;
} es_push_alert;

/**
 * Finds all alerts of a run that is being pushed. Called when the run's samples
 * are in the database but not committed yet.
 *
 *   alerts  output: the n alerts, owned by the finder until its next call
 *
 * A return value other than ES_OK ends the push.
 */
typedef es_status es_push_alert_finder(void *user, const es_push_alert **alerts,
                                       size_t *n);

/**
 * Pushes one run of a reader. Commits after every 16 MiB of samples, and
 * commits everything else together with the last samples. After a failure,
 * committed samples stay in the database and are counted, and a later push
 * continues after them.
 *
 *   finder  finds the run's alerts, called with `user`; or NULL. Existing
 *           alerts are skipped; listeners are notified of new alerts
 *
 * Returns ES_OK, the errors of reading the run, of the finder and of
 * es_postgres_fail, or:
 *
 *   ES_EFORMAT  the run in the database has other numbers of layers or heads, a
 *               series with another shape, or different samples that were
 *               pushed from another file; or the name of a series is not UTF-8
 *   ES_ELOCKED  other processes kept pushing this run
 */
es_status es_push_run(es_pusher *pusher, es_reader *reader, size_t run,
                      const es_push_source *source,
                      es_push_alert_finder *finder, void *user,
                      es_push_counts *counts) ES_MUST_USE;

/**
 * Sets *step to the run's highest step in the database, or to ES_UNKNOWN if the
 * database has no samples of the run. Returns ES_OK or the errors of
 * es_postgres_fail.
 */
es_status es_push_find_last_step(es_pusher *pusher, const char *uuid,
                                 int64_t *last_step) ES_MUST_USE;

/** One run for es_push_group. The members are the parameters of es_push_run. */
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
 * transaction, which is far cheaper than one transaction per run. Skips runs
 * that are already in the database or too large; their is_pushed is false. On
 * failure no run is pushed. The caller should then call es_push_run for each
 * run, which reports the run that fails and the reason.
 */
es_status es_push_group(es_pusher *pusher, es_push_item *items, size_t n,
                        es_push_counts *counts) ES_MUST_USE;

/**
 * Returns the Unix time of a run's last change, which is its end or, if it has
 * not ended, the last change of its file.
 */
int64_t es_push_changed_at(const es_run_info *info, int64_t file_changed_at);

/**
 * Deletes the runs whose last change is more than `days` days ago, and sets
 * *n_runs to their number.
 */
es_status es_push_keep(es_pusher *pusher, double days,
                       int64_t *n_runs) ES_MUST_USE;

#endif
