/**
 * Summaries on their way between processes: from those that read the files of
 * a scan to the one that prints, through pipes, a temporary file, or the files
 * that tasks of Slurm leave.
 *
 * What is written is for the same build of the program on the same kind of
 * machine: es_packet_head says so. A packet is its length, the CRC-32C of its
 * bytes, and those.
 */
#ifndef ES_RUN_PACKET_H
#define ES_RUN_PACKET_H

#include "cli/runs/summary.h"

#include <stdio.h>

/** What a stream says, in the order in which the inputs were read. */
typedef enum es_packet_kind {
    ES_PACKET_RUN,     /* a summary */
    ES_PACKET_FAILURE, /* a run, or its file, failed */
    ES_PACKET_DAMAGE,  /* a sample that is damaged */
    ES_PACKET_END,     /* of one input */
    ES_N_PACKET_KINDS
} es_packet_kind;

/** One of them. What is not of its kind is zero. */
typedef struct es_packet {
    es_packet_kind kind;
    es_run_summary *run; /* owned: es_summary_free; its rules are those given */
    es_status code;      /* of a failure */
    char *text;          /* owned: its message, or the damaged series */
    char *path;          /* owned: the file of a damaged sample */
    size_t index;        /* of a damaged sample: the run's in its file */
    int64_t step;
    uint64_t n_frames;
    es_phase phase;
} es_packet;

/** Frees what it owns, if anything; NULL is fine. */
void es_packet_clear(es_packet *packet);

/** Writes one; owns nothing. The caller checks the stream for errors. ES_OK;
 *  ES_ENOMEM. */
es_status es_packet_write(FILE *stream, const es_packet *packet) ES_MUST_USE;

/**
 * Reads one.
 *
 *   out    es_packet_clear, also on failure
 *   rules  of the options that the summaries were read with, or NULL
 *
 * ES_OK; ES_DONE: the stream ends here; ES_EFORMAT: within a packet, or what
 * is there is none; ES_ENOMEM.
 */
es_status es_packet_read(es_packet *out, FILE *stream,
                         const es_rules_file *rules) ES_MUST_USE;

/** What a stream that outlives the program begins with: which build it is of.
 *  Any text; the same of all programs that read each other's streams. */
const char *es_packet_head(void);

#endif
