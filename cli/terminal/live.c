/* Keeps the runs of the live view up to date: finds run files that have changed
 * and reads their new samples. */
#include "cli/terminal/live.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"
#include "cli/runs/damage.h"
#include "store/run.h"

#include <string.h>

/* --- reading --------------------------------------------------------------*/

/* Reads all runs of a file. If reading a run fails, the error message is stored
 * in that run. */
static es_status read_runs(es_live *live, es_live_file *file, es_reader *reader)
{
    bool written;
    es_status status;
    if (es_reader_is_written(reader, &written) != ES_OK)
        /* If it is unknown whether the file is being written, the file is read
         * again next time. */
        written = true;
    for (; file->n_runs < es_reader_n_runs(reader); file->n_runs++)
        if ((status =
                 es_watch_list_add(&live->runs, file->path, file->n_runs)) < 0)
            return status;
    file->running = file->n_runs == 0 && written;
    for (size_t i = 0; i < live->runs.n; i++) {
        es_watched *run = &live->runs.list[i];
        if (run->path != file->path)
            continue;
        status = es_watched_read(run, reader, &live->summary);
        if (status == ES_OK)
            status = es_watched_move(run, reader, live->step, &live->summary);
        if (status == ES_ENOMEM)
            return status;
        file->running = file->running || run->running;
    }
    return ES_OK;
}

static void keep_problem(es_live_file *file, es_status status)
{
    free(file->problem);
    file->problem = status == ES_OK ? NULL : strdup(es_message());
}

/* Reads a file. The file is open only during the read, because an open reader
   would prevent the writer from removing its write-ahead log at the end. */
static es_status read_file(es_live *live, es_live_file *file)
{
    es_reader *reader = NULL;
    es_stamp stamp = es_stamp_of(file->path);
    es_status status = es_reader_open(&reader, file->path);
    keep_problem(file, status);
    if (status == ES_OK) {
        status = read_runs(live, file, reader);
        file->stamp = stamp;
        file->read = true;
    } else if (stamp.inode == 0) { /* the file no longer exists */
        file->running = false;
    }
    es_damage_close(reader);
    return status == ES_ENOMEM ? status : ES_OK;
}

/* Returns true if a process is still writing the file. The file's stamp cannot
 * show this, because it does not change when a writer is killed. */
static bool is_written(const char *path)
{
    es_reader *reader = NULL;
    bool written = false;
    es_status status = es_reader_open(&reader, path);
    if (status == ES_OK)
        status = es_reader_is_written(reader, &written);
    es_damage_close(reader);
    /* if the file cannot be read, the next read reports the error */
    return status == ES_OK && written;
}

es_status es_live_read(bool *out, es_live *live, bool anew)
{
    *out = false;
    for (size_t i = 0; i < live->n_files; i++) {
        es_live_file *file = &live->files[i];
        es_stamp stamp = es_stamp_of(file->path);
        if (!anew && !file->problem && es_stamp_same(&stamp, &file->stamp) &&
            (!file->running || is_written(file->path)))
            continue;
        es_status status = read_file(live, file);
        if (status < 0)
            return status;
        *out = true;
    }
    es_watched_set_max(live->runs.list, live->runs.n);
    return ES_OK;
}

es_status es_live_move(es_live *live, int64_t step)
{
    live->step = step;
    for (size_t i = 0; i < live->n_files; i++) {
        es_live_file *file = &live->files[i];
        es_reader *reader = NULL;
        es_status status = es_reader_open(&reader, file->path);
        keep_problem(file, status);
        for (size_t k = 0; k < live->runs.n && status == ES_OK; k++)
            if (live->runs.list[k].path == file->path &&
                es_watched_move(&live->runs.list[k], reader, step,
                                &live->summary) == ES_ENOMEM)
                status = ES_ENOMEM;
        es_damage_close(reader);
        if (status == ES_ENOMEM)
            return status;
    }
    es_watched_set_max(live->runs.list, live->runs.n);
    return ES_OK;
}

bool es_live_has_ended(const es_live *live)
{
    for (size_t i = 0; i < live->n_files; i++)
        if (live->files[i].running)
            return false;
    return true;
}

/* --- series ---------------------------------------------------------------*/

es_status es_live_switch(es_live *live, bool back)
{
    const int side = back ? -1 : 1;
    const char *best = NULL, *end = NULL, *now = live->summary.series;
    es_reader *reader = NULL;
    if (live->runs.n == 0)
        return ES_OK;
    const es_watched *run = &live->runs.list[live->first];
    if (es_reader_open(&reader, run->path) != ES_OK)
        return ES_OK; /* the next read of the file reports the error */
    /* after the last series, the first series is chosen */
    for (size_t i = 0; i < es_reader_n_series(reader, run->index); i++) {
        es_series series;
        if (es_reader_series(reader, run->index, i, &series) != ES_OK ||
            series.shape != ES_SHAPE_HEAD || series.last_step == ES_UNKNOWN ||
            es_series_is_member(series.name))
            continue;
        if (side * strcmp(series.name, now) > 0 &&
            (!best || side * strcmp(series.name, best) < 0))
            best = series.name;
        if (!end || side * strcmp(series.name, end) < 0)
            end = series.name;
    }
    best = best ? best : end;
    char *name = best ? strdup(best) : NULL;
    es_damage_close(reader);
    if (!name)
        return ES_OK;
    free(live->series);
    live->summary.series = live->series = name;
    live->summary.max = live->options->max;
    if (es_summary_options_check(&live->summary) != ES_OK)
        live->summary.max = (es_max){.policy = ES_MAX_OBSERVED};
    for (size_t i = 0; i < live->runs.n; i++)
        es_watched_forget(&live->runs.list[i]);
    bool changed;
    return es_live_read(&changed, live, true);
}

/* --- beginning and end ----------------------------------------------------*/

es_status es_live_open(es_live *live, size_t *n_failed, char *const *inputs,
                       size_t n, const es_summary_options *options)
{
    es_status status = es_alloc(&live->files, n, sizeof *live->files, "files");
    if (status < 0)
        return status;
    live->options = options;
    live->summary = *options;
    live->step = options->step;
    live->summary.step = ES_STEP_LAST;
    for (size_t i = 0; i < n; i++) {
        es_live_file *file = &live->files[live->n_files];
        *file = (es_live_file){.path = inputs[i]};
        if ((status = read_file(live, file)) < 0)
            return status;
        if (file->read) {
            live->n_files++;
            continue;
        }
        es_print_note("%s", file->problem ? file->problem : file->path);
        free(file->problem);
        ++*n_failed;
    }
    es_watched_set_max(live->runs.list, live->runs.n);
    return ES_OK;
}

void es_live_close(es_live *live)
{
    for (size_t i = 0; i < live->n_files; i++)
        free(live->files[i].problem);
    free(live->files);
    free(live->series);
    es_watch_list_free(&live->runs);
}
