/** Shared between the files that call GSL. */
#ifndef ES_GSL_INTERNAL_H
#define ES_GSL_INTERNAL_H

#include <gsl/gsl_errno.h>
#include <gsl/gsl_rng.h>

/** A generator without memory of its own; always of one beginning. GSL ends
 *  the program on an error unless it is kept from it. */
typedef struct es_generator {
    unsigned long state[8];
    gsl_rng rng;
} es_generator;

static inline gsl_rng *es_generator_begin(es_generator *generator)
{
    gsl_set_error_handler_off();
    generator->rng = (gsl_rng){gsl_rng_taus2, generator->state};
    gsl_rng_set(&generator->rng, 1);
    return &generator->rng;
}

#endif
