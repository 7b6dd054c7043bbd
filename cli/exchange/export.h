/** Exports a run: as CSV, which import reads back bit for bit, as JSON lines,
 *  as TensorBoard events, or as NPZ. */
#ifndef ES_EXPORT_H
#define ES_EXPORT_H

#include "cli/runs/summary.h"
#include "store/reader.h"
#include <stdio.h>

typedef struct es_export_options {
    const char *const *names; /* (n_names) series to export; borrowed */
    size_t n_names;           /* 0: all series */
    es_phase_choice phase;
} es_export_options;

/**
 * Writes long CSV: comments that describe the run and its series
 * (cli/exchange/about.h), the header step,layer,head,SERIES..., and for each
 * step one row for the run, for each layer and for each head that have values.
 * An empty cell means no sample; NA is a sample whose value is missing.
 *
 *   out   the caller checks it for errors
 *
 * Attention maps ("attention_map" among the names, or no names) follow as
 * comments, one for each map.
 *
 * Returns ES_OK; ES_ENOTFOUND (no such series: the message lists those of the
 * run); ES_EFORMAT, ES_EIO (damaged); ES_ENOMEM. Memory: one step.
 */
es_status es_export_csv(FILE *out, es_reader *reader, size_t run,
                        const es_export_options *options) ES_MUST_USE;

/**
 * Writes JSON lines: first {"run":{...},"series":[{...}]}, then for each sample
 * {"uuid","step","series","phase","value"}: a number, (L) numbers, or (L) rows
 * of (H) numbers; null is a missing value, and "NaN", "inf", "-inf",
 * "NaN(0x...)" are strings. An attention map has
 * {"uuid","step","series","phase","layer","head", "ctx","value"}: rows of
 * queries; head null: the mean of the layer's heads. Parameters and returns as
 * above.
 */
es_status es_export_jsonl(FILE *out, es_reader *reader, size_t run,
                          const es_export_options *options) ES_MUST_USE;

/**
 * Writes an event file of TensorBoard: scalars entropy/layer_03/head_07, and
 * entropy/layer_03/mean of the measured heads (NaN if one is NaN); x/layer_03
 * of a layer; x of the run; with the prefix eval/ in that phase. A missing
 * value has no scalar. The first record describes the run; import reads the
 * file back. All times are that of the run's start, since a run file stores no
 * others.
 */
es_status es_export_events(FILE *out, es_reader *reader, size_t run,
                           const es_export_options *options) ES_MUST_USE;

/**
 * Writes numpy's NPZ, uncompressed: for each series with samples a float32
 * array, (n, L, H), (n, L) or (n), with the bits of the run file, and its steps
 * as steps/NAME, (n) int64; names have the prefix eval/ in that phase. run.json
 * describes the run. Attention maps are attention_map/layer_S (n, L, S, S) and
 * head_S (n, L, H, S, S). Also returns ES_EUSAGE: an array has 4 GiB or more.
 */
es_status es_export_npz(FILE *out, es_reader *reader, size_t run,
                        const es_export_options *options) ES_MUST_USE;

#endif
