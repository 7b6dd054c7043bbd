/** One training of a sweep as a process. */
#ifndef ES_SWEEP_CHILD_H
#define ES_SWEEP_CHILD_H

#include "analyzer/base/process.h"
#include "cli/sweep/plan.h"

#include <stdbool.h>

/**
 * Where the program is: `program` itself if it has a '/'; else beside this
 * program, if it is there; else by its name, which exec looks up in PATH. To
 * be freed.
 *
 * ES_OK; ES_EUSAGE (a path that cannot be executed); ES_ENOMEM.
 */
es_status es_sweep_program(char **out, const char *program) ES_MUST_USE;

/**
 * Starts a run: no shell, nothing on standard input, what it prints into
 * FOLDER/NAME.log. It gets SIGTERM if this process dies.
 *
 *   goes_on  from its last checkpoint, --resume; the log, too
 *
 * ES_OK; ES_EIO, ES_ENOMEM. A program that is not there is exit code 127.
 */
es_status es_sweep_child_start(es_process *out, const char *program,
                               const char *folder, const es_sweep_run *run,
                               bool goes_on) ES_MUST_USE;

/** False: it runs still. `why` is written: "" if the training did what it had
 *  to, even if that ended in NaN; else what it died of. Ended, it is freed. */
bool es_sweep_child_ended(char *why, size_t size, es_process *child);

#endif
