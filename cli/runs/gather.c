/* Reads the runs of many files with several processes. Process k of n reads the
   files k, k + n, ... and writes the results into its own pipe. The caller
   reads the pipes alternately, so results arrive in the order of the files, and
   no process runs ahead further than its pipe can hold. Processes are used
   instead of threads because SQLite with a memory limit takes a global lock for
   each malloc, and because a crash then affects only one file. */
#include "cli/runs/gather.h"

#include "analyzer/base/process.h"
#include "cli/runs/settings.h"
#include "store/merge.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <string.h>
#include <unistd.h>

size_t es_gather_processors(void)
{
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        return (size_t)CPU_COUNT(&set);
    const long n = sysconf(_SC_NPROCESSORS_ONLN); /* used if the machine has
                                                     more CPUs than cpu_set_t
                                                     can hold */
    return n > 0 ? (size_t)n : 1;
}

/* --- one input ------------------------------------------------------------*/

/* Opens an input file in a state that later changes of the file do not affect,
   and counts its runs. Fails if the file has no run. */
static es_status open_input(es_reader **out, size_t *n_runs, const char *path)
{
    *n_runs = 0;
    es_status status = es_reader_open_held(out, path);
    if (status < 0)
        return status;
    *n_runs = es_reader_n_runs(*out);
    return *n_runs ? ES_OK : es_fail(ES_ENOTFOUND, "%s: contains no run", path);
}

static es_status read_run(const es_gather_job *job, es_reader *reader,
                          size_t index)
{
    es_run_summary *run = NULL;
    es_status status = es_summary_load(&run, reader, index, job->options);
    if (status < 0)
        return status;
    if (job->settings &&
        (status = es_run_settings_read(run, reader, index)) < 0) {
        es_summary_free(run);
        return status;
    }
    return job->sink.run(job->sink.user, run, reader, index);
}

static void read_input(const es_gather_job *job, size_t i)
{
    const es_gather_sink *sink = &job->sink;
    es_reader *reader = NULL;
    es_damaged sample;
    size_t n = 0;
    if (sink->begin)
        sink->begin(sink->user, i);
    es_status status = open_input(&reader, &n, job->inputs[i]);
    if (status < 0)
        sink->failed(sink->user, status);
    for (size_t run = 0; run < n; run++)
        if ((status = read_run(job, reader, run)) < 0)
            sink->failed(sink->user, status);
    const size_t n_damaged = reader ? es_reader_n_damaged(reader) : 0;
    for (size_t k = 0; k < n_damaged; k++)
        if (es_reader_damaged(reader, k, &sample) == ES_OK)
            sink->damaged(sink->user, es_reader_path(reader), &sample);
    if (reader && es_merge_is_behind(reader))
        sink->damaged(sink->user, es_reader_path(reader), NULL);
    es_reader_close(reader);
    if (sink->end)
        sink->end(sink->user);
}

/* --- streams --------------------------------------------------------------*/

static es_status write_run(void *stream, es_run_summary *run, es_reader *reader,
                           size_t index)
{
    const es_finding finding = {.kind = ES_FINDING_RUN, .run = run};
    const es_status status = es_finding_write(stream, &finding);
    (void)reader, (void)index;
    es_summary_free(run);
    return status;
}

static void write_failure(void *stream, es_status code)
{
    char message[ES_MESSAGE_MAX];
    const es_finding finding = {
        .kind = ES_FINDING_FAILURE, .code = code, .text = message};
    snprintf(message, sizeof message, "%s", es_message());
    (void)!es_finding_write(stream, &finding);
}

static void write_damage(void *stream, const char *path,
                         const es_damaged *sample)
{
    es_finding finding = {.kind = ES_FINDING_DAMAGE,
                          .path = (char *)(uintptr_t)path};
    if (sample) {
        finding.text = (char *)(uintptr_t)sample->series;
        finding.index = sample->run;
        finding.step = sample->step;
        finding.n_frames = sample->n_frames;
        finding.table = sample->table;
        finding.row = sample->row;
        finding.is_lost = sample->is_lost;
        finding.phase = sample->phase;
    }
    (void)!es_finding_write(stream, &finding);
}

static void write_end(void *stream)
{
    const es_finding finding = {.kind = ES_FINDING_END};
    (void)!es_finding_write(stream, &finding);
    fflush(stream); /* so that the reader of the pipe can read all results that
                       were written so far */
}

es_gather_sink es_gather_to(FILE *stream)
{
    return (es_gather_sink){.user = stream,
                            .run = write_run,
                            .failed = write_failure,
                            .damaged = write_damage,
                            .end = write_end};
}

static void hand_on(es_finding *finding, const es_gather_job *job)
{
    const es_gather_sink *sink = &job->sink;
    if (finding->kind == ES_FINDING_RUN) {
        es_run_summary *run = finding->run;
        finding->run = NULL;
        const es_status status = sink->run(sink->user, run, NULL, 0);
        if (status < 0)
            sink->failed(sink->user, status);
    } else if (finding->kind == ES_FINDING_FAILURE) {
        sink->failed(sink->user, es_fail(finding->code, "%s", finding->text));
    } else {
        const es_damaged sample = {.size = sizeof sample,
                                   .run = finding->index,
                                   .step = finding->step,
                                   .series = finding->text,
                                   .n_frames = finding->n_frames,
                                   .table = finding->table,
                                   .row = finding->row,
                                   .is_lost = finding->is_lost,
                                   .phase = finding->phase};
        sink->damaged(sink->user, finding->path,
                      finding->text ? &sample : NULL);
    }
}

es_status es_gather_from(FILE *stream, const es_gather_job *job, size_t i)
{
    es_finding finding;
    es_status status;
    bool begun = false;
    while ((status = es_finding_read(&finding, stream, job->options->rules)) ==
           ES_OK) {
        const bool is_end = finding.kind == ES_FINDING_END;
        if (!begun && job->sink.begin)
            job->sink.begin(job->sink.user, i);
        begun = true;
        if (!is_end)
            hand_on(&finding, job);
        else if (job->sink.end)
            job->sink.end(job->sink.user);
        es_finding_clear(&finding);
        if (is_end)
            return ES_OK;
    }
    es_finding_clear(&finding);
    return status == ES_DONE && begun ? es_fail(ES_EFORMAT, "damaged") : status;
}

/* --- processes ------------------------------------------------------------*/

typedef struct worker {
    const es_gather_job *job;
    es_process process;
    FILE *pipe;           /* results of the process; NULL if the caller reads
                             the files itself */
    int out;              /* file descriptor of the writing end of the pipe */
    size_t first, stride; /* indices of this worker's inputs: `first`, `first` +
                             `stride`, ... */
} worker;

static int run_worker(void *argument)
{
    static const int defaults[] = {SIGHUP, SIGINT, SIGTERM, SIGPIPE};
    const worker *w = argument;
    es_gather_job job = *w->job;
    FILE *stream = fdopen(w->out, "w");
    /* Reset the signal handlers, because those of the parent would remove the
       parent's temporary files. */
    for (size_t i = 0; i < sizeof defaults / sizeof *defaults; i++)
        signal(defaults[i], SIG_DFL);
    if (!stream)
        return 1;
    job.sink = es_gather_to(stream);
    for (size_t i = w->first; i < job.n_inputs && !ferror(stream);
         i += w->stride)
        read_input(&job, i);
    return ferror(stream) || fclose(stream) != 0;
}

/* Starts a process that reads the inputs with the indices `first`, `first` +
   stride, ... If the process cannot be started, w->pipe is NULL, and the caller
   reads the files itself. */
static void start_worker(worker *w, size_t first)
{
    int ends[2];
    w->first = first;
    w->pipe = NULL;
    if (first >= w->job->n_inputs || pipe2(ends, O_CLOEXEC) != 0)
        return;
    w->out = ends[1];
    if (es_process_fork(&w->process, run_worker, w) == 0)
        w->pipe = fdopen(ends[0], "r");
    if (!w->pipe)
        close(ends[0]);
    close(ends[1]);
}

static void stop_worker(worker *w, char *reason, size_t size)
{
    es_process_end end;
    if (!w->pipe)
        return;
    fclose(w->pipe);
    w->pipe = NULL;
    /* The process ends without a signal, either because it has written
       everything, or because writing to the closed pipe fails. */
    es_process_wait(&end, &w->process, -1);
    es_process_free(&w->process);
    if (reason)
        es_process_end_text(reason, size, &end);
}

/* Passes the results for input i to the sink. If the process that was reading
   the input has died, reports the input as failed, and a new process continues
   with the next input. */
static void read_from(worker *w, size_t i)
{
    char reason[64];
    if (!w->pipe) {
        read_input(w->job, i);
        return;
    }
    const es_status status = es_gather_from(w->pipe, w->job, i);
    if (status == ES_OK)
        return;
    stop_worker(w, reason, sizeof reason);
    w->job->sink.failed(
        w->job->sink.user,
        es_fail(ES_EIO,
                "%s: the process that was reading it was lost (%s); try again",
                w->job->inputs[i], reason));
    start_worker(w, i + w->stride);
}

enum { WORKERS_MOST = 256 };

void es_gather(const es_gather_job *job)
{
    static worker workers[WORKERS_MOST];
    size_t n = job->n_processes ? job->n_processes : es_gather_processors();
    if (n > WORKERS_MOST)
        n = WORKERS_MOST;
    if (n == 1 || job->readers || job->n_inputs < ES_GATHER_FEW) {
        for (size_t i = 0; i < job->n_inputs; i++)
            read_input(job, i);
        return;
    }
    for (size_t k = 0; k < n; k++) {
        workers[k] = (worker){.job = job, .stride = n};
        start_worker(&workers[k], k);
    }
    for (size_t i = 0; i < job->n_inputs; i++)
        read_from(&workers[i % n], i);
    for (size_t k = 0; k < n; k++)
        stop_worker(&workers[k], NULL, 0);
}
