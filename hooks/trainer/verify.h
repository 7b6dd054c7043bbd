/**
 * Compares a back-end with reference cases. A case holds the parameters, inputs
 * and expected results of one training step, computed by another program in
 * float64. It consists of the text "case", the arrays tokens and targets, and
 * arrays with the prefixes params/, out/, grads/ and, with SNorm, state/ and
 * state_after/. A case is a folder or a file that files/arrays.h can read.
 */
#ifndef ES_VERIFY_H
#define ES_VERIFY_H

#include "analyzer/base/status.h"
#include "hooks/trainer/files/arrays.h"
#include "hooks/trainer/model/config.h"
#include "hooks/trainer/model/ops.h"
#include <stdbool.h>
#include <stdio.h>

/** Maximum error of an array: relative * norm + absolute * sqrt(number of
 *  entries). */
typedef struct es_tolerance {
    double relative, absolute;
} es_tolerance;

/**
 * Returns the tolerance for a back-end's precision. The tolerance of fp32 is
 * defined with the reference cases. In the other formats, an array may differ
 * by 32 eps times its norm plus eps / 16 per entry, where eps is the distance
 * from 1 to the next larger number. This covers the sum of all roundings of eps
 * / 2 between the embedding and its gradient, even for a gradient whose two
 * terms nearly cancel. The relative and the absolute tolerance are:
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
 *          the absolute distance if `want` is all zeros; NaN if an entry is
 *          finite in only one array, or if two corresponding non-finite entries
 *          are of different kinds
 *   got    (want->n) computed values
 *
 * Returns true if the non-finite entries are equal in both arrays and ||got -
 * want|| <= relative * ||want|| + absolute * sqrt(n), where n is the number of
 * finite entries. All entries of an integer array must be equal.
 */
bool es_verify_close(double *error, const double *got, const es_npy *want,
                     const es_tolerance *within);

/** Numbers of cases by result. */
typedef struct es_verify_counts {
    size_t passed, failed;
    size_t not_built; /* cases whose architecture the back-end cannot build */
} es_verify_counts;

/**
 * Runs one training step, without the update, for each case. On a device, first
 * prints the device's name and the tolerance. Then prints one line per case,
 * which names the array with the largest error, and one line per array that
 * fails.
 *
 *   out        written to; the caller checks it for errors
 *   cases      (n_cases) paths of folders and files
 *   ops        the back-end, from es_ops_find
 *   precision  precision of ops, which determines the tolerance
 *   n_threads  0: one for each available processor
 *   counts     written
 *
 * A case that cannot be read fails, and its line states the reason; the other
 * cases still run. Returns ES_OK whatever the results, or ES_EUSAGE without
 * cases.
 */
es_status es_verify(FILE *out, const char *const *cases, size_t n_cases,
                    const es_ops *ops, es_precision precision, int n_threads,
                    es_verify_counts *counts) ES_MUST_USE;

/** A reference case in memory. */
typedef struct es_verify_case {
    es_arrays arrays; /* the opened folder or file; its path is borrowed */
    es_model_config config;
    es_npy tokens, targets; /* (B,T) int32 */
    bool renormalised;      /* true if entropies are computed from weights that
                             * sum to one */
} es_verify_case;

/**
 * Opens a reference case, which is a folder or a file, and reads its text,
 * tokens and targets. If the text has "renormalised": true, the case's
 * entropies are computed from weights that sum to one, as in the model; in
 * other cases of PowerSoftmax they are computed from the weights that attention
 * applies. Returns ES_OK, ES_EIO, ES_EFORMAT or ES_EUSAGE; ES_EUSAGE means that
 * no model can have the architecture or a size. The caller frees the case even
 * after an error.
 */
es_status es_verify_case_read(es_verify_case *out,
                              const char *path) ES_MUST_USE;
void es_verify_case_free(es_verify_case *it);

/** Returns the entropy of the weights that attention applies, given the entropy
 *  of the renormalised weights and `missing`, 1 minus the sum of the applied
 *  weights. */
double es_verify_entropy_as_is(double entropy, double missing);

/** Reads the array FOLDER/NAME. Returns the statuses of es_arrays_read. */
es_status es_verify_array_read(es_npy *out, const es_verify_case *it,
                               const char *folder,
                               const char *name) ES_MUST_USE;

#endif
