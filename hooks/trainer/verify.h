/**
 * Reference cases: the parameters, inputs and expected results of one training
 * step (text "case"; arrays tokens, targets, params/, out/, grads/; with SNorm
 * also state/ and state_after/), computed by another program in float64. A case
 * is a folder or a file that files/arrays.h can read.
 */
#ifndef ES_VERIFY_H
#define ES_VERIFY_H

#include "analyzer/base/status.h"
#include "hooks/trainer/files/arrays.h"
#include "hooks/trainer/model/config.h"
#include "hooks/trainer/model/ops.h"
#include <stdbool.h>
#include <stdio.h>

/** Allowed error of an array. */
typedef struct es_tolerance {
    double relative, absolute;
} es_tolerance;

/**
 * Returns the tolerance for a back-end's precision. fp32 follows the reference.
 * For the others, with eps the distance from 1 to the next number of the
 * format, an array may differ by 32 eps of its norm plus eps / 16 per entry.
 * This covers the sum of roundings of eps / 2 between the embedding and its
 * gradient, also for a gradient that nearly cancels and keeps the errors of its
 * two terms.
 *
 *   fp32  1e-4     1e-6
 *   tf32  0.03125  6.1e-5   eps = 2^-10
 *   bf16  0.25     4.88e-4  eps = 2^-7
 *   fp16  0.03125  6.1e-5   eps = 2^-10
 */
es_tolerance es_verify_tolerance(es_precision precision);

/**
 * Compares an array with its expected values, in double.
 *
 *   error  written: ||got - want|| / ||want|| over the finite entries of both;
 *          the absolute distance if want is all zeros; NaN if an entry is
 *          finite in only one of the two, or is another kind of non-finite
 *   got    (want->n)
 *
 * Returns true if every non-finite entry is the same in both and
 * ||got - want|| <= relative ||want|| + absolute sqrt(n), with n finite
 * entries; the entries of an integer array must all be equal.
 */
bool es_verify_close(double *error, const double *got, const es_npy *want,
                     const es_tolerance *within);

/** Results of the cases. */
typedef struct es_verify_counts {
    size_t passed, failed;
    size_t not_built; /* the back-end cannot build the architecture yet */
} es_verify_counts;

/**
 * Runs one training step, without the update, for each case. On a device, first
 * prints its name and the tolerance; then a line per case with its worst array,
 * and a line per array that fails.
 *
 *   out        written to; the caller checks it for errors
 *   cases      (n_cases) paths of folders and files
 *   ops        the back-end, from es_ops_find
 *   precision  of ops and of the tolerance
 *   n_threads  0: one for each available processor
 *   counts     written
 *
 * A case that cannot be read counts as failed, and its line says why; the
 * others still run. Returns ES_OK whatever the results; ES_EUSAGE without any
 * case.
 */
es_status es_verify(FILE *out, const char *const *cases, size_t n_cases,
                    const es_ops *ops, es_precision precision, int n_threads,
                    es_verify_counts *counts) ES_MUST_USE;

/** One case in memory. */
typedef struct es_verify_case {
    es_arrays arrays; /* open; the path is borrowed */
    es_model_config config;
    es_npy tokens, targets; /* (B,T) int32 */
    bool renormalised;      /* entropies refer to weights that sum to one */
} es_verify_case;

/**
 * Opens a folder or a file and reads its text, tokens and targets. With
 * "renormalised": true, entropies are those of weights that sum to one, as in
 * the model; other cases of PowerSoftmax have entropies of the weights as
 * applied. Returns ES_OK; ES_EIO, ES_EFORMAT, or ES_EUSAGE (an architecture or
 * size that no model can have). Free the case in any event.
 */
es_status es_verify_case_read(es_verify_case *out,
                              const char *path) ES_MUST_USE;
void es_verify_case_free(es_verify_case *it);

/** Returns the entropy of the applied weights, given the entropy of the
 *  renormalised weights and the mass missing from the applied ones. */
double es_verify_entropy_as_is(double entropy, double missing);

/** Reads the array FOLDER/NAME. Returns as es_arrays_read. */
es_status es_verify_array_read(es_npy *out, const es_verify_case *it,
                               const char *folder,
                               const char *name) ES_MUST_USE;

#endif
