/** `--textfile`: what a watcher knows, as OpenMetrics text for a collector. */
#ifndef ES_METRICS_H
#define ES_METRICS_H

#include "cli/alerts/watch/run_files.h"
#include "store/ledger.h"

/** Writes the file anew, whole or not at all. ES_OK or ES_EIO, ES_ENOMEM. */
es_status es_metrics_write(const char *path, const es_watch_files *files,
                           const es_ledger_counts *counts) ES_MUST_USE;

#endif
