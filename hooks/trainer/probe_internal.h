/** Between probe.c and probe_polynomial.c. */
#ifndef ES_PROBE_INTERNAL_H
#define ES_PROBE_INTERNAL_H

#include "hooks/trainer/probe.h"

/** Copies what the evaluation by polynomials found, if it was one. ES_OK,
 *  ES_ENOMEM. */
es_status es_probe_take_polynomials(es_probe_result *result,
                                    const es_trainer *trainer) ES_MUST_USE;

/** Prints it, if there is any. */
void es_probe_print_polynomials(FILE *out, const es_probe_result *result);

#endif
