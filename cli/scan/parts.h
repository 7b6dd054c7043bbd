/**
 * A scan by an array of tasks of Slurm: `summarise DIR --slurm`. The folder of
 * `--work` holds the list of the files, the batch script, the job's number,
 * what each task found (part-K), and what it printed (slurm-JOB_K.out). Parts
 * that are there stay from one try to the next, as long as neither the list nor
 * the command line changes; when all have been joined, the folder is removed.
 */
#ifndef ES_SCAN_PARTS_H
#define ES_SCAN_PARTS_H

#include "cli/runs/gather.h"
#include "cli/scan/scan.h"

/**
 * Submits the tasks whose parts are not there, and waits for them.
 *
 * ES_OK: all parts are there; ES_ENOTFOUND: no sbatch; ES_EIO: sbatch refuses,
 * a task left no part (a line for each on standard error), the folder cannot be
 * written; ES_ELOCKED: the job of an earlier try is at work; ES_EUSAGE,
 * ES_ENOMEM.
 */
es_status es_parts_submit(const es_scan_options *options) ES_MUST_USE;

/** Hands what the parts say to the job's sink, in the order of its inputs.
 *  ES_OK; ES_EIO, ES_EFORMAT: a part that is not one. */
es_status es_parts_join(const es_scan_options *options,
                        const es_gather_job *job) ES_MUST_USE;

/** Removes what es_parts_submit made. */
void es_parts_remove(const es_scan_options *options);

/** What a task does: reads the files of part `options->part`, and writes it.
 *  ES_OK; ES_EIO, ES_EFORMAT, ES_ENOMEM. */
es_status es_parts_run(const es_scan_options *options) ES_MUST_USE;

#endif
