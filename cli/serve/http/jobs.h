/** Jobs: requests that are answered by separate processes. Only a few processes
 *  run at a time; the other requests wait, with their connections suspended. */
#ifndef ES_SERVE_JOBS_H
#define ES_SERVE_JOBS_H

#include "analyzer/base/process.h"
#include "cli/serve/answer.h"
#include "cli/serve/http/reply.h"
#include <poll.h>

/** Maximum number of running processes, and of jobs including those that
 *  wait. */
#define ES_SERVE_RUNNING_MOST 4
#define ES_SERVE_JOBS_MOST 128

typedef struct es_serve_job {
    struct es_serve_job *next;
    es_connection *connection;
    es_serve_request *request;
    es_serve_answering answering;
    es_process process; /* process that answers the request; its pid is 0 before
                           it starts and after it ends */
    double deadline;    /* time at which the running process is killed, in
                           seconds of the monotonic clock */
    unsigned status;    /* HTTP status of the answer; 0 until the process has
                           ended */
} es_serve_job;

typedef struct es_serve_jobs {
    es_serve_job *list; /* linked list of jobs, in the order of their arrival */
    size_t n, n_running;
    const es_rules_file *rules;
} es_serve_jobs;

/** Creates a job for a request, which the job then owns. Suspends the
 *  connection, and starts the process unless it must wait. Returns NULL if
 *  there are too many jobs or memory is short. */
es_serve_job *es_serve_jobs_add(es_serve_jobs *jobs, es_connection *connection,
                                es_serve_request *request);

/** Kills processes that take too long, resumes the connections whose answers
 *  are ready, and starts waiting jobs. */
void es_serve_jobs_step(es_serve_jobs *jobs);

/** Returns the time in seconds until es_serve_jobs_step must be called, unless
 *  a process ends earlier; INFINITY if no process is running. */
double es_serve_jobs_wait(const es_serve_jobs *jobs);

/** Fills in the descriptors that become readable when a process ends, at most
 *  ES_SERVE_RUNNING_MOST. Returns their number. */
size_t es_serve_jobs_poll(const es_serve_jobs *jobs, struct pollfd *fds);

/** Queues the answer of a job whose process has ended. */
enum MHD_Result es_serve_job_reply(es_serve_job *job);

/** Frees a job whose request is complete or whose client is gone. */
void es_serve_job_end(es_serve_jobs *jobs, es_serve_job *job);

/** Kills all processes and resumes all connections. */
void es_serve_jobs_end(es_serve_jobs *jobs);

#endif
