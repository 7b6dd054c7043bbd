/** Answers a request in a separate process, so that the server never waits for
 *  a damaged file, a large figure or a slow disk. */
#ifndef ES_SERVE_ANSWER_H
#define ES_SERVE_ANSWER_H

#include "cli/alerts/rules/rules_file.h"
#include "cli/serve/request.h"

typedef struct es_serve_answering {
    const es_serve_request *request;
    const es_rules_file *rules; /* rules of the user; borrowed; may be NULL */
    int fd;                     /* file that receives the answer or, after a
                                   failure, the reason */
} es_serve_answering;

/** Exit codes of the process if it fails. */
enum {
    ES_ANSWER_FAILED = 1,
    ES_ANSWER_WRONG,   /* the request is invalid */
    ES_ANSWER_NOTHING, /* the run, series or figure does not exist */
    ES_ANSWER_CONFLICT /* the run is not being written */
};

/** The main function of the process, for es_process_fork. `argument` is an
 *  es_serve_answering. */
int es_serve_answer(void *argument);

#endif
