/** The clock by which the server measures deadlines. */
#ifndef ES_SERVE_CLOCK_H
#define ES_SERVE_CLOCK_H

#include "analyzer/base/kernel.h"

/** Returns the time of the monotonic clock in seconds, with a resolution of a
 *  millisecond. */
static inline double es_serve_now(void)
{
    return (double)es_now_ms() / 1000;
}

#endif
