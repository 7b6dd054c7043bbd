/* Runs the processes that answer requests with the contents of run files. */
#include "cli/serve/http/jobs.h"

#include "analyzer/base/kernel.h"
#include "cli/figures/figures.h"
#include "cli/serve/http/clock.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* Time in seconds after which a process is killed, and interval at which
 * processes without a pidfd are checked for their end. */
#define SECONDS_MOST 30
#define LOOK 0.05

static void finish(es_serve_job *job, unsigned status)
{
    job->status = status;
    es_mhd.resume_connection(job->connection);
}

static void start(es_serve_jobs *jobs, es_serve_job *job)
{
    es_serve_answering *answering = &job->answering;
    answering->fd = memfd_create("answer", MFD_CLOEXEC);
    if (answering->fd < 0 ||
        es_process_fork(&job->process, es_serve_answer, answering) != 0) {
        finish(job, MHD_HTTP_SERVICE_UNAVAILABLE);
        return;
    }
    job->deadline = es_serve_now() + SECONDS_MOST;
    jobs->n_running++;
}

static unsigned status_of(const es_process_end *end)
{
    static const unsigned statuses[] = {
        [0] = MHD_HTTP_OK,
        [ES_ANSWER_FAILED] = MHD_HTTP_INTERNAL_SERVER_ERROR,
        [ES_ANSWER_WRONG] = MHD_HTTP_BAD_REQUEST,
        [ES_ANSWER_NOTHING] = MHD_HTTP_NOT_FOUND,
        [ES_ANSWER_CONFLICT] = MHD_HTTP_CONFLICT};
    if (end->lost || end->signal || end->code < 0 ||
        (size_t)end->code >= sizeof statuses / sizeof *statuses)
        return MHD_HTTP_INTERNAL_SERVER_ERROR;
    return statuses[end->code];
}

/* Kills a job's process if it has exceeded its time limit, and handles its
   end. */
static void look_after(es_serve_jobs *jobs, es_serve_job *job)
{
    es_process_end end;
    const bool late = job->deadline <= es_serve_now();
    if (late)
        es_process_signal(&job->process, SIGKILL);
    if (!es_process_wait(&end, &job->process, late ? -1 : 0))
        return;
    es_process_free(&job->process);
    job->process.pid = 0;
    jobs->n_running--;
    finish(job, late || end.signal == SIGXCPU ? MHD_HTTP_GATEWAY_TIMEOUT
                                              : status_of(&end));
}

static void start_waiting(es_serve_jobs *jobs)
{
    for (es_serve_job *job = jobs->list;
         job && jobs->n_running < ES_SERVE_RUNNING_MOST; job = job->next)
        if (!job->process.pid && !job->status)
            start(jobs, job);
}

void es_serve_jobs_step(es_serve_jobs *jobs)
{
    for (es_serve_job *job = jobs->list; job; job = job->next)
        if (job->process.pid)
            look_after(jobs, job);
    start_waiting(jobs);
}

double es_serve_jobs_wait(const es_serve_jobs *jobs)
{
    double wait = INFINITY;
    for (const es_serve_job *job = jobs->list; job; job = job->next)
        if (job->process.pid)
            wait =
                fmin(wait, job->process.watched ? job->deadline - es_serve_now()
                                                : LOOK);
    return wait;
}

es_serve_job *es_serve_jobs_add(es_serve_jobs *jobs, es_connection *connection,
                                es_serve_request *request)
{
    es_serve_job *job =
        jobs->n < ES_SERVE_JOBS_MOST ? calloc(1, sizeof *job) : NULL;
    es_serve_job **last = &jobs->list;
    if (!job)
        return NULL;
    *job = (es_serve_job){
        .connection = connection,
        .request = request,
        .answering = {.request = request, .rules = jobs->rules, .fd = -1}};
    while (*last)
        last = &(*last)->next;
    *last = job;
    jobs->n++;
    es_mhd.suspend_connection(connection);
    start_waiting(jobs);
    return job;
}

size_t es_serve_jobs_poll(const es_serve_jobs *jobs, struct pollfd *fds)
{
    size_t n = 0;
    for (const es_serve_job *job = jobs->list; job && n < ES_SERVE_RUNNING_MOST;
         job = job->next)
        if (job->process.pid)
            fds[n++] =
                (struct pollfd){.fd = job->process.handle.fd, .events = POLLIN};
    return n;
}

static const char *type_of(const es_serve_request *request)
{
    if (request->ask == ES_SERVE_EXPORT)
        return "text/csv; charset=utf-8";
    if (request->ask == ES_SERVE_STOP)
        return "application/json";
    if (request->ask != ES_SERVE_DRAW)
        return "application/octet-stream";
    return request->format == ES_FORMAT_SVG   ? "image/svg+xml"
           : request->format == ES_FORMAT_PNG ? "image/png"
                                              : "application/pdf";
}

/* Adds the header with the file name under which a browser saves the answer. */
static void name_file(es_response *response, const es_serve_request *request)
{
    char text[96];
    if (request->ask == ES_SERVE_EXPORT)
        snprintf(text, sizeof text, "attachment; filename=\"series.csv\"");
    else
        snprintf(text, sizeof text, "inline; filename=\"%s.%s\"",
                 es_figure_name(request->figures[0]),
                 es_format_name((es_format)request->format));
    es_mhd.add_response_header(response, "Content-Disposition", text);
}

/* Answers with an error, whose text is the reason that the process has
   written. */
static enum MHD_Result reply_failure(es_serve_job *job)
{
    char reason[ES_MESSAGE_MAX] = "";
    ssize_t n = 0;
    if (job->status != MHD_HTTP_GATEWAY_TIMEOUT && job->answering.fd >= 0)
        n = pread(job->answering.fd, reason, sizeof reason - 1, 0);
    reason[n > 0 ? n : 0] = '\0';
    return es_reply_error(job->connection, job->status,
                          job->status == MHD_HTTP_GATEWAY_TIMEOUT
                              ? "the answer took too long: select fewer runs"
                          : reason[0] ? reason
                                      : "the request could not be answered");
}

enum MHD_Result es_serve_job_reply(es_serve_job *job)
{
    struct stat about;
    const int fd = job->answering.fd;
    if (job->status != MHD_HTTP_OK)
        return reply_failure(job);
    if (fstat(fd, &about) != 0)
        return MHD_NO;
    es_response *response = es_reply_guard(
        es_mhd.create_response_from_fd((size_t)about.st_size, fd));
    if (!response)
        return MHD_NO;
    job->answering.fd = -1; /* the response now owns the descriptor and closes
                               it */
    es_mhd.add_response_header(response, "Content-Type", type_of(job->request));
    es_mhd.add_response_header(response, "Cache-Control", "no-store");
    es_mhd.add_response_header(response, "Content-Security-Policy",
                               "default-src 'none'; style-src "
                               "'unsafe-inline'; sandbox; frame-ancestors "
                               "'none'");
    if (job->request->ask == ES_SERVE_DRAW ||
        job->request->ask == ES_SERVE_EXPORT)
        name_file(response, job->request);
    return es_reply_queue(job->connection, MHD_HTTP_OK, response);
}

static void kill_process(es_serve_jobs *jobs, es_serve_job *job)
{
    es_process_end end;
    if (!job->process.pid)
        return;
    es_process_signal(&job->process, SIGKILL);
    es_process_wait(&end, &job->process, -1);
    es_process_free(&job->process);
    job->process.pid = 0;
    jobs->n_running--;
}

void es_serve_job_end(es_serve_jobs *jobs, es_serve_job *job)
{
    es_serve_job **at = &jobs->list;
    while (*at != job)
        at = &(*at)->next;
    *at = job->next;
    jobs->n--;
    kill_process(jobs, job);
    if (job->answering.fd >= 0)
        close(job->answering.fd);
    es_serve_request_free(job->request);
    free(job);
}

void es_serve_jobs_end(es_serve_jobs *jobs)
{
    for (es_serve_job *job = jobs->list; job; job = job->next)
        if (!job->status) {
            kill_process(jobs, job);
            finish(job, MHD_HTTP_SERVICE_UNAVAILABLE);
        }
}
