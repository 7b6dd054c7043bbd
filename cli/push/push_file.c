/* Pushes the runs and alerts of one file, or of several small files in one
 * transaction. Retries if the database is unreachable. */
#include "cli/push/push_internal.h"

#include "analyzer/base/checked.h"
#include "cli/alerts/watch/follow.h"
#include "cli/output/print.h"
#include "store/join/fragment.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Maximum number of attempts to push a run, with pauses of 0.2, 0.4, ... 3.2
 * s. */
#define MOST_TRIES 6
/* Maximum pause between two attempts to push a run, in seconds. */
#define LONGEST_REST 10.0
/* Maximum number of alerts of a run. */
#define MOST_ALERTS 1000
/* Maximum size in bytes of a file that is pushed in a group. */
#define SMALL_BYTES (1 << 20)

void es_push_rest(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

/* --- alerts --------------------------------------------------------------- */

/* A run whose flags and rules are evaluated as it grows, and its alerts so
 * far. */
struct es_push_judged {
    es_follow follow;
    es_push_alert *alerts; /* alerts found so far (n); each owns its strings */
    size_t n;
};

static void free_alert(es_push_alert *alert)
{
    const char *const owned[] = {alert->id, alert->title, alert->line,
                                 alert->json};
    for (size_t i = 0; i < sizeof owned / sizeof *owned; i++)
        free((char *)(uintptr_t)owned[i]);
}

/* Copies an alert. Sets *out to strings that free_alert frees, also on failure.
 */
static es_status copy_alert(es_push_alert *out, const es_alert *from)
{
    char *texts[3] = {NULL};
    char *json = es_alert_json(from);
    es_status status = json ? ES_OK : ES_ENOMEM;
    const char *const given[3] = {from->id, from->title, from->text};
    for (int i = 0; i < 3 && status == ES_OK; i++)
        status = es_copy_text(&texts[i], given[i]);
    *out = (es_push_alert){.id = texts[0],
                           .title = texts[1],
                           .line = texts[2],
                           .json = json,
                           .severity = from->severity,
                           .onset = from->onset,
                           .step = from->step};
    return status;
}

/* Adds an alert, unless it was added before: a run that is evaluated again
 * reports its alerts again. */
static es_status add_alert(void *user, const es_alert *alert)
{
    es_push_judged *judged = user;
    es_status status;
    for (size_t i = 0; i < judged->n; i++)
        if (strcmp(judged->alerts[i].id, alert->id) == 0)
            return ES_OK;
    if (judged->n == MOST_ALERTS)
        return ES_OK;
    if ((status = es_grow(&judged->alerts, judged->n + 1,
                          sizeof *judged->alerts, "alerts")) < 0)
        return status;
    if ((status = copy_alert(&judged->alerts[judged->n], alert)) < 0)
        free_alert(&judged->alerts[judged->n]);
    else
        judged->n++;
    return status;
}

static void forget_alerts(es_push_judged *judged)
{
    while (judged->n)
        free_alert(&judged->alerts[--judged->n]);
    free(judged->alerts);
    judged->alerts = NULL;
}

static void free_judged(es_push_judged *judged)
{
    if (!judged)
        return;
    es_follow_end(&judged->follow);
    forget_alerts(judged);
    free(judged);
}

void es_push_known_forget(es_push_known *known)
{
    while (known->n_judged)
        free_judged(known->judged[--known->n_judged]);
    free(known->judged);
    known->judged = NULL;
}

bool es_push_known_grows(const es_push_known *known)
{
    bool grows = false;
    for (size_t i = 0; i < known->n_judged; i++)
        grows |= known->judged[i] && known->judged[i]->follow.judging;
    return grows;
}

/* Finds the state of a run; adds a state for a new run. */
static es_status find_judged(es_push_judged **out, es_push_known *known,
                             size_t run)
{
    es_status status;
    while (known->n_judged <= run) {
        if ((status = es_grow(&known->judged, known->n_judged + 1,
                              sizeof(es_push_judged *), "runs")) < 0)
            return status;
        known->judged[known->n_judged++] = NULL;
    }
    if (!known->judged[run] &&
        (status = es_alloc(&known->judged[run], 1, sizeof(es_push_judged),
                           "a run")) < 0)
        return status;
    *out = known->judged[run];
    return ES_OK;
}

/** Data for finding the alerts of a run during its push. */
typedef struct run_alerts {
    const es_push_options *options;
    es_reader *reader;
    size_t run;
    es_run_info info;
    es_push_judged *judged; /* state of the evaluation of the run's flags and
                               rules; owned by the es_push_known of its file */
} run_alerts;

/* Evaluates the flags and rules of the run, and finds the alerts that watch
 * would report. */
static es_status find_alerts(void *user, const es_push_alert **out, size_t *n)
{
    const run_alerts *r = user;
    es_push_judged *judged = r->judged;
    char place[PATH_MAX];
    const char *path = es_reader_path(r->reader);
    bool written;
    es_status status = es_reader_is_written(r->reader, &written);
    if (status < 0)
        return status;
    const es_alert about = {.path = realpath(path, place) ? place : path,
                            .uuid = r->info.uuid,
                            .name = r->info.name,
                            .arch = r->info.arch,
                            .is_written =
                                r->info.status == ES_RUN_RUNNING && written};
    const es_follow_options options = {
        .rules = r->options->has_rules ? r->options->rules : NULL,
        .handler = add_alert,
        .user = judged};
    if (strcmp(judged->follow.uuid, r->info.uuid) != 0)
        forget_alerts(judged); /* the file now has another run with this
                                  index */
    status =
        es_follow_read(&judged->follow, r->reader, r->run, &about, &options);
    *out = judged->alerts;
    *n = judged->n;
    return status;
}

/* --- one run -------------------------------------------------------------- */

/* If a run is a rank of a distributed training run, records this in `file`. All
 * ranks have the same uuid, and only the run that joins them can be pushed.
 * Returns ES_DONE if the run is not a rank. */
static es_status note_rank(es_push_file *file, size_t run)
{
    es_run_info info;
    es_fragment fragment = {0};
    es_status status = es_fragment_read(&fragment, file->reader, run);
    es_fragment_free(&fragment);
    if (status != ES_OK ||
        (status = es_reader_run(file->reader, run, &info)) != ES_OK)
        return status;
    file->is_rank = true;
    file->last_step = info.last_step;
    memcpy(file->uuid, info.uuid, sizeof file->uuid);
    return ES_OK;
}

es_status es_push_file_check_rank(es_pusher *pusher, const es_push_file *file)
{
    int64_t last_step = ES_UNKNOWN;
    es_status status = es_push_find_last_step(pusher, file->uuid, &last_step);
    if (status < 0 || (last_step != ES_UNKNOWN && last_step >= file->last_step))
        return status;
    return es_fail(ES_EFORMAT,
                   "%s: is a rank of a distributed training run: join all "
                   "ranks with entropy-scan merge, and push the result",
                   file->path);
}

/**
 * Prepares the data for finding the alerts of a run; the caller frees *out.
 * Returns ES_DONE if the run last changed more than options->keep days ago;
 * such runs are not pushed.
 */
static es_status look_at(run_alerts **out, const es_push_worker *w,
                         const es_push_file *file, size_t run)
{
    es_reader *reader = file->reader;
    const es_push_source *source = &file->source;
    es_push_judged *judged;
    es_run_info info;
    es_status status;
    *out = NULL;
    if ((status = es_reader_run(reader, run, &info)) < 0)
        return status;
    if (w->options->keep > 0 &&
        (double)es_push_changed_at(&info, source->changed_at) <
            (double)time(NULL) - w->options->keep * 86400)
        return ES_DONE;
    if ((status = find_judged(&judged, file->known, run)) < 0 ||
        (status = es_alloc(out, 1, sizeof **out, "alerts")) < 0)
        return status;
    (*out)->options = w->options;
    (*out)->reader = reader;
    (*out)->run = run;
    (*out)->info = info;
    (*out)->judged = judged;
    return ES_OK;
}

static es_status try_run(es_push_worker *w, const es_push_file *file,
                         size_t run)
{
    run_alerts *found;
    es_status status = look_at(&found, w, file, run);
    if (status == ES_DONE)
        w->result.old++;
    if (status == ES_OK)
        status = es_push_run(w->pusher, file->reader, run, &file->source,
                             find_alerts, found, &w->result.counts);
    free(found);
    return status < 0 ? status : ES_OK;
}

/* Pushes a run, and retries after failures that may be temporary. Data that was
 * already committed is not pushed again. */
static es_status push_run(es_push_worker *w, const es_push_file *file,
                          size_t run)
{
    es_status status;
    double pause = 0.2;
    for (int i = 1;; i++) {
        status = try_run(w, file, run);
        if (status == ES_OK || !es_pusher_may_retry(w->pusher, status) ||
            (i >= MOST_TRIES && !w->options->follow))
            return status;
        if (i == MOST_TRIES)
            es_print_note("%s: still retrying", es_message());
        es_push_rest(pause);
        pause = pause * 2 < LONGEST_REST ? pause * 2 : LONGEST_REST;
    }
}

/* --- one file ------------------------------------------------------------- */

es_status es_push_file_open(es_push_file *file)
{
    es_status status = es_reader_open(&file->reader, file->path);
    if (status < 0)
        return status;
    file->place = realpath(file->path, NULL);
    if (!file->place)
        return es_fail(ES_EIO, "%s: %s", file->path, strerror(errno));
    /* Remove the file extension, so that a fragment and the run file made from
     * it have the same path in the database. */
    char *end = strrchr(file->place, '.');
    if (end && es_path_is_run(end))
        *end = '\0';
    const es_stamp *stamp = &file->stamp;
    file->source.path = file->place;
    file->source.changed_at = stamp->log_changed.tv_sec > stamp->changed.tv_sec
                                  ? stamp->log_changed.tv_sec
                                  : stamp->changed.tv_sec;
    return ES_OK;
}

es_status es_push_file_runs(es_push_worker *w, es_push_file *file)
{
    char failure[ES_MESSAGE_MAX] = "";
    es_status first = ES_OK, status = ES_OK;
    const size_t n = es_reader_n_runs(file->reader);
    for (size_t run = 0; run < n; run++) {
        status = note_rank(file, run);
        if (status == ES_DONE)
            status = push_run(w, file, run);
        if (status < 0 && es_pusher_is_blamed(w->pusher, status) &&
            !w->options->follow)
            return status;
        if (status < 0 && first == ES_OK) {
            first = status;
            snprintf(failure, sizeof failure, "%s", es_message());
        }
    }
    return first < 0 ? es_fail(first, "%s", failure) : ES_OK;
}

bool es_push_file_is_small(const es_push_file *file)
{
    return file->stamp.size + file->stamp.log_size <= SMALL_BYTES &&
           es_reader_n_runs(file->reader) == 1;
}

void es_push_file_group(es_push_worker *w, es_push_file *const *files, size_t n)
{
    es_push_item items[ES_PUSH_GROUP] = {{.run = 0}};
    es_push_file *of[ES_PUSH_GROUP];
    size_t n_items = 0;
    for (size_t i = 0; i < n; i++) {
        run_alerts *found;
        if (note_rank(files[i], 0) == ES_DONE &&
            look_at(&found, w, files[i], 0) == ES_OK) {
            of[n_items] = files[i];
            items[n_items++] = (es_push_item){.reader = files[i]->reader,
                                              .source = &files[i]->source,
                                              .finder = find_alerts,
                                              .user = found};
        }
    }
    const es_status status =
        es_push_group(w->pusher, items, n_items, &w->result.counts);
    for (size_t i = 0; i < n_items; i++) {
        of[i]->is_pushed = status == ES_OK && items[i].is_pushed;
        free(items[i].user);
    }
}
