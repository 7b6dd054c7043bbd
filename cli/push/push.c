/* The files of a push, one after the other: which have changed, their runs, the
   alerts in these, and what is done if the database cannot be reached. */
#include "cli/push/push.h"

#include "analyzer/base/checked.h"
#include "cli/alerts/watch/follow.h"
#include "cli/output/print.h"
#include "cli/output/progress.h"
#include "cli/runs/damage.h"
#include "cli/runs/tree.h"
#include "store/join/fragment.h"

#include <errno.h>
#include <limits.h>
#include <search.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MOST_TRIES 6      /* rests of 0.2, 0.4, ... 3.2 s between them */
#define LONGEST_REST 10.0 /* seconds, to follow */
#define TICK 0.1          /* more than one of any clock of files */
#define MOST_ALERTS 1000  /* of one run, as many as a recorder writes */

/** What is known of a file, to follow it. */
typedef struct known_file {
    es_stamp stamp;
    bool is_done, is_reported;
    char path[];
} known_file;

typedef struct push {
    es_pusher *pusher;
    const es_push_options *options;
    es_push_result *result;
    void *files;   /* tsearch's, by path; of one that is followed */
    bool is_first; /* round */
} push;

static void rest(double seconds)
{
    struct timespec t = {.tv_sec = (time_t)seconds};
    t.tv_nsec = (long)((seconds - (double)t.tv_sec) * 1e9);
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

/* --- alerts --------------------------------------------------------------- */

typedef struct alerts {
    es_push_alert items[MOST_ALERTS];
    char *texts[MOST_ALERTS][4]; /* id, title, line, json: owned */
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

/** A run whose alerts are found while it is pushed. */
typedef struct run_alerts {
    const es_push_options *options;
    es_reader *reader;
    size_t run;
    es_run_info info;
    alerts all;
} run_alerts;

/* As watch has them: what the recorder stored; where that is nothing, and the
   run has ended, what judging finds; what the user's rules find. */
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

/* The ranks of a distributed training have one uuid, and are one run only when
   they are joined. */
static es_status refuse_rank(es_reader *reader, size_t run)
{
    es_fragment fragment = {0};
    es_status status = es_fragment_read(&fragment, reader, run);
    es_fragment_free(&fragment);
    if (status == ES_DONE)
        return ES_OK;
    return status < 0 ? status
                      : es_fail(ES_EFORMAT,
                                "%s: a rank of a distributed training: make "
                                "one run of all of them with entropy-scan "
                                "merge, and push that",
                                es_reader_path(reader));
}

static es_status try_run(push *p, es_reader *reader, size_t run,
                         const es_push_source *source)
{
    es_run_info info;
    run_alerts *found;
    es_status status;
    if ((status = es_reader_run(reader, run, &info)) < 0 ||
        (status = refuse_rank(reader, run)) < 0)
        return status;
    if (p->options->keep > 0 &&
        (double)es_push_changed_at(&info, source->changed_at) <
            (double)time(NULL) - p->options->keep * 86400) {
        p->result->old++;
        return ES_OK;
    }
    if ((status = es_alloc(&found, 1, sizeof *found, "alerts")) < 0)
        return status;
    found->options = p->options;
    found->reader = reader;
    found->run = run;
    found->info = info;
    status = es_push_run(p->pusher, reader, run, source, find_alerts, found,
                         &p->result->counts);
    forget_alerts(&found->all);
    free(found);
    return status;
}

/* Again, where that is sensible; what was committed is not done twice. */
static es_status push_run(push *p, es_reader *reader, size_t run,
                          const es_push_source *source)
{
    es_status status;
    double pause = 0.2;
    for (int i = 1;; i++) {
        status = try_run(p, reader, run, source);
        if (status == ES_OK || !es_pusher_may_retry(p->pusher, status) ||
            (i >= MOST_TRIES && !p->options->follow))
            return status;
        if (i == MOST_TRIES)
            es_print_note("%s: trying on", es_message());
        rest(pause);
        pause = pause * 2 < LONGEST_REST ? pause * 2 : LONGEST_REST;
    }
}

/* --- one file ------------------------------------------------------------- */

/* A fragment and the run file that is made of it are the same source. */
static es_status locate(char out[PATH_MAX], const char *path)
{
    if (!realpath(path, out))
        return es_fail(ES_EIO, "%s: %s", path, strerror(errno));
    char *end = strrchr(out, '.');
    if (end && es_path_is_run(end))
        *end = '\0';
    return ES_OK;
}

static es_status push_file(push *p, const char *path, const es_stamp *stamp)
{
    char place[PATH_MAX];
    char failure[ES_MESSAGE_MAX] = "";
    es_reader *reader = NULL;
    es_push_source source = {.path = place,
                             .changed_at = stamp->changed.tv_sec};
    if (stamp->log_changed.tv_sec > source.changed_at)
        source.changed_at = stamp->log_changed.tv_sec;
    es_status first = ES_OK, status = es_reader_open(&reader, path);
    if (status == ES_OK)
        status = locate(place, path);
    const size_t n = status == ES_OK ? es_reader_n_runs(reader) : 0;
    for (size_t run = 0; run < n; run++) {
        status = push_run(p, reader, run, &source);
        if (status < 0 && es_pusher_is_blamed(p->pusher, status) &&
            !p->options->follow)
            break;
        if (status < 0 && first == ES_OK) {
            first = status;
            snprintf(failure, sizeof failure, "%s", es_message());
        }
        status = ES_OK;
    }
    es_damage_close(reader);
    if (status == ES_OK && first < 0)
        return es_fail(first, "%s", failure);
    return status;
}

static int by_path(const void *a, const void *b)
{
    return strcmp(((const known_file *)a)->path, ((const known_file *)b)->path);
}

/* NULL: out of memory. */
static known_file *know(push *p, const char *path)
{
    const size_t size = strlen(path) + 1;
    known_file *file = calloc(1, sizeof *file + size);
    if (!file)
        return NULL;
    memcpy(file->path, path, size);
    known_file **found = tsearch(file, &p->files, by_path);
    if (!found || *found != file)
        free(file);
    return found ? *found : NULL;
}

static es_status visit(push *p, const char *path)
{
    const es_stamp stamp = es_stamp_of(path);
    known_file *file = know(p, path);
    if (!file)
        return es_fail(ES_ENOMEM, "%s: out of memory", path);
    if (file->is_done && es_stamp_same(&stamp, &file->stamp))
        return ES_OK;
    es_status status = push_file(p, path, &stamp);
    file->stamp = stamp;
    file->is_done = !es_stamp_is_fresh(&stamp, TICK);
    if (status == ES_OK) {
        file->is_reported = false;
        return ES_OK;
    }
    if (!p->options->follow && es_pusher_is_blamed(p->pusher, status))
        return status;
    if (!file->is_reported)
        es_print_note("%s", es_message());
    file->is_reported = true;
    p->result->failed++;
    return status == ES_ENOMEM ? status : ES_OK;
}

/* --- rounds --------------------------------------------------------------- */

static es_status push_round(push *p)
{
    es_paths paths = {0};
    size_t n_unreadable = 0;
    es_status status = es_paths_expand(
        &paths, &n_unreadable, p->options->inputs, p->options->n_inputs);
    if (status < 0 && p->options->follow && !p->is_first)
        status = ES_OK; /* they may come again */
    p->result->files = paths.n;
    p->result->failed = n_unreadable;
    es_progress_line_begin(p->options->quiet || p->options->follow, "push",
                           NULL, "files", paths.n);
    for (size_t i = 0; i < paths.n && status == ES_OK; i++) {
        es_progress_line_set(i);
        status = visit(p, paths.paths[i]);
    }
    es_progress_line_end();
    es_paths_free(&paths);
    if (status == ES_OK && p->options->keep > 0) {
        int64_t deleted = 0;
        status = es_push_keep(p->pusher, p->options->keep, &deleted);
        p->result->deleted += deleted;
    }
    return status;
}

static void forget(void *node)
{
    free(node);
}

es_status es_push_files(es_push_result *out, es_pusher *pusher,
                        const es_push_options *options)
{
    push p = {
        .pusher = pusher, .options = options, .result = out, .is_first = true};
    es_status status;
    bool is_reported = false;
    for (;;) {
        status = push_round(&p);
        if (!options->follow || (p.is_first && status < 0))
            break;
        p.is_first = false;
        if (status < 0 && !is_reported)
            es_print_note("%s", es_message());
        is_reported = status < 0;
        rest(options->poll);
    }
    tdestroy(p.files, forget);
    return status;
}
