/** The clock that deadlines are measured with. */
#ifndef ES_CLOCK_H
#define ES_CLOCK_H

#include <stdint.h>

/** Milliseconds on the clock that only goes forward. */
int64_t es_now_ms(void);

#endif
