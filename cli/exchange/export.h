/** Exports a run as CSV, which import reads back bit for bit, as JSON lines, as
 *  TensorBoard events, or as NPZ. */
#ifndef ES_EXPORT_H
#define ES_EXPORT_H

#include "cli/runs/summary.h"
#include "store/reader.h"
#include <stdio.h>

typedef struct es_export_options {
    const char *const *names; /* names of the n_names series to export;
                                 borrowed */
    size_t n_names;           /* 0: all series */
    es_phase_choice phase;
} es_export_options;

/**
 * Writes long CSV: comments that describe the run and its series
 * (cli/exchange/about.h), the header step,layer,head,SERIES..., and for each
 * step one row for the run, each layer and each head that has values. An empty
 * cell means no sample; NA is a sample whose value is missing.
 *
 * Attention maps follow as comments, one per map, if "attention_map" is among
 * the names or no names are given.
 *
 *   out   the caller checks this stream for errors
 *
 * Returns ES_OK or ES_ENOMEM, or ES_EFORMAT or ES_EIO if the run is damaged.
 * Returns ES_ENOTFOUND if the run lacks one of the series; the message then
 * lists the series of the run. Keeps one step in memory at a time.
 */
es_status es_export_csv(FILE *out, es_reader *reader, size_t run,
                        const es_export_options *options) ES_MUST_USE;

/**
 * Writes JSON lines. The first is {"run":{...},"series":[{...}]}; each sample
 * then has a line {"uuid","step","series","phase","value"}, where value is a
 * number, an array of L numbers, or L arrays of H numbers; null is a missing
 * value, and "NaN", "inf", "-inf", "NaN(0x...)" are strings. An attention map
 * has a line {"uuid","step","series","phase","layer","head","ctx","value"},
 * where value has one row per query; if head is null, value is the mean over
 * the layer's heads. Parameters and return values are those of es_export_csv.
 */
es_status es_export_jsonl(FILE *out, es_reader *reader, size_t run,
                          const es_export_options *options) ES_MUST_USE;

/**
 * Writes an event file of TensorBoard with the scalars entropy/layer_03/head_07
 * and entropy/layer_03/mean (mean of the measured heads; NaN if a head is NaN).
 * A series x of layers is written as x/layer_03, a series x of the run as x.
 * Names of the evaluation phase have the prefix eval/. For a missing value no
 * scalar is written. The first record describes the run, so that import can
 * read the file back. Every event has the start time of the run, since a run
 * file stores no other times. Parameters and return values are those of
 * es_export_csv.
 */
es_status es_export_events(FILE *out, es_reader *reader, size_t run,
                           const es_export_options *options) ES_MUST_USE;

/**
 * Writes an uncompressed NPZ file for numpy. Each series with samples is a
 * float32 array (n, L, H), (n, L) or (n) with the same bits as in the run file;
 * its steps are the int64 array steps/NAME, (n). Names of the evaluation phase
 * have the prefix eval/. run.json describes the run. Attention maps are the
 * arrays attention_map/layer_S (n, L, S, S) and attention_map/head_S (n, L, H,
 * S, S). Parameters and return values are those of es_export_csv; also returns
 * ES_EUSAGE if an array has 4 GiB or more.
 */
es_status es_export_npz(FILE *out, es_reader *reader, size_t run,
                        const es_export_options *options) ES_MUST_USE;

#endif
