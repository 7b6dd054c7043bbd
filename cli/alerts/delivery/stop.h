/** Asks a training run to stop. */
#ifndef ES_STOP_H
#define ES_STOP_H

#include "analyzer/base/status.h"

/**
 * Writes `line`, the reason, to PATH.stop, which makes the run's recorder stop
 * the training. The file may contain another run by now; that run is not
 * stopped.
 *
 * Returns ES_OK, ES_EIO, ES_ELOCKED or ES_ENOMEM, or ES_ENOTFOUND or ES_EFORMAT
 * if the file does not contain the run `uuid`.
 */
es_status es_stop_request(const char *path, const char *uuid,
                          const char *line) ES_MUST_USE;

#endif
