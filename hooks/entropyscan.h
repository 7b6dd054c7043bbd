/**
 * The public header of two libraries, for C and C++:
 *
 *     libentropyrecord   records attention entropy from any training process
 *                        and computes it from weights or from queries and
 *                        keys; contains no database
 *     libentropyscan     reads run files; needs libentropyrecord and SQLite
 *
 * Link with `pkg-config --cflags --libs entropyrecord`, or entropyscan for
 * both. The installed entropyscan.h is a single file that contains all headers
 * included below. The libraries export only the functions that this file
 * declares.
 *
 *     analyzer/entropy/entropy.h   attention entropy
 *     hooks/recorder/recorder.h    recording a run
 *     store/reader.h               reading run files
 *     analyzer/base/value.h        NaN, missing and zero
 *     analyzer/base/status.h       errors
 */
#ifndef ENTROPYSCAN_H
#define ENTROPYSCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#include "analyzer/base/value.h"
#include "analyzer/entropy/entropy.h"
#include "hooks/recorder/recorder.h"
#include "store/reader.h"

#ifdef __cplusplus
}
#endif

#endif
