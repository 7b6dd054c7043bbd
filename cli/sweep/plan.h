/** The runs of a sweep: what each is called, and its command line. */
#ifndef ES_SWEEP_PLAN_H
#define ES_SWEEP_PLAN_H

#include "cli/sweep/spec.h"

#include <stdbool.h>

#define ES_SWEEP_RUNS_MOST 10000
#define ES_SWEEP_NAME_MAX 180               /* bytes of a run's name */
#define ES_SWEEP_CHECKPOINTS ".checkpoints" /* a folder: NAME and this */

typedef struct es_sweep_run {
    char *name;  /* "SM+LN+G_seed1_lr0.001": of letters, digits, "+-._" */
    char **argv; /* argv[0] the program, NULL at the end; all but --out and
                    --checkpoint, which lie in the folder */
} es_sweep_run;

typedef struct es_sweep_plan {
    es_sweep_run *runs; /* (n) names differ */
    size_t n;
} es_sweep_plan;

/**
 * Every combination, arch varying slowest, the last key of [grid] fastest. A
 * name does not depend on the other runs, so that a spec can grow.
 *
 *   out   es_sweep_plan_free, also on failure
 *
 * ES_OK; ES_EUSAGE (too many runs, a name too long, two runs of one name);
 * ES_ENOMEM.
 */
es_status es_sweep_plan_make(es_sweep_plan *out,
                             const es_sweep_spec *spec) ES_MUST_USE;

void es_sweep_plan_free(es_sweep_plan *plan);

/**
 * The plan of one run by what es_sweep_command_line said of it.
 *
 *   out   es_sweep_plan_free, also on failure
 *
 * ES_OK; ES_EFORMAT (it is no such line); ES_ENOMEM.
 */
es_status es_sweep_plan_of_line(es_sweep_plan *out, const char *name,
                                const char *line) ES_MUST_USE;

/** True if an option, with its dashes, is a word of the command line. It has
 *  --checkpoint if it has --checkpoint-every. */
bool es_sweep_run_has(const es_sweep_run *run, const char *option);

/** A run's command line as a shell would read it, to be freed; NULL: out of
 *  memory (message set). */
char *es_sweep_command_line(const es_sweep_run *run);

/** A word as a shell reads it, in quotes if need be. */
void es_sweep_print_word(FILE *stream, const char *word);

#endif
