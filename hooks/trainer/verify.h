/**
 * Reference cases: the parameters, inputs and expected results of one training
 * step (text "case"; arrays tokens, targets, params/, out/, grads/; with SNorm
 * also state/ and state_after/), computed elsewhere in float64. A case is a
 * folder or a file, as files/arrays.h has them.
 */
#ifndef ES_VERIFY_H
#define ES_VERIFY_H

#include "analyzer/base/status.h"
#include "hooks/trainer/files/arrays.h"
#include "hooks/trainer/model/config.h"
#include "hooks/trainer/model/ops.h"
#include <stdbool.h>
#include <stdio.h>

/** What an array may be off by. */
typedef struct es_tolerance {
    double relative, absolute;
} es_tolerance;

/**
 * Of a back-end's precision. fp32: as the reference says. Otherwise, with eps
 * the distance from 1 to the next number of the format, 32 eps of the array
 * and eps / 16 of an entry: what roundings of eps / 2 come to on the way from
 * the embedding to its gradient, also in a gradient that nearly cancels, which
 * has kept the errors of what it is the difference of.
 *
 *   fp32  1e-4     1e-6
 *   tf32  0.03125  6.1e-5   eps = 2^-10
 *   bf16  0.25     4.88e-4  eps = 2^-7
 *   fp16  0.03125  6.1e-5   eps = 2^-10
 */
es_tolerance es_verify_tolerance(es_precision precision);

/**
 * Compares an array with what it should be, in double.
 *
 *   error  written: ||got - want|| / ||want|| over the finite entries of both;
 *          the bare distance where want is all zeros; NaN if an entry is
 *          finite in only one of the two, or another kind of non-finite
 *   got    (want->n)
 *
 * True if every non-finite entry is the same in both and
 * ||got - want|| <= relative ||want|| + absolute sqrt(n), n the finite
 * entries; of an integer array every entry has to be equal.
 */
bool es_verify_close(double *error, const double *got, const es_npy *want,
                     const es_tolerance *within);

/** What became of the cases. */
typedef struct es_verify_counts {
    size_t passed, failed;
    size_t not_built; /* an architecture this back-end cannot build yet */
} es_verify_counts;

/**
 * Runs one training step, without the update, for each case, and prints a line
 * per case with its worst array, and one per array that fails; before them, on
 * a device, its name and the tolerance.
 *
 *   out        written to; the caller checks it for errors
 *   cases      (n_cases) paths of folders and files
 *   ops        the back-end: es_ops_find
 *   precision  that of ops, and of the tolerance
 *   n_threads  0: as many as there are processors to run on
 *   counts     written
 *
 * A case that cannot be read has failed, and its line says why; the others are
 * still run. ES_OK whatever the cases did; ES_EUSAGE for no case at all.
 */
es_status es_verify(FILE *out, const char *const *cases, size_t n_cases,
                    const es_ops *ops, es_precision precision, int n_threads,
                    es_verify_counts *counts) ES_MUST_USE;

/** One case in memory. */
typedef struct es_verify_case {
    es_arrays arrays; /* open; its path is borrowed */
    es_model_config config;
    es_npy tokens, targets; /* (B,T) int32 */
    bool renormalised;      /* entropies are of weights that sum to one */
} es_verify_case;

/**
 * Opens a folder or a file and reads its text, tokens and targets.
 * "renormalised": true says that entropies are those of weights that sum to
 * one, as the model has them; in other cases of PowerSoftmax they are of the
 * weights as they are. ES_OK; ES_EIO, ES_EFORMAT, ES_EUSAGE (an architecture
 * or a size that no model can have). Free it in every case.
 */
es_status es_verify_case_read(es_verify_case *out,
                              const char *path) ES_MUST_USE;
void es_verify_case_free(es_verify_case *it);

/** The entropy of weights that are as they are, from that of the same weights
 *  renormalised and the mass that is missing from them. */
double es_verify_entropy_as_is(double entropy, double missing);

/** Reads the array FOLDER/NAME. Returns as es_arrays_read. */
es_status es_verify_array_read(es_npy *out, const es_verify_case *it,
                               const char *folder,
                               const char *name) ES_MUST_USE;

#endif
