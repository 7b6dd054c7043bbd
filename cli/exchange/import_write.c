/* Writes a run file from the run that a parser of import passes to its sink.
   The run file appears either complete or not at all. */
#include "cli/exchange/import_write.h"

#include "analyzer/base/checked.h"
#include "cli/exchange/import_open.h"
#include "cli/output/output.h"
#include "cli/output/progress.h"
#include "store/map.h"

/* State of the sink that writes the parsed run to a temporary run file. */
typedef struct target {
    es_writer *writer;
    es_imported *about;
    char uuid[ES_UUID_SIZE];
    es_run_info info;
    int64_t run_id;
    int64_t *series; /* (about->n_series) */
    es_run_status status;
    size_t pending; /* bytes written since the last commit */
    const es_output *output;
} target;

static es_status of_output(const target *t, es_status status)
{
    return es_output_status(t->output, status);
}

static es_status begin_run(target *t, const es_run_info *info)
{
    t->info = *info;
    t->status = info->status;
    es_status status = ES_OK;
    if (info->uuid)
        snprintf(t->uuid, sizeof t->uuid, "%s", info->uuid);
    else if ((status = es_uuid_make(t->uuid)) < 0)
        return status;
    t->info.uuid = t->uuid;
    if (!t->info.program)
        t->info.program = "entropy-scan import " ES_VERSION;
    return es_writer_run(t->writer, &t->run_id, &t->info, 0);
}

static es_status begin(void *user, const es_run_info *info,
                       const es_text_series *series, size_t n_series)
{
    target *t = user;
    t->about->n_layer = info->n_layer;
    t->about->n_head = info->n_head;
    t->about->n_series = n_series;
    es_status status =
        es_alloc(&t->series, n_series, sizeof *t->series, "the series");
    if (status < 0)
        return status;
    status = es_writer_begin(t->writer);
    if (status == ES_OK)
        status = begin_run(t, info);
    for (size_t i = 0; status == ES_OK && i < n_series; i++)
        status = es_writer_series(t->writer, &t->series[i], t->run_id,
                                  series[i].name, series[i].shape,
                                  series[i].phase, series[i].unit);
    return of_output(t, status);
}

static es_status sample(void *user, size_t series, int64_t step,
                        const float *values, size_t n)
{
    enum { BATCH = 1 << 22 };
    target *t = user;
    es_status status =
        es_writer_sample(t->writer, t->series[series], step, values, n);
    t->pending += n * sizeof *values;
    if (status != ES_OK || t->pending < BATCH)
        return of_output(t, status);
    /* Regular commits limit the size of SQLite's write-ahead log. */
    t->pending = 0;
    status = es_writer_commit(t->writer);
    if (status == ES_OK)
        status = es_writer_begin(t->writer);
    return of_output(t, status);
}

static es_status again(void *user, int64_t step)
{
    target *t = user;
    return of_output(t, es_writer_run(t->writer, &t->run_id, &t->info, step));
}

static es_status map(void *user, const es_map *map, const float *values)
{
    target *t = user;
    return of_output(t, es_writer_map(t->writer, t->run_id, map, values));
}

static es_status end_run(target *t)
{
    es_status status;
    if ((status = es_writer_commit(t->writer)) < 0 ||
        (status = es_writer_end_run(t->writer, t->run_id, t->status)) < 0)
        return of_output(t, status);
    status = es_writer_close(t->writer);
    t->writer = NULL;
    return of_output(t, status);
}

static es_status write_run(target *t, es_line_reader *lines,
                           const es_import_options *options)
{
    const es_import_sink sink = {t, begin, sample, again, map};
    es_status status = es_import_parse(&t->about->report, lines,
                                       t->about->format, options, &sink);
    if (status == ES_OK)
        status = end_run(t);
    es_writer_abandon(t->writer);
    free(t->series);
    return status;
}

static es_status write_file(es_imported *about, es_line_reader *lines,
                            const char *path, const es_import_options *options)
{
    es_output *output = NULL;
    target t = {.about = about};
    es_status status;
    if ((status = es_output_check_run_file(path)) < 0 ||
        (status = es_output_open_run(&output, &t.writer, path)) < 0)
        return status;
    t.output = output;
    status = write_run(&t, lines, options);
    return es_output_finish(output, status);
}

es_status es_import_file(es_imported *out, const char *input,
                         const char *output, const es_import_format *format,
                         const es_import_options *options, bool quiet)
{
    es_line_reader *lines = NULL;
    *out = (es_imported){0};
    es_status status = es_import_open(&lines, &out->what, input);
    if (status == ES_OK) {
        es_progress_line_begin(quiet, "importing", es_line_reader_name(lines),
                               ES_PROGRESS_BYTES, es_line_reader_size(lines));
        es_line_reader_watch(lines, es_progress_line_set);
    }
    if (status == ES_OK && format)
        out->format = *format;
    else if (status == ES_OK)
        status = es_import_detect(&out->format, lines, options);
    if (status == ES_OK)
        status = write_file(out, lines, output, options);
    es_progress_line_end();
    es_line_reader_close(lines);
    return status;
}
