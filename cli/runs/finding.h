/**
 * Summaries on their way between processes: from those that read the files of
 * a scan to the one that prints, through pipes, a temporary file, or the files
 * that tasks of Slurm leave.
 *
 * What is written is for the same build of the program on the same kind of
 * machine: es_finding_head says so. A finding is its length, the CRC-32C of its
 * bytes, and those.
 */
#ifndef ES_RUN_FINDING_H
#define ES_RUN_FINDING_H

#include "cli/runs/summary.h"

#include <stdio.h>

/** What a stream says, in the order in which the inputs were read. */
typedef enum es_finding_kind {
    ES_FINDING_RUN,     /* a summary */
    ES_FINDING_FAILURE, /* a run, or its file, failed */
    ES_FINDING_DAMAGE,  /* a sample that is damaged */
    ES_FINDING_END,     /* of one input */
    ES_N_FINDING_KINDS
} es_finding_kind;

/** One of them. What is not of its kind is zero. */
typedef struct es_finding {
    es_finding_kind kind;
    es_run_summary *run; /* owned: es_summary_free; its rules are those given */
    es_status code;      /* of a failure */
    char *text;          /* owned: its message, or the damaged series */
    char *path;          /* owned: the file of a damaged sample */
    size_t index;        /* of a damaged sample: the run's in its file */
    int64_t step;
    uint64_t n_frames;
    es_row_table table;
    int64_t row;
    bool is_lost;
    es_phase phase;
} es_finding;

/** Frees what it owns, if anything; NULL is fine. */
void es_finding_clear(es_finding *finding);

/** Writes one; owns nothing. The caller checks the stream for errors. ES_OK;
 *  ES_ENOMEM. */
es_status es_finding_write(FILE *stream, const es_finding *finding) ES_MUST_USE;

/**
 * Reads one.
 *
 *   out    es_finding_clear, also on failure
 *   rules  of the options that the summaries were read with, or NULL
 *
 * ES_OK; ES_DONE: the stream ends here; ES_EFORMAT: within a finding, or what
 * is there is none; ES_ENOMEM.
 */
es_status es_finding_read(es_finding *out, FILE *stream,
                          const es_rules_file *rules) ES_MUST_USE;

/** What a stream that outlives the program begins with: which build it is of.
 *  Any text; the same of all programs that read each other's streams. */
const char *es_finding_head(void);

#endif
