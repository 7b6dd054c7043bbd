/* Pushes the runs and alerts of one file, with retries if the database is
 * unreachable, or several small files in one transaction. */
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

/* Maximum number of attempts, with pauses of 0.2, 0.4, ... 3.2 s. */
#define MOST_TRIES 6
#define LONGEST_REST 10.0 /* maximum pause between two attempts in seconds */
/* Maximum number of alerts of a run; the recorder stores no more. */
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

typedef struct alerts {
    es_push_alert items[MOST_ALERTS];
    char *texts[MOST_ALERTS][4]; /* id, title, line and JSON of each alert;
                                    owned */
    size_t n;
} alerts;

static es_status add_alert(void *user, const es_alert *alert)
{
    alerts *all = user;
    if (all->n == MOST_ALERTS)
        return ES_OK;
    char **texts = all->texts[all->n++];
    es_status status = es_copy_text(&texts[1], alert->title);
    if (status < 0 || !(texts[0] = es_alert_id(alert)) ||
        !(texts[2] = es_alert_line(alert)) ||
        !(texts[3] = es_alert_json(alert)))
        return ES_ENOMEM;
    all->items[all->n - 1] = (es_push_alert){.id = texts[0],
                                             .title = texts[1],
                                             .line = texts[2],
                                             .json = texts[3],
                                             .severity = alert->severity,
                                             .onset = alert->onset,
                                             .step = alert->step};
    return ES_OK;
}

static void forget_alerts(alerts *all)
{
    while (all->n) {
        all->n--;
        for (int k = 0; k < 4; k++) {
            free(all->texts[all->n][k]);
            all->texts[all->n][k] = NULL;
        }
    }
}

static es_status take_events(alerts *all, es_reader *reader, size_t run,
                             const es_alert *about)
{
    const es_event *events;
    size_t n = 0;
    es_status status = es_reader_events(reader, run, &events, &n);
    for (size_t i = 0; i < n && status == ES_OK; i++) {
        es_alert alert;
        if (es_alert_of_event(&alert, &events[i], about))
            status = add_alert(all, &alert);
    }
    return status;
}

static es_status judge(alerts *all, es_reader *reader, size_t run,
                       const es_alert *about, const es_rules_file *rules)
{
    es_follow once = {.judging = NULL};
    const es_follow_options options = {
        .rules = rules, .handler = add_alert, .user = all};
    es_status status = es_follow_read(&once, reader, run, about, &options);
    es_follow_end(&once);
    return status;
}

/** Data for finding the alerts of a run during its push. */
typedef struct run_alerts {
    const es_push_options *options;
    es_reader *reader;
    size_t run;
    es_run_info info;
    alerts all;
} run_alerts;

/* Finds the same alerts as watch: the alerts that the recorder stored or, if it
 * stored none and the run has ended, the alerts found by judging the run; and
 * the alerts of the user's rules. */
static es_status find_alerts(void *user, const es_push_alert **out, size_t *n)
{
    run_alerts *r = user;
    char place[PATH_MAX];
    const char *path = es_reader_path(r->reader);
    const es_alert about = {.path = realpath(path, place) ? place : path,
                            .uuid = r->info.uuid,
                            .name = r->info.name,
                            .arch = r->info.arch};
    const es_rules_file *rules =
        r->options->has_rules ? r->options->rules : NULL;
    es_status status = ES_OK;
    forget_alerts(&r->all);
    if (!rules || !es_rules_file_sets_flags(rules))
        status = take_events(&r->all, r->reader, r->run, &about);
    if (status == ES_OK &&
        (rules || (!r->all.n && r->info.status != ES_RUN_RUNNING)))
        status = judge(&r->all, r->reader, r->run, &about, rules);
    *out = r->all.items;
    *n = r->all.n;
    return status;
}

/* --- one run -------------------------------------------------------------- */

/* Records that a run is a rank. All ranks of a distributed training have the
 * same uuid, and only the run that joins them can be pushed. Returns ES_DONE if
 * the run is not a rank. */
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
                   "%s: is a rank of a distributed training: join all ranks "
                   "with entropy-scan merge, and push the result",
                   file->path);
}

/**
 * Prepares the data for finding the alerts of a run; free_alerts frees them.
 * Returns ES_DONE if the run is too old to be pushed.
 */
static es_status look_at(run_alerts **out, const es_push_worker *w,
                         es_reader *reader, size_t run,
                         const es_push_source *source)
{
    es_run_info info;
    es_status status;
    *out = NULL;
    if ((status = es_reader_run(reader, run, &info)) < 0)
        return status;
    if (w->options->keep > 0 &&
        (double)es_push_changed_at(&info, source->changed_at) <
            (double)time(NULL) - w->options->keep * 86400)
        return ES_DONE;
    if ((status = es_alloc(out, 1, sizeof **out, "alerts")) < 0)
        return status;
    (*out)->options = w->options;
    (*out)->reader = reader;
    (*out)->run = run;
    (*out)->info = info;
    return ES_OK;
}

static void free_alerts(run_alerts *found)
{
    if (found)
        forget_alerts(&found->all);
    free(found);
}

static es_status try_run(es_push_worker *w, es_reader *reader, size_t run,
                         const es_push_source *source)
{
    run_alerts *found;
    es_status status = look_at(&found, w, reader, run, source);
    if (status == ES_DONE)
        w->result.old++;
    if (status == ES_OK)
        status = es_push_run(w->pusher, reader, run, source, find_alerts, found,
                             &w->result.counts);
    free_alerts(found);
    return status < 0 ? status : ES_OK;
}

/* Pushes a run, and retries after failures that may be temporary. Data that was
 * already committed is not pushed again. */
static es_status push_run(es_push_worker *w, es_reader *reader, size_t run,
                          const es_push_source *source)
{
    es_status status;
    double pause = 0.2;
    for (int i = 1;; i++) {
        status = try_run(w, reader, run, source);
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
    /* The ending is removed, so that a fragment and the run file made from it
     * count as the same source. */
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
            status = push_run(w, file->reader, run, &file->source);
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
            look_at(&found, w, files[i]->reader, 0, &files[i]->source) ==
                ES_OK) {
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
        free_alerts(items[i].user);
    }
}
