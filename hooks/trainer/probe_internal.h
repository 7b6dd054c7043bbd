/** Functions for the results of --inference polynomial, which probe.c calls and
 *  probe_polynomial.c defines. */
#ifndef ES_PROBE_INTERNAL_H
#define ES_PROBE_INTERNAL_H

#include "hooks/trainer/probe.h"

/** Copies the polynomials' results to `result` if the evaluation used
 *  polynomials. Returns ES_OK or ES_ENOMEM. */
es_status es_probe_take_polynomials(es_probe_result *result,
                                    const es_trainer *trainer) ES_MUST_USE;

/** Prints the polynomials' results, if `result` has any. */
void es_probe_print_polynomials(FILE *out, const es_probe_result *result);

#endif
