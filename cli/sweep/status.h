/** `sweep --status`: the state of a sweep, read from its folder. */
#ifndef ES_SWEEP_STATUS_H
#define ES_SWEEP_STATUS_H

#include "cli/alerts/rules/rules_file.h"

#include <stdio.h>

/**
 * The table of all runs of a folder, how many there are of each stage, and of
 * those that broke or were lost the last lines that they left. Slurm's queue
 * is queried if runs were submitted to it and it is there.
 *
 *   n_failed  written: run files that could not be read, which is reported
 *   rules     what runs are judged by; NULL: the default thresholds
 *
 * ES_OK; ES_EIO, ES_ENOMEM. The caller checks the stream.
 */
es_status es_sweep_print_status(FILE *stream, size_t *n_failed,
                                const char *folder,
                                const es_rules_file *rules) ES_MUST_USE;

#endif
