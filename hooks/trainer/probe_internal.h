/** Functions for the results of --inference polynomial, which probe.c calls and
 *  probe_polynomial.c defines. */
#ifndef ES_PROBE_INTERNAL_H
#define ES_PROBE_INTERNAL_H

#include "hooks/trainer/probe.h"

/** Copies the results of polynomial inference to `result` if the evaluation
 *  used polynomials. Returns ES_OK or ES_ENOMEM. */
es_status es_probe_take_polynomials(es_probe_result *result,
                                    const es_trainer *trainer) ES_MUST_USE;

/** Prints the results of polynomial inference, if `result` has any. */
void es_probe_print_polynomials(FILE *out, const es_probe_result *result);

#endif
