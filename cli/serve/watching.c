/* Implements the process of `serve` that reads run files. It finds changed
 * files with the watcher of cli/alerts, summarises their runs, and sends runs
 * and alerts to the process that answers browsers. */
#include "cli/serve/watching.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text_stream.h"
#include "cli/alerts/watch/changes.h"
#include "cli/output/print.h"
#include "cli/runs/damage.h"
#include "cli/runs/json.h"
#include "cli/runs/labels.h"
#include "cli/serve/child.h"
#include "cli/serve/key.h"
#include "cli/serve/line.h"
#include "cli/serve/messages.h"
#include "store/map.h"
#include "store/run_place.h"

#include <limits.h>
#include <math.h>
#include <poll.h>
#include <search.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* Minimum time between two polls of the files: in seconds, and as a multiple of
 * the CPU time of the last poll. The larger value applies. */
#define REST_LEAST 0.2
#define REST_SHARE 2
/* Time between two polls of the files if no file changes: in seconds, and as a
 * multiple of a poll's CPU time. The larger value applies, so that an idle
 * server uses at most half a percent of a core. */
#define POLL_LEAST 1
#define POLL_SHARE 200
/* Minimum time between two computations of the flags of a run that is being
 * written: this number, times the CPU time of the last computation, times the
 * number of such runs. Each computation reads all samples of the run. */
#define JUDGE_SHARE 30
/* Minimum time in seconds between two searches for writers that have died;
   POLL_SHARE applies to these searches too. */
#define WRITERS_LEAST 5
/* While a poll of the files takes long, the changes found so far are sent at
 * least this often, in seconds. */
#define NEWS_MOST 0.5
/* Maximum number of databases whose notifications are awaited; further
   databases are polled. */
#define DATABASES_MOST 16
/* Maximum number of flags that are listed for a run, and maximum total number
 * of heads in these flags. */
#define FLAGS_MOST 300
#define HEADS_MOST 20000
/* Maximum number of alerts whose ids are remembered, to avoid sending an alert
 * twice. */
#define ALERTS_MOST 16384

typedef struct shown_run {
    char key[ES_SERVE_KEY];
    es_run_summary *summary;
    es_serve_line entropy, loss;
    char *series; /* members "recorded" and "maps" of the run's JSON */
    char *title;  /* label of the run; NULL until set_titles was called */
    bool has_maps;
    double judge_at; /* earliest time at which the flags are computed again
                        (CLOCK_MONOTONIC) */
    bool owed;       /* true if the flags do not yet take the newest samples
                        into account */
    bool stale;      /* true if the run has changed and must be sent */
    bool found;      /* true if the run was in the file at its last reading */
} shown_run;

typedef struct shown_file {
    char *path;
    char *problem;   /* reason why the file, or one of its runs, cannot be read;
                        NULL if there is none */
    shown_run *runs; /* (n_runs) */
    size_t n_runs;
    size_t n_written; /* number of runs that are being written */
} shown_file;

typedef struct watching {
    const es_serve_watching *options;
    es_summary_options summary;
    es_watch_files files;
    es_watch_changes changes;
    char **roots;      /* (options->n_roots) paths of the roots without symbolic
                          links; NULL for a URL */
    shown_file *shown; /* (n_shown) files whose runs are shown, sorted by
                          path */
    size_t n_shown, n_runs;
    double observed;  /* largest m of all runs, where m is the upper end of a
                         run's entropy bands; NaN before the first run */
    bool relabel;     /* true if runs were added, removed or reconfigured, so
                         that titles may change */
    bool first;       /* true during the first poll of the files */
    bool headed;      /* true if the JSON members that concern all runs have
                         not changed since they were sent (ES_SERVE_HEAD) */
    double published; /* time at which the last ES_SERVE_ROUND message was
                         sent */
    void *alerts;     /* (n_alerts) ids of the alerts that were found before, in
                         a tree (tsearch) */
    size_t n_alerts;
    es_paths unsent; /* alerts as JSON texts (not paths), to be sent after their
                        runs */
    bool is_over;    /* true if the receiving process has ended */
} watching;

static double seconds(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void send(watching *w, es_serve_kind kind, const char *bytes, size_t n)
{
    w->is_over =
        w->is_over || !es_serve_send(w->options->fd, kind,
                                     (const void *const[]){bytes}, &n, 1);
}

/* --- files ----------------------------------------------------------------*/

static void clear_run(shown_run *run)
{
    es_summary_free(run->summary);
    es_serve_line_clear(&run->entropy);
    es_serve_line_clear(&run->loss);
    free(run->series);
    free(run->title);
}

/* Returns the index of the file `path`; if it is not in the list, the index at
   which it would be inserted. */
static size_t place_of(const watching *w, const char *path)
{
    size_t low = 0, high = w->n_shown;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (strcmp(w->shown[middle].path, path) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static shown_file *find_file(const watching *w, const char *path)
{
    const size_t at = place_of(w, path);
    return at < w->n_shown && strcmp(w->shown[at].path, path) == 0
               ? &w->shown[at]
               : NULL;
}

static es_status add_file(shown_file **out, watching *w, const char *path)
{
    if ((*out = find_file(w, path)))
        return ES_OK;
    const size_t at = place_of(w, path);
    es_status status =
        es_grow(&w->shown, w->n_shown + 1, sizeof *w->shown, "files");
    if (status < 0)
        return status;
    memmove(&w->shown[at + 1], &w->shown[at],
            (w->n_shown - at) * sizeof *w->shown);
    w->shown[at] = (shown_file){.path = strdup(path)};
    w->n_shown++;
    *out = &w->shown[at];
    return (*out)->path ? ES_OK : es_fail(ES_ENOMEM, "out of memory for files");
}

/* Removes the runs that were no longer in the file at its last reading. */
static void drop_lost(watching *w, shown_file *file)
{
    size_t n = 0;
    for (size_t i = 0; i < file->n_runs; i++) {
        shown_run *run = &file->runs[i];
        if (run->found) {
            file->runs[n++] = *run;
            continue;
        }
        send(w, ES_SERVE_GONE, run->key, sizeof run->key);
        clear_run(run);
        w->n_runs--;
        w->relabel = true;
    }
    file->n_runs = n;
}

static void receive_gone(void *user, const char *path)
{
    watching *w = user;
    shown_file *file = find_file(w, path);
    if (!file)
        return;
    for (size_t i = 0; i < file->n_runs; i++)
        file->runs[i].found = false;
    drop_lost(w, file);
    free(file->runs);
    free(file->path);
    free(file->problem);
    w->n_shown--;
    const size_t at = (size_t)(file - w->shown);
    memmove(file, file + 1, (w->n_shown - at) * sizeof *file);
    w->headed = false;
}

static void set_problem(watching *w, shown_file *file, const char *text)
{
    if (!text && !file->problem)
        return;
    free(file->problem);
    file->problem = text ? strdup(text) : NULL;
    w->headed = false;
}

static void receive_failure(void *user, const char *path)
{
    watching *w = user;
    shown_file *file;
    char reason[ES_MESSAGE_MAX];
    snprintf(reason, sizeof reason, "%s", es_message());
    if (add_file(&file, w, path) == ES_OK)
        set_problem(w, file, reason);
    es_fail(ES_EIO, "%s", reason); /* sets the message again, because the
                                      watcher will print it */
}

/* --- runs -----------------------------------------------------------------*/

/* Limits the number of flags that are listed for a run: keeps the newest and
 * the active flags. Also limits the number of heads: the newest flags keep
 * their heads. */
static void limit_flags(es_run_summary *summary)
{
    size_t n_heads = 0, n = 0, n_drop = 0;
    if (summary->n_flags > FLAGS_MOST)
        n_drop = summary->n_flags - FLAGS_MOST;
    for (size_t i = 0; i < summary->n_flags; i++) {
        es_flag *flag = &summary->flags[i];
        if (n_drop && !flag->stands) {
            free(flag->layers);
            free(flag->heads);
            n_drop--;
        } else {
            summary->flags[n++] = *flag;
        }
    }
    summary->n_flags = n;
    for (size_t i = n; i-- > 0;) {
        es_flag *flag = &summary->flags[i];
        if (n_heads + flag->n_heads > HEADS_MOST)
            flag->n_heads = 0;
        n_heads += flag->n_heads;
    }
}

static es_status find_map(void *user, const es_map *map, const float *values)
{
    (void)map, (void)values;
    *(bool *)user = true;
    return ES_DONE;
}

/* Describes the series of a run, as JSON. */
static es_status describe_series(shown_run *to, es_reader *reader, size_t run)
{
    size_t n;
    es_series series;
    es_status status = ES_OK;
    if (!to->has_maps)
        status = es_reader_maps(reader, run, find_map, &to->has_maps);
    if (status < 0 && status != ES_EFORMAT)
        return status;
    free(to->series);
    FILE *stream = es_text_stream(&to->series, &n);
    if (!stream)
        return es_fail(ES_ENOMEM, "out of memory for a run");
    es_json_writer json = {.stream = stream};
    es_json_write_array(&json, "recorded");
    for (size_t i = 0; i < es_reader_n_series(reader, run); i++) {
        if (es_reader_series(reader, run, i, &series) != ES_OK ||
            series.last_step == ES_UNKNOWN || es_series_is_member(series.name))
            continue;
        es_json_write_object(&json, NULL);
        es_json_write_text(&json, "name", series.name);
        es_json_write_text(&json, "phase", es_phase_name(series.phase));
        es_json_write_text(&json, "shape", es_shape_name(series.shape));
        es_json_write_text(&json, "unit", series.unit);
        es_json_write_integer(&json, "last", series.last_step);
        es_json_write_end(&json, "}");
    }
    es_json_write_end(&json, "]");
    es_json_write_bool(&json, "maps", to->has_maps);
    return fclose(stream) == 0 ? ES_OK
                               : es_fail(ES_ENOMEM, "out of memory for a run");
}

static bool same_text(const char *a, const char *b)
{
    return a == b || (a && b && strcmp(a, b) == 0);
}

/* Replaces the summary of a run. If the flags of the new summary were not
 * computed, it gets the flags of the old summary. */
static void replace_summary(watching *w, shown_run *run,
                            es_run_summary *summary)
{
    const es_run_summary *old = run->summary;
    w->relabel = w->relabel || !old || !same_text(old->name, summary->name) ||
                 !same_text(old->arch, summary->arch) ||
                 !same_text(old->config, summary->config);
    run->owed = !summary->judged;
    if (run->owed)
        es_summary_move_flags(summary, run->summary);
    limit_flags(summary);
    es_summary_set_max(summary, w->observed);
    es_summary_free(run->summary);
    run->summary = summary;
    run->stale = run->found = true;
}

static shown_run *find_run(shown_file *file, const char *key)
{
    for (size_t i = 0; i < file->n_runs; i++)
        if (memcmp(file->runs[i].key, key, ES_SERVE_KEY) == 0)
            return &file->runs[i];
    return NULL;
}

static es_status add_run(shown_run **out, watching *w, shown_file *file,
                         const char *key)
{
    if ((*out = find_run(file, key)))
        return ES_OK;
    if (w->n_runs >= ES_SERVE_RUNS_MOST)
        return es_fail(ES_ENOMEM, "%s: more than %d runs: give fewer folders",
                       file->path, ES_SERVE_RUNS_MOST);
    es_status status =
        es_grow(&file->runs, file->n_runs + 1, sizeof *file->runs, "runs");
    if (status < 0)
        return status;
    *out = &file->runs[file->n_runs++];
    **out = (shown_run){.found = false};
    memcpy((*out)->key, key, ES_SERVE_KEY);
    w->n_runs++;
    return ES_OK;
}

static es_status make_key(char out[ES_SERVE_KEY], es_reader *reader,
                          size_t index)
{
    es_run_place place;
    es_run_info info;
    es_status status = es_reader_run(reader, index, &info);
    if (status < 0 || (status = es_reader_place(&place, reader, index)) < 0)
        return status;
    es_serve_key(out, place.path, info.uuid, place.number);
    free(place.path);
    return ES_OK;
}

/* Summarises a run. If the run is being written and known->judge_at is in the
 * future, the summary has no flags. `known` is the run that is shown now, or
 * NULL if the run is new. */
static es_status summarise(es_run_summary **out, const watching *w,
                           const shown_run *known, es_reader *reader,
                           size_t index)
{
    const es_run_summary *before = known ? known->summary : NULL;
    es_summary_options options = w->summary;
    es_run_summary *summary;
    options.without_flags =
        before && seconds(CLOCK_MONOTONIC) < known->judge_at;
    es_status status = es_summary_load(&summary, reader, index, &options);
    if (status < 0)
        return status;
    if (options.without_flags && (strcmp(summary->status, "running") != 0 ||
                                  summary->phase != before->phase)) {
        es_summary_free(summary);
        return es_summary_load(out, reader, index, &w->summary);
    }
    *out = summary;
    return ES_OK;
}

/* Sets the earliest time at which the run's flags are computed again; `cost` is
 * the CPU time of the last computation. */
static void plan_judgement(const watching *w, shown_run *run, double cost)
{
    size_t n = 0; /* number of runs that are being written, including this
                     run */
    for (size_t i = 0; i < w->n_shown; i++)
        n += w->shown[i].n_written;
    run->judge_at = seconds(CLOCK_MONOTONIC) + JUDGE_SHARE * (double)n * cost;
}

static es_status read_run(watching *w, shown_file *file, es_reader *reader,
                          size_t index)
{
    char key[ES_SERVE_KEY];
    es_run_summary *summary = NULL;
    shown_run *run;
    es_status status = make_key(key, reader, index);
    if (status < 0)
        return status;
    const double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
    status = summarise(&summary, w, find_run(file, key), reader, index);
    const double cost = seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
    if (status < 0 ||
        (status = es_run_settings_read(summary, reader, index)) < 0)
        goto done;
    if ((status = add_run(&run, w, file, key)) < 0 ||
        (status = describe_series(run, reader, index)) < 0 ||
        (status = es_serve_line_read(&run->entropy, reader, index,
                                     summary->series, summary->phase)) < 0 ||
        (status = es_serve_line_read(&run->loss, reader, index, "loss",
                                     summary->phase)) < 0)
        goto done;
    file->n_written += strcmp(summary->status, "running") == 0;
    if (summary->judged && strcmp(summary->status, "running") == 0)
        plan_judgement(w, run, cost);
    replace_summary(w, run, summary);
    summary = NULL;
done:
    es_summary_free(summary);
    return status;
}

/* Returns true if the file's real path lies below one of the roots. The path
 * may lie elsewhere if a folder was replaced by a symbolic link after the
 * search. */
static bool is_inside(const watching *w, const char *path)
{
    char real[PATH_MAX];
    if (es_path_is_url(path))
        return true;
    if (!realpath(path, real))
        return false;
    for (size_t i = 0; i < w->options->n_roots; i++) {
        const char *root = w->roots[i];
        const size_t n = root ? strlen(root) : 0;
        if (n && strncmp(real, root, n) == 0 &&
            (real[n] == '\0' || real[n] == '/' || root[n - 1] == '/'))
            return true;
    }
    return false;
}

static void publish(watching *w);

/* Summarises the runs of a changed file. If a run cannot be read, its last
 * summary is kept. */
static es_status receive_file(void *user, const char *path, es_reader *reader)
{
    watching *w = user;
    shown_file *file;
    char problem[ES_MESSAGE_MAX] = "";
    if (!is_inside(w, path))
        return es_fail(ES_EIO, "%s: lies outside the given folders", path);
    es_status status = add_file(&file, w, path);
    if (status < 0)
        return status;
    for (size_t i = 0; i < file->n_runs; i++)
        file->runs[i].found = false;
    file->n_written = 0;
    for (size_t i = 0; i < es_reader_n_runs(reader); i++) {
        status = read_run(w, file, reader, i);
        if (status < 0 && !problem[0])
            snprintf(problem, sizeof problem, "%s", es_message());
    }
    for (size_t i = 0; problem[0] && i < file->n_runs; i++)
        file->runs[i].found = file->runs[i].summary != NULL;
    drop_lost(w, file);
    set_problem(w, file, problem[0] ? problem : NULL);
    if (seconds(CLOCK_MONOTONIC) - w->published > NEWS_MOST)
        publish(w);
    return ES_OK;
}

/* --- what is sent ---------------------------------------------------------*/

static es_status print_run(char **out, size_t *n, const shown_run *run)
{
    FILE *stream = es_text_stream(out, n);
    if (!stream)
        return es_fail(ES_ENOMEM, "out of memory for a run");
    es_json_writer json = {.stream = stream};
    es_json_write_format(&json, "key", "%.*s", ES_SERVE_KEY, run->key);
    es_json_write_text(&json, "title", run->title);
    es_json_write_object(&json, "spark");
    es_serve_line_write(&json, "entropy", &run->entropy);
    es_serve_line_write(&json, "loss", &run->loss);
    es_json_write_end(&json, "}");
    fprintf(stream, ",%s", run->series);
    es_json_run_members(&json, run->summary, true);
    return fclose(stream) == 0 ? ES_OK
                               : es_fail(ES_ENOMEM, "out of memory for a run");
}

static void send_run(watching *w, shown_run *run)
{
    char real[PATH_MAX];
    const char *path = run->summary->path;
    if (!es_path_is_url(path) && realpath(path, real))
        path = real;
    es_serve_run_head head = {.number = run->summary->number,
                              .n_path = strlen(path),
                              .phase = run->summary->phase};
    char *text = NULL;
    size_t n = 0;
    memcpy(head.key, run->key, sizeof head.key);
    if (print_run(&text, &n, run) == ES_OK) {
        const void *const parts[] = {&head, path, text};
        const size_t sizes[] = {sizeof head, strlen(path), n};
        w->is_over = w->is_over || !es_serve_send(w->options->fd, ES_SERVE_RUN,
                                                  parts, sizes, 3);
        run->stale = false;
    } else {
        es_print_note("%s: %s", path, es_message());
    }
    free(text);
}

/* Computes the largest m of all runs (the upper end of the entropy bands). Only
 * runs whose band counts change as a consequence are sent again. */
static void set_observed(watching *w)
{
    double observed = NAN;
    for (size_t i = 0; i < w->n_shown; i++)
        for (size_t k = 0; k < w->shown[i].n_runs; k++)
            observed = es_peak_of(observed, w->shown[i].runs[k].summary->peak);
    if (memcmp(&observed, &w->observed, sizeof observed) == 0)
        return;
    w->observed = observed;
    w->headed = false;
    for (size_t i = 0; i < w->n_shown; i++)
        for (size_t k = 0; k < w->shown[i].n_runs; k++) {
            shown_run *run = &w->shown[i].runs[k];
            const es_bands before = run->summary->bands;
            es_summary_set_max(run->summary, observed);
            run->stale =
                run->stale || memcmp(before.counts, run->summary->bands.counts,
                                     sizeof before.counts) != 0;
        }
}

/* Makes the titles of all runs. The title of a run contains what distinguishes
   it from the other runs. */
static es_status set_titles(watching *w)
{
    const es_run_summary **all = NULL;
    es_run_labels labels = {0};
    size_t n = 0;
    es_status status = es_alloc(&all, w->n_runs, sizeof *all, "titles");
    if (status < 0)
        return status;
    for (size_t i = 0; i < w->n_shown; i++)
        for (size_t k = 0; k < w->shown[i].n_runs; k++)
            all[n++] = w->shown[i].runs[k].summary;
    if (n && (status = es_run_labels_make(&labels, all, n)) < 0)
        goto done;
    n = 0;
    for (size_t i = 0; i < w->n_shown; i++)
        for (size_t k = 0; k < w->shown[i].n_runs; k++, n++) {
            shown_run *run = &w->shown[i].runs[k];
            if (same_text(run->title, labels.text[n]))
                continue;
            free(run->title);
            run->title = strdup(labels.text[n]);
            run->stale = true;
        }
    w->relabel = false;
done:
    es_run_labels_free(&labels);
    free(all);
    return status;
}

/* Sends the JSON members that concern all runs. */
static void send_head(watching *w)
{
    char *text = NULL;
    size_t n = 0;
    FILE *stream = es_text_stream(&text, &n);
    if (!stream)
        return;
    es_json_writer json = {.stream = stream};
    es_json_max(&json, &w->summary.max, w->observed);
    es_json_write_array(&json, "failed");
    for (size_t i = 0; i < w->n_shown; i++) {
        if (!w->shown[i].problem)
            continue;
        es_json_write_object(&json, NULL);
        es_json_write_text(&json, "path", w->shown[i].path);
        es_json_write_text(&json, "error", w->shown[i].problem);
        es_json_write_end(&json, "}");
    }
    es_json_write_end(&json, "]");
    es_json_write_bool(&json, "reading", w->first);
    if (w->summary.rules)
        es_rules_file_json(&json, w->summary.rules);
    if (fclose(stream) == 0)
        send(w, ES_SERVE_HEAD, text, n);
    free(text);
    w->headed = true;
}

/* Sends all runs and alerts that have changed to the process that answers
 * browsers. */
static void publish(watching *w)
{
    set_observed(w);
    if (w->relabel && set_titles(w) < 0)
        es_print_note("%s", es_message());
    for (size_t i = 0; i < w->n_shown; i++)
        for (size_t k = 0; k < w->shown[i].n_runs; k++)
            if (w->shown[i].runs[k].stale)
                send_run(w, &w->shown[i].runs[k]);
    if (!w->headed)
        send_head(w);
    const char done = !w->first;
    send(w, ES_SERVE_ROUND, &done, 1);
    for (size_t i = 0; i < w->unsent.n; i++)
        send(w, ES_SERVE_ALERT, w->unsent.paths[i], strlen(w->unsent.paths[i]));
    es_paths_free(&w->unsent);
    w->published = seconds(CLOCK_MONOTONIC);
}

/* --- alerts ---------------------------------------------------------------*/

static int by_text(const void *a, const void *b)
{
    return strcmp(a, b);
}

/* Returns true and remembers the alert, unless the alert is already remembered.
 * If ALERTS_MOST alerts are remembered, forgets all of them first. */
static bool is_new(watching *w, const char *id)
{
    if (tfind(id, &w->alerts, by_text))
        return false;
    if (w->n_alerts == ALERTS_MOST) {
        tdestroy(w->alerts, free);
        w->alerts = NULL;
        w->n_alerts = 0;
    }
    char *copy = strdup(id);
    if (copy && tsearch(copy, &w->alerts, by_text))
        w->n_alerts++;
    else
        free(copy);
    return true;
}

static shown_run *run_of_key(const watching *w, const char *key)
{
    for (size_t i = 0; i < w->n_shown; i++) {
        shown_run *run = find_run(&w->shown[i], key);
        if (run)
            return run;
    }
    return NULL;
}

static void write_alert(FILE *stream, const es_alert *alert, const char *key,
                        const shown_run *run)
{
    es_json_writer json = {.stream = stream};
    const es_flag_info *info = es_flag_info_find(alert->title);
    es_json_write_object(&json, NULL);
    es_json_write_format(&json, "run", "%.*s", ES_SERVE_KEY, key);
    es_json_write_text(&json, "title",
                       run           ? run->title
                       : alert->name ? alert->name
                                     : alert->arch);
    es_json_write_text(&json, "kind", alert->title);
    es_json_write_text(&json, "severity", es_severity_name(alert->severity));
    es_json_write_integer(&json, "onset", alert->onset);
    es_json_write_integer(&json, "step", alert->step);
    es_json_write_array(&json, "layers");
    for (int i = 0; i < alert->n_layers; i++)
        es_json_write_integer(&json, NULL, alert->layers[i]);
    es_json_write_end(&json, "]");
    es_json_write_stated(&json, "value", alert->value, "nan");
    es_json_write_stated(&json, "threshold", alert->threshold, "nan");
    es_json_write_text(&json, "advice", info ? info->name : NULL);
    es_json_write_text(&json, "text", alert->text);
    es_json_write_end(&json, "}");
}

/* Prepares an alert for sending, unless it was found in the first poll: the
 * list of runs shows these alerts as flags. */
static es_status receive_alert(void *user, const es_alert *alert)
{
    watching *w = user;
    char key[ES_SERVE_KEY], *text = NULL;
    size_t n = 0;
    es_serve_key(key, alert->path, alert->uuid, 1);
    shown_run *run = run_of_key(w, key);
    if (!is_new(w, alert->id) || w->first)
        return ES_OK;
    if (run) /* compute the flags again soon, so that the list of runs has
                the flag when the alert is sent */
        run->judge_at = 0;
    FILE *stream = es_text_stream(&text, &n);
    if (!stream)
        return ES_OK; /* without an alert, the list of runs still shows the
                         flag */
    write_alert(stream, alert, key, run);
    if (fclose(stream) == 0 && es_paths_add(&w->unsent, text) < 0)
        es_print_note("%s", es_message());
    free(text);
    return ES_OK;
}

/* --- rounds ---------------------------------------------------------------*/

/* Reads those files again that contain a run whose flags are due to be
 * recomputed. */
static void judge_owed(watching *w)
{
    for (size_t i = 0; i < w->n_shown; i++) {
        const shown_file *file = &w->shown[i];
        es_reader *reader = NULL;
        size_t k = 0;
        while (k < file->n_runs &&
               !(file->runs[k].owed &&
                 file->runs[k].judge_at <= seconds(CLOCK_MONOTONIC)))
            k++;
        if (k < file->n_runs && es_reader_open(&reader, file->path) == ES_OK &&
            receive_file(w, file->path, reader) < 0)
            es_print_note("%s", es_message());
        es_damage_close(reader);
    }
}

/* Returns the earliest time at which the flags of a run are due to be
 * recomputed; infinity if all flags are up to date. */
static double next_judgement(const watching *w)
{
    double first = INFINITY;
    for (size_t i = 0; i < w->n_shown; i++)
        for (size_t k = 0; k < w->shown[i].n_runs; k++)
            if (w->shown[i].runs[k].owed)
                first = fmin(first, w->shown[i].runs[k].judge_at);
    return first;
}

/* Reads those files again whose writers have died. A writer's death does not
 * change the file, so it would otherwise remain unnoticed. */
static void find_dead_writers(watching *w)
{
    for (size_t i = 0; i < w->n_shown; i++) {
        es_reader *reader = NULL;
        bool written = true;
        if (!w->shown[i].n_written ||
            es_reader_open(&reader, w->shown[i].path) != ES_OK)
            continue;
        if (es_reader_is_written(reader, &written) == ES_OK && !written &&
            receive_file(w, w->shown[i].path, reader) < 0)
            es_print_note("%s", es_message());
        es_damage_close(reader);
    }
}

/* Waits until `earliest`, then for a change, but at most until `latest`. */
static void wait_for_change(watching *w, double earliest, double latest)
{
    struct pollfd fds[2 + DATABASES_MOST];
    double now = seconds(CLOCK_MONOTONIC);
    bool changed = false;
    while (!w->is_over && (now < earliest || (now < latest && !changed))) {
        const bool listens = now >= earliest;
        nfds_t n = 0;
        fds[n++] = (struct pollfd){.fd = w->options->fd};
        fds[n++] = (struct pollfd){.fd = listens ? w->changes.fd : -1,
                                   .events = POLLIN};
        for (size_t i = 0;
             listens && i < w->files.databases.n && i < DATABASES_MOST; i++)
            fds[n++] = (struct pollfd){
                .fd = es_remote_watch_fd(w->files.databases.list[i].watch),
                .events = POLLIN};
        poll(fds, n, (int)ceil(1000 * ((listens ? latest : earliest) - now)));
        w->is_over = fds[0].revents & (POLLERR | POLLHUP);
        changed = fds[1].revents && es_watch_changes_read(&w->changes);
        for (size_t i = 0; listens && i < w->files.databases.n; i++)
            if (es_remote_watch_heard(w->files.databases.list[i].watch))
                changed = true;
        now = seconds(CLOCK_MONOTONIC);
    }
}

static bool has_news(const watching *w)
{
    if (!w->headed || w->relabel || w->unsent.n)
        return true;
    for (size_t i = 0; i < w->n_shown; i++)
        for (size_t k = 0; k < w->shown[i].n_runs; k++)
            if (w->shown[i].runs[k].stale)
                return true;
    return false;
}

static es_status read_round(watching *w)
{
    es_status status = es_watch_files_read(&w->files);
    if (status < 0)
        return status;
    if (w->first) {
        w->first = false;
        w->headed = false;
    }
    judge_owed(w);
    if (has_news(w))
        publish(w);
    es_watch_changes_follow(&w->changes, &w->files);
    return ES_OK;
}

static es_status run_rounds(watching *w)
{
    double checked = seconds(CLOCK_MONOTONIC), writers = WRITERS_LEAST;
    while (!w->is_over) {
        const double before = seconds(CLOCK_PROCESS_CPUTIME_ID);
        es_status status = read_round(w);
        if (status == ES_ENOMEM || (status < 0 && w->first))
            return status;
        double now = seconds(CLOCK_MONOTONIC);
        if (now - checked > writers) {
            const double start = seconds(CLOCK_PROCESS_CPUTIME_ID);
            find_dead_writers(w);
            writers =
                fmax(WRITERS_LEAST,
                     POLL_SHARE * (seconds(CLOCK_PROCESS_CPUTIME_ID) - start));
            checked = now = seconds(CLOCK_MONOTONIC);
        }
        const double cost = seconds(CLOCK_PROCESS_CPUTIME_ID) - before;
        const double earliest = now + fmax(REST_LEAST, REST_SHARE * cost);
        const bool at_once = w->changes.has_new_folder || w->files.n_searching;
        w->changes.has_new_folder = false;
        const double latest =
            fmin(now + fmax(POLL_LEAST, POLL_SHARE * cost), next_judgement(w));
        wait_for_change(w, earliest,
                        at_once ? earliest : fmax(earliest, latest));
    }
    return ES_OK;
}

static es_status find_roots(watching *w)
{
    es_status status =
        es_alloc(&w->roots, w->options->n_roots, sizeof *w->roots, "folders");
    for (size_t i = 0; i < w->options->n_roots && status == ES_OK; i++)
        if (!es_path_is_url(w->options->roots[i]))
            w->roots[i] = realpath(w->options->roots[i], NULL);
    return status;
}

int es_serve_watch(void *argument)
{
    const es_serve_watching *options = argument;
    watching w = {.options = options,
                  .observed = NAN,
                  .first = true,
                  .published = -INFINITY,
                  .files = {.roots = options->roots,
                            .n_roots = options->n_roots,
                            .state = "",
                            .rules = options->rules,
                            .least = ES_SEVERITY_WARNING,
                            .handler = receive_alert}};
    const es_watch_observer observer = {.user = &w,
                                        .read = receive_file,
                                        .failed = receive_failure,
                                        .gone = receive_gone};
    w.files.user = &w;
    w.files.observer = &observer;
    es_serve_child_begin(options->fd);
    es_summary_options_default(&w.summary);
    w.summary.rules = options->rules;
    es_watch_changes_open(&w.changes);
    publish(&w);
    es_status status = find_roots(&w);
    if (status == ES_OK)
        status = run_rounds(&w);
    if (status < 0)
        send(&w, ES_SERVE_FATAL, es_message(), strlen(es_message()));
    return es_exit_code(status);
}
