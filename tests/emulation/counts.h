/** What the emulation has been requested to do, for tests to count. */
#ifndef ES_CUDA_HOST_COUNTS_H
#define ES_CUDA_HOST_COUNTS_H

/** Of all devices since the library was loaded. */
typedef struct es_host_counts {
    long captures; /* sequences that were captured */
    long replays;  /* and run */
    long loose;    /* launches that ran on their own */
    long stores, loads;
    long again; /* launches that did flagged rows again (attention.h) */
} es_host_counts;

/** What the library exports it as. */
#define ES_HOST_COUNTS_NAME "es_host_counted"

#endif
