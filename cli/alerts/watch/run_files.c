/* Finds the run files of a watcher at each poll, detects changes and failures,
 * and checks the runs of changed files for alerts. */
#include "cli/alerts/watch/run_files.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"
#include "cli/runs/damage.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

/* Seconds within which two changes of a file may get the same time stamp.
   Longer than the resolution of any file system's time stamps. */
#define TICK 0.1
/* Longest expected pause, in seconds, between two writes to a file that is
   being copied. */
#define COPYING 3
/* After this many CPU seconds, a poll does not search further damaged
   fragments. */
#define SEARCHING_MOST 0.1
/* Maximum number of bytes of one damaged fragment that are searched per
   poll. */
#define SEARCHED_MOST (INT64_C(4) << 20)

/* --- the files ---------------------------------------------------------*/

static es_status find_paths(es_paths *paths, es_watch_files *watch)
{
    es_status status = ES_OK;
    bool lost = false, first_round = !watch->files;
    es_paths_free(&watch->folders);
    for (size_t i = 0; i < watch->n_roots && status == ES_OK; i++) {
        const char *root = watch->roots[i];
        if (es_path_is_url(root)) {
            status = es_watch_database_read(paths, &watch->databases, root);
            continue;
        }
        status = es_path_is_folder(root)
                     ? es_paths_walk_all(paths, &watch->folders,
                                         &watch->n_failed, root, !first_round)
                     : es_paths_add(paths, root);
        if (status != ES_EIO || first_round)
            continue;
        if (!watch->lost)
            es_print_note("%s", es_message());
        watch->n_failed++;
        lost = true;
        status = ES_OK;
    }
    watch->lost = lost;
    if (status == ES_OK)
        es_paths_sort(paths);
    return status;
}

/* Drops the state of all runs except the first n_keep. */
static void drop_runs(es_watch_file *file, size_t n_keep)
{
    while (file->n_runs > n_keep) {
        es_follow_end(file->runs[--file->n_runs]);
        free(file->runs[file->n_runs]);
    }
}

static void free_file(es_watch_file *file)
{
    drop_runs(file, 0);
    free(file->runs);
    free(file->of_rules);
    free(file->path);
    es_growth_end(file->growth);
}

static void drop_file(const es_watch_files *watch, es_watch_file *file)
{
    if (watch->observer)
        watch->observer->gone(watch->observer->user, file->path);
    free_file(file);
}

/* Replaces the list of files by the given paths. Files that were already in the
 * list keep their state. Both lists are sorted. */
static es_status follow_paths(es_watch_files *watch, es_paths *paths)
{
    es_watch_file *files;
    size_t n = 0, old = 0;
    es_status status = es_alloc(&files, paths->n, sizeof *files, "files");
    if (status < 0)
        return status;
    for (size_t i = 0; i < paths->n; i++) {
        int order = 1;
        if (n && strcmp(files[n - 1].path, paths->paths[i]) == 0)
            continue;
        while (old < watch->n_files &&
               (order = strcmp(watch->files[old].path, paths->paths[i])) < 0)
            drop_file(watch, &watch->files[old++]);
        if (old < watch->n_files && order == 0) {
            files[n++] = watch->files[old++];
        } else {
            files[n++].path = paths->paths[i];
            paths->paths[i] = NULL;
        }
    }
    while (old < watch->n_files)
        drop_file(watch, &watch->files[old++]);
    free(watch->files);
    watch->files = files;
    watch->n_files = n;
    return ES_OK;
}

/* --- runs of a file
 * -------------------------------------------------------- */

static es_status hand_on(void *user, const es_alert *alert)
{
    es_watch_files *watch = user;
    if (alert->severity < watch->least && !alert->stops)
        return ES_OK;
    es_status status = watch->handler(watch->user, alert);
    watch->refused = status != ES_OK;
    return status;
}

/* Checks one run for alerts. sum_up later adds the run's counts to those of the
 * file. */
static es_status follow_run(es_watch_files *watch, es_watch_file *file,
                            es_reader *reader, size_t run,
                            const es_alert *about)
{
    const es_follow_options options = {
        .rules = watch->rules, .handler = hand_on, .user = watch};
    if (run >= file->n_runs) {
        es_status status;
        if ((status = es_grow(&file->runs, run + 1, sizeof *file->runs,
                              "runs")) < 0 ||
            (status = es_alloc(&file->runs[run], 1, sizeof **file->runs,
                               "a run")) < 0)
            return status;
        file->n_runs = run + 1;
    }
    return es_follow_read(file->runs[run], reader, run, about, &options);
}

static es_status read_run(es_watch_files *watch, es_watch_file *file,
                          es_reader *reader, size_t run, const char *path)
{
    es_run_info info;
    bool written;
    es_status status;
    if ((status = es_reader_run(reader, run, &info)) < 0 ||
        (status = es_reader_is_written(reader, &written)) < 0)
        return status;
    const es_alert about = {
        .path = path,
        .uuid = info.uuid ? info.uuid : "",
        .name = info.name,
        .arch = info.arch,
        .is_written = info.status == ES_RUN_RUNNING && written,
    };
    return follow_run(watch, file, reader, run, &about);
}

/* Computes the number of alerts of the file as the sum over its runs. */
static es_status sum_up(const es_watch_files *watch, es_watch_file *file)
{
    const size_t n = watch->rules ? watch->rules->n : 0;
    memset(file->counts, 0, sizeof file->counts);
    free(file->of_rules);
    file->of_rules = NULL;
    es_status status = ES_OK;
    if (n && (status = es_alloc(&file->of_rules, n, sizeof *file->of_rules,
                                "counts")) < 0)
        return status;
    for (size_t run = 0; run < file->n_runs; run++) {
        const es_follow *followed = file->runs[run];
        for (size_t i = 0; i < n; i++)
            file->of_rules[i] += followed->of_rules[i];
        for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
            for (int k = 0; k <= ES_SEVERITY_CRITICAL; k++)
                file->counts[kind][k] += followed->counts[kind][k];
    }
    return ES_OK;
}

/* Checks the new samples of all runs in a file for alerts. If a rule does not
 * fit one run, the other runs are checked all the same and the failure is
 * returned afterwards. */
static es_status read_runs(es_watch_files *watch, es_watch_file *file,
                           es_reader *reader, const char *path)
{
    char misfit[ES_MESSAGE_MAX] = "";
    const size_t n_runs = es_reader_n_runs(reader);
    drop_runs(file, n_runs);
    for (size_t run = 0; run < n_runs; run++) {
        const es_status status = read_run(watch, file, reader, run, path);
        if (status != ES_OK && (status != ES_EUSAGE || watch->refused))
            return status;
        if (status != ES_OK && !misfit[0])
            snprintf(misfit, sizeof misfit, "%s", es_message());
    }
    if (misfit[0])
        return es_fail(ES_EUSAGE, "%s", misfit);
    return sum_up(watch, file);
}

/* Reports a file if two attempts to read it have failed and it has not changed
 * for a while. A locked file is retried at each poll, because it may become
 * readable without a change. ES_ENOMEM is not reported here, because it ends
 * the whole poll. */
static void note_failure(const es_watch_files *watch, es_watch_file *file,
                         es_status status)
{
    bool settled = file->failed && !es_stamp_is_fresh(&file->stamp, COPYING);
    bool twice = settled || watch->at_once;
    if (twice && !file->reported && status != ES_ENOMEM) {
        if (watch->observer)
            watch->observer->failed(watch->observer->user, file->path);
        es_print_note("%s", es_message());
        file->reported = true;
    }
    file->again = !twice || status == ES_ELOCKED;
    file->failed = true;
}

/* Reads one file. If reading fails, notes the failure, and the caller continues
 * with the other files. If the handler refuses an alert, the caller stops. */
static es_status read_file(es_watch_files *watch, es_watch_file *file,
                           es_stamp stamp)
{
    char path[PATH_MAX];
    es_reader *reader = NULL;
    if (!es_stamp_same(&stamp, &file->stamp))
        file->failed = false;
    file->stamp = stamp;
    es_status status = es_growth_open(&reader, file->path, file->growth,
                                      watch->at_once ? 0 : SEARCHED_MOST);
    if (es_path_is_url(file->path))
        snprintf(path, sizeof path, "%s", file->path);
    else if (status == ES_OK && !realpath(file->path, path))
        status = es_fail(ES_EIO, "%s: %s", file->path, strerror(errno));
    es_growth_end(file->growth);
    file->growth = NULL;
    if (status == ES_OK) /* begin to follow the file before reading its runs,
                            because the writer may die while they are being
                            read */
        status = es_growth_begin(&file->growth, reader);
    if (status == ES_OK)
        status = read_runs(watch, file, reader, path);
    if (status == ES_OK && watch->observer)
        status =
            watch->observer->read(watch->observer->user, file->path, reader);
    es_damage_close(reader);
    if (watch->refused) {
        file->again = true;
    } else if (status == ES_OK) {
        file->read = true;
        file->reported = file->failed = false;
        file->again = !file->growth && es_stamp_is_fresh(&stamp, TICK);
    } else {
        es_growth_end(file->growth);
        file->growth = NULL;
        file->read = false;
        note_failure(watch, file, status);
    }
    return status;
}

/* Opens a reader for a fragment whose new samples have been checked without a
 * reader, and passes the reader to the observer. */
static es_status show_growth(const es_watch_files *watch,
                             const es_watch_file *file)
{
    es_reader *reader = NULL;
    es_status status =
        es_growth_open(&reader, file->path, file->growth, SEARCHED_MOST);
    if (status == ES_OK)
        status =
            watch->observer->read(watch->observer->user, file->path, reader);
    es_damage_close(reader);
    return status;
}

/* Checks the appended samples for alerts. Returns ES_DONE if the whole file has
 * to be read instead. */
static es_status follow_growth(es_watch_files *watch, es_watch_file *file)
{
    const es_follow_options options = {
        .rules = watch->rules, .handler = hand_on, .user = watch};
    size_t n;
    const es_growth_sample *samples = es_growth_samples(&n, file->growth);
    es_status status = ES_OK;
    watch->refused = false;
    for (size_t run = 0; run < file->n_runs && status == ES_OK; run++)
        status = es_follow_add(file->runs[run], run, samples, n, &options);
    es_growth_drop_samples(file->growth);
    if (status == ES_OK)
        status = sum_up(watch, file);
    return status == ES_OK && watch->observer ? show_growth(watch, file)
                                              : status;
}

/* Returns true if the file is a fragment that is being written and need not be
 * read, because nothing was appended, or only samples, which this function
 * checks for alerts. */
static bool is_known(es_watch_files *watch, es_watch_file *file)
{
    es_growth_news news;
    if (!file->growth || !file->read || file->again ||
        es_growth_look(&news, file->growth) != ES_OK)
        return false;
    return news == ES_GROWTH_SAMPLES ? follow_growth(watch, file) == ES_OK
                                     : news == ES_GROWTH_NONE;
}

static double processor_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Reads one file if it has changed. An unreadable file is read a second time at
 * the next poll, and then whenever it changes. The state file of the watcher is
 * skipped. */
static es_status check_file(es_watch_files *watch, es_watch_file *file)
{
    struct stat state;
    const bool is_remote = es_path_is_url(file->path);
    if (is_remote && es_watch_database_is_lost(&watch->databases, file->path))
        return ES_OK;
    es_stamp stamp =
        is_remote ? es_watch_database_stamp(&watch->databases, file->path)
                  : es_stamp_of(file->path);
    if (is_known(watch, file)) {
        file->stamp = stamp;
        return ES_OK;
    }
    if ((es_stamp_same(&stamp, &file->stamp) && !file->again && !file->growth &&
         (file->read || file->failed)) ||
        (stamp.inode && stat(watch->state, &state) == 0 &&
         state.st_dev == stamp.device && state.st_ino == stamp.inode))
        return ES_OK;
    watch->refused = false;
    es_status status = read_file(watch, file, stamp);
    return watch->refused || status == ES_ENOMEM ? status : ES_OK;
}

static bool is_searching(const es_watch_file *file)
{
    return file->growth && es_growth_is_searching(file->growth);
}

/* Continues to search damaged fragments for frames, beginning with the fragment
 * after the one that was searched last. */
static es_status search_on(es_watch_files *watch)
{
    const double end = processor_seconds() + SEARCHING_MOST;
    const size_t first = watch->turn;
    es_status status = ES_OK;
    for (size_t i = 0;
         i < watch->n_files && status == ES_OK && processor_seconds() < end;
         i++) {
        es_watch_file *file = &watch->files[(first + i) % watch->n_files];
        if (!file->waits)
            continue;
        status = check_file(watch, file);
        watch->turn = (first + i + 1) % watch->n_files;
    }
    return status;
}

es_status es_watch_files_read(es_watch_files *watch)
{
    es_paths paths = {0};
    watch->n_failed = watch->n_read = watch->n_abroad = watch->n_searching = 0;
    es_status status = find_paths(&paths, watch);
    if (status == ES_OK)
        status = follow_paths(watch, &paths);
    es_paths_free(&paths);
    for (size_t i = 0; i < watch->n_files && status == ES_OK; i++) {
        watch->files[i].waits = is_searching(&watch->files[i]);
        if (!watch->files[i].waits)
            status = check_file(watch, &watch->files[i]);
    }
    if (status == ES_OK)
        status = search_on(watch);
    es_damage_print();
    for (size_t i = 0; i < watch->n_files; i++) {
        watch->n_searching += is_searching(&watch->files[i]);
        watch->n_read += watch->files[i].read;
        watch->n_failed += watch->files[i].failed;
        watch->n_abroad += watch->files[i].growth &&
                           es_growth_is_abroad(watch->files[i].growth);
    }
    return status;
}

void es_watch_files_close(es_watch_files *watch)
{
    for (size_t i = 0; i < watch->n_files; i++)
        free_file(&watch->files[i]);
    free(watch->files);
    es_paths_free(&watch->folders);
    es_watch_databases_close(&watch->databases);
}
