/* One clock for every deadline: it never goes back, whatever is done to the
   time of day. */
#include "analyzer/base/clock.h"

#include <time.h>

int64_t es_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * INT64_C(1000) + now.tv_nsec / 1000000;
}
