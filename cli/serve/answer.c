/* Answers one request from the contents of run files, in a separate process. */
#include "cli/serve/answer.h"

#include "analyzer/base/checked.h"
#include "cli/alerts/delivery/stop.h"
#include "cli/exchange/export.h"
#include "cli/figures/figures.h"
#include "cli/runs/settings.h"
#include "cli/serve/blocks.h"
#include "cli/serve/child.h"
#include "cli/serve/key.h"
#include "store/run_place.h"

#include <limits.h>
#include <math.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Limits of the size of an answer, and of the memory and CPU time of the
   process that makes it. */
#define BYTES_MOST ((rlim_t)256 << 20)
#define MEMORY_MOST ((rlim_t)2 << 30)
enum { SECONDS_MOST = 30 };

static void limit_process(void)
{
    const struct rlimit bytes = {BYTES_MOST, BYTES_MOST},
                        time = {SECONDS_MOST, SECONDS_MOST};
    setrlimit(RLIMIT_FSIZE, &bytes);
    setrlimit(RLIMIT_CPU, &time);
    /* AddressSanitizer reserves terabytes of address space. */
#ifndef __SANITIZE_ADDRESS__
    const struct rlimit memory = {MEMORY_MOST, MEMORY_MOST};
    setrlimit(RLIMIT_AS, &memory);
#endif
}

/* Moves *step to the sample that the page shows for it: the last sample of the
 * series up to *step, or the first sample if all are later. Leaves *step
 * unchanged if the run has no such series. */
static es_status find_step(int64_t *step, es_reader *reader,
                           const es_serve_place *place, const char *name)
{
    es_series series;
    es_cursor *cursor;
    const float *values;
    int64_t found;
    es_status status = es_reader_find(reader, place->number - 1, name,
                                      (es_phase)place->phase, &series);
    if (status < 0 || series.last_step == ES_UNKNOWN)
        return status == ES_ENOTFOUND ? ES_OK : status;
    if (*step >= series.last_step) {
        *step = series.last_step;
        return ES_OK;
    }
    if ((status = es_cursor_open(&cursor, reader, &series, ES_STEP_FIRST,
                                 *step)) < 0)
        return status;
    *step = ES_STEP_FIRST;
    while ((status = es_cursor_next(cursor, &found, &values)) == ES_OK)
        *step = found;
    es_cursor_close(cursor);
    return status == ES_DONE ? ES_OK : status;
}

static es_status load_run(es_run_summary **out, const es_serve_place *place,
                          const es_summary_options *options)
{
    es_summary_options at = *options;
    es_reader *reader = NULL;
    es_status status = es_reader_open_held(&reader, place->path);
    if (status == ES_OK && at.step != ES_STEP_LAST)
        status = find_step(&at.step, reader, place, at.series);
    if (status == ES_OK && (status = es_summary_load(
                                out, reader, place->number - 1, &at)) == ES_OK)
        status = es_run_settings_read(*out, reader, place->number - 1);
    es_reader_close(reader);
    return status;
}

/* Returns the options for drawing the figures that a request names. */
static es_figure_options options_of(const es_serve_request *request)
{
    es_figure_options options = request->style;
    options.theme_given = true;
    options.step_given = request->step != ES_STEP_LAST;
    options.n_parts = request->n_figures;
    memcpy(options.parts, request->figures,
           request->n_figures * sizeof *options.parts);
    return options;
}

/* Draws figures of the requested runs. The upper end m of the entropy scale is
   the maximum over these runs. */
static es_status draw(FILE *out, const es_serve_request *request,
                      const es_rules_file *rules)
{
    const size_t n = request->n_runs, n_figures = request->n_figures;
    es_run_summary **runs = NULL;
    es_summary_options at;
    double observed = NAN;
    es_picture *picture = NULL;
    es_summary_options_default(&at);
    at.rules = rules;
    at.step = request->step;
    if (request->n_names)
        at.series = request->names[0];
    if (request->phase >= 0)
        at.phase = request->phase == ES_PHASE_TRAIN ? ES_PHASE_ONLY_TRAIN
                                                    : ES_PHASE_ONLY_EVAL;
    const es_figure_options style = options_of(request);
    const es_figure_kind kind = n_figures > 1
                                    ? (es_figure_kind)ES_FIGURE_COMPOSITE
                                    : request->figures[0];
    es_status status = es_alloc(&runs, n, sizeof *runs, "runs");
    for (size_t i = 0; i < n && status == ES_OK; i++)
        if ((status = load_run(&runs[i], &request->runs[i], &at)) == ES_OK)
            observed = es_peak_of(observed, runs[i]->peak);
    for (size_t i = 0; i < n && status == ES_OK; i++)
        es_summary_set_max(runs[i], observed);
    const es_figure_job job = {.options = &style,
                               .runs = (const es_run_summary *const *)runs,
                               .n = n,
                               .quiet = true};
    const es_format format = (es_format)request->format;
    if (status == ES_OK)
        status = es_figure_draw_runs(&picture, kind, &job, format);
    if (status == ES_OK)
        status =
            es_picture_write(picture, out, format, ES_PIXELS_A_POINT, NULL, 0);
    es_picture_free(picture);
    for (size_t i = 0; runs && i < n; i++)
        es_summary_free(runs[i]);
    free(runs);
    return status;
}

/* Writes the series of a run as `entropy-scan export` does. */
static es_status export(FILE *out, const es_serve_request *request)
{
    const es_serve_place *place = &request->runs[0];
    const es_export_options options = {
        .names = (const char *const *)request->names,
        .n_names = request->n_names,
        .phase = request->phase < 0                 ? ES_PHASE_ANY
                 : request->phase == ES_PHASE_TRAIN ? ES_PHASE_ONLY_TRAIN
                                                    : ES_PHASE_ONLY_EVAL};
    es_reader *reader = NULL;
    es_status status = es_reader_open_held(&reader, place->path);
    if (status == ES_OK)
        status = es_export_csv(out, reader, place->number - 1, &options);
    es_reader_close(reader);
    return status;
}

/* Requests that a run stop. Sets *conflict if the run is not being written. */
static es_status stop(FILE *out, bool *conflict,
                      const es_serve_request *request)
{
    const es_serve_place *place = &request->runs[0];
    es_reader *reader = NULL;
    es_run_info info;
    bool written = false;
    char uuid[ES_UUID_SIZE] = "", key[ES_SERVE_KEY];
    es_status status = es_reader_open(&reader, place->path);
    if (status == ES_OK &&
        (status = es_reader_run(reader, place->number - 1, &info)) == ES_OK &&
        (status = es_reader_is_run_written(reader, place->number - 1,
                                           &written)) == ES_OK)
        snprintf(uuid, sizeof uuid, "%s", info.uuid ? info.uuid : "");
    es_serve_key(key, place->path, uuid, place->number);
    if (status == ES_OK && memcmp(key, place->key, sizeof key) != 0)
        status =
            es_fail(ES_ENOTFOUND, "%s: now contains another run", place->path);
    *conflict = status == ES_OK && (!written || info.status != ES_RUN_RUNNING ||
                                    es_path_is_url(place->path));
    es_reader_close(reader);
    if (status < 0)
        return status;
    if (*conflict)
        return es_fail(ES_EUSAGE,
                       "%s: no program on this machine is writing the run",
                       place->path);
    fputs("{\"stopped\":true}", out);
    return es_stop_request(
        place->path, uuid,
        "entropy-scan serve: stopped by a user of the web page");
}

/* Fails if a path now contains a symbolic link. When the file was found, its
 * path contained no links, so a folder has been replaced since. */
static es_status check_places(const es_serve_request *request)
{
    for (size_t i = 0; i < request->n_runs; i++) {
        char real[PATH_MAX];
        const char *path = request->runs[i].path;
        if (!es_path_is_url(path) &&
            (!realpath(path, real) || strcmp(real, path) != 0))
            return es_fail(ES_ENOTFOUND, "%s: the file was moved or removed",
                           path);
    }
    return ES_OK;
}

static es_status answer(FILE *out, bool *conflict,
                        const es_serve_answering *given)
{
    const es_serve_request *request = given->request;
    es_status status = check_places(request);
    if (status < 0)
        return status;
    switch (request->ask) {
    case ES_SERVE_DRAW:
        return draw(out, request, given->rules);
    case ES_SERVE_EXPORT:
        return export(out, request);
    case ES_SERVE_STOP:
        return stop(out, conflict, request);
    default:
        return es_serve_write_blocks(out, request);
    }
}

static int code_of(es_status status, bool conflict)
{
    if (conflict)
        return ES_ANSWER_CONFLICT;
    if (status == ES_ENOTFOUND)
        return ES_ANSWER_NOTHING;
    return status == ES_EUSAGE ? ES_ANSWER_WRONG : ES_ANSWER_FAILED;
}

int es_serve_answer(void *argument)
{
    const es_serve_answering *given = argument;
    bool conflict = false;
    es_serve_child_begin(given->fd);
    limit_process();
    FILE *out = fdopen(given->fd, "wb");
    if (!out)
        return ES_ANSWER_FAILED;
    es_status status = answer(out, &conflict, given);
    if (status >= 0 && fflush(out) == 0)
        return 0;
    if (status >= 0)
        status = es_fail(ES_EIO, "the answer is too large");
    if (ftruncate(given->fd, 0) != 0 || lseek(given->fd, 0, SEEK_SET) != 0)
        return ES_ANSWER_FAILED;
    dprintf(given->fd, "%s", es_message());
    return code_of(status, conflict);
}
