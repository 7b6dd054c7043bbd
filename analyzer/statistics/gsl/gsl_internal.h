/** Declarations shared by the files that call GSL. */
#ifndef ES_GSL_INTERNAL_H
#define ES_GSL_INTERNAL_H

#include <gsl/gsl_errno.h>
#include <gsl/gsl_rng.h>

/**
 * A random number generator without heap memory that always starts from the
 * same seed. es_generator_begin also turns off GSL's error handler, which would
 * abort the program.
 */
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
