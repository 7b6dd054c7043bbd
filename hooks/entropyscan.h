/**
 * libentropyscan: record attention entropy from any training process, read
 * run files, and compute attention entropy from weights or from queries and
 * keys. Include this one header; link with
 * `pkg-config --cflags --libs entropyscan`.
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

#include "analyzer/base/value.h"

#ifdef __cplusplus
extern "C" {
#endif

#include "analyzer/entropy/entropy.h"
#include "hooks/recorder/recorder.h"
#include "store/reader.h"

#ifdef __cplusplus
}
#endif

#endif
