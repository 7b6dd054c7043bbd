/**
 * Serialises findings: run summaries, failures and damage. Processes that read
 * files pass them to the process that prints, through pipes, a temporary file,
 * or the files of Slurm tasks.
 *
 * Only the same build of the program on the same kind of machine can read the
 * bytes; es_finding_head identifies both. A finding is written as its length,
 * the CRC-32C of its bytes, and the bytes.
 */
#ifndef ES_RUN_FINDING_H
#define ES_RUN_FINDING_H

#include "cli/runs/summary.h"

#include <stdio.h>

/** Kinds of findings. A stream has the findings of each input in the order of
 *  the inputs. */
typedef enum es_finding_kind {
    ES_FINDING_RUN,     /* the summary of a run */
    ES_FINDING_FAILURE, /* the failure of a run or a file */
    ES_FINDING_DAMAGE,  /* a damaged sample */
    ES_FINDING_END,     /* the end of an input */
    ES_N_FINDING_KINDS
} es_finding_kind;

/** A finding. Members that the kind of the finding does not use are zero. */
typedef struct es_finding {
    es_finding_kind kind;
    es_run_summary *run; /* summary; free it with es_summary_free; its rules are
                            those passed to es_finding_read */
    es_status code;      /* status of a failure */
    char *text;          /* message of a failure, or series of a damaged sample;
                            owned */
    char *path;          /* file with the damaged sample; owned */
    size_t index;        /* index of the damaged sample's run within its file */
    int64_t step;
    uint64_t n_frames;
    es_row_table table;
    int64_t row;
    bool is_lost;
    es_phase phase;
} es_finding;

/** Frees the members of a finding, which may be NULL. */
void es_finding_clear(es_finding *finding);

/** Writes a finding. The caller keeps ownership of the finding, and checks the
 *  stream for errors. Returns ES_OK or ES_ENOMEM. */
es_status es_finding_write(FILE *stream, const es_finding *finding) ES_MUST_USE;

/**
 * Reads a finding.
 *
 *   out    the caller clears it with es_finding_clear, also after a failure
 *   rules  rules file that the summaries will refer to, or NULL; borrowed
 *
 * Returns ES_OK; ES_DONE at the end of the stream; ES_EFORMAT if the stream
 * ends within a finding or the bytes are invalid; ES_ENOMEM.
 */
es_status es_finding_read(es_finding *out, FILE *stream,
                          const es_rules_file *rules) ES_MUST_USE;

/** Returns the first line of a file that stores a stream of findings. The line
 *  identifies the build of the program. Programs for which this function
 *  returns the same line can read each other's streams. */
const char *es_finding_head(void);

#endif
