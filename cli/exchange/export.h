/** A run as text: what import reads back bit by bit, or JSON lines. */
#ifndef ES_EXPORT_H
#define ES_EXPORT_H

#include "cli/runs/summary.h"
#include "store/reader.h"
#include <stdio.h>

typedef struct es_export_options {
    const char *const *names; /* (n_names) series to export */
    size_t n_names;           /* 0: all of them */
    es_phase_choice phase;
} es_export_options;

/**
 * Long CSV: comments with what is known of the run and its series
 * (cli/exchange/about.h), the header step,layer,head,SERIES..., and for each
 * step one row for the run, one for each layer and one for each head, where
 * there are values. An empty cell: no sample here; NA: a sample whose value is
 * missing.
 *
 *   out   the caller checks it for errors
 *
 * Attention maps ("attention_map" among the names, or no names) follow as
 * comments, one each.
 *
 * ES_OK; ES_ENOTFOUND (no such series: those that are there are named);
 * ES_EFORMAT, ES_EIO (damaged), ES_ENOMEM. Memory: one step.
 */
es_status es_export_csv(FILE *out, es_reader *reader, size_t run,
                        const es_export_options *options) ES_MUST_USE;

/**
 * JSON lines: first {"run":{...},"series":[{...}]}, then for each sample
 * {"uuid","step","series","phase","value"}: a number, (L) numbers, or (L) rows
 * of (H) numbers; null is missing, and "NaN", "inf", "-inf", "NaN(0x...)" are
 * strings. An attention map has {"uuid","step","series","phase","layer","head",
 * "ctx","value"}: rows of queries; head null: the mean over the layer's.
 * Parameters and returns as above.
 */
es_status es_export_jsonl(FILE *out, es_reader *reader, size_t run,
                          const es_export_options *options) ES_MUST_USE;

/**
 * An event file of TensorBoard: scalars entropy/layer_03/head_07 and, of their
 * measured heads, entropy/layer_03/mean (NaN if one is); x/layer_03 of a layer;
 * x of the run; eval/ before those of that phase. A missing value has no
 * scalar. The first record says what the run is; import reads all of it back.
 * Times are that of the run's start: a run file has no others.
 */
es_status es_export_events(FILE *out, es_reader *reader, size_t run,
                           const es_export_options *options) ES_MUST_USE;

/**
 * numpy's NPZ, uncompressed: for each series with samples an array of float32,
 * (n, L, H), (n, L) or (n), bit by bit as in the run file, and steps/NAME, (n)
 * int64; names have eval/ before them in that phase. run.json says what the
 * run is. Attention maps:
 * attention_map/layer_S (n, L, S, S) and head_S (n, L, H, S, S).
 * ES_EUSAGE, too: an array of 4 GiB or more.
 */
es_status es_export_npz(FILE *out, es_reader *reader, size_t run,
                        const es_export_options *options) ES_MUST_USE;

#endif
