/**
 * Runs a scan as an array of Slurm tasks: `summarise DIR --slurm`. The folder
 * of `--work` contains the list of the files, the batch script, the job's
 * number, the findings of each task (part-K) and its log (slurm-JOB_K.out). If
 * an attempt fails, the next attempt reuses the existing parts, unless the list
 * or the command line has changed. The folder is removed after all parts have
 * been joined.
 */
#ifndef ES_SCAN_PARTS_H
#define ES_SCAN_PARTS_H

#include "cli/runs/gather.h"
#include "cli/scan/scan.h"

/**
 * Submits the tasks whose parts are missing, and waits for them.
 *
 * Returns ES_OK if all parts exist; ES_ENOTFOUND if sbatch is not installed;
 * ES_EIO if sbatch failed, if tasks wrote no part (reported with one line per
 * task on standard error), or if the folder cannot be written; ES_ELOCKED if
 * the job of an earlier attempt is still running; ES_EUSAGE; ES_ENOMEM.
 */
es_status es_parts_submit(const es_scan_options *options) ES_MUST_USE;

/** Reads the findings that the tasks have written, and passes them to the job's
 *  sink in the order of the job's inputs. Returns ES_OK, ES_EIO, ES_ENOMEM, or
 *  ES_EFORMAT if a task's file does not belong to this summary. */
es_status es_parts_join(const es_scan_options *options,
                        const es_gather_job *job) ES_MUST_USE;

/** Removes the files that es_parts_submit and its tasks created, and the work
 *  folder. */
void es_parts_remove(const es_scan_options *options);

/** Runs one task: summarises the files of part `options->part` and writes this
 *  part. Returns ES_OK, ES_EIO, ES_EFORMAT or ES_ENOMEM. */
es_status es_parts_run(const es_scan_options *options) ES_MUST_USE;

#endif
