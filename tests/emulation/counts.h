/** Counts the work of the emulation, for tests. */
#ifndef ES_CUDA_HOST_COUNTS_H
#define ES_CUDA_HOST_COUNTS_H

/** Totals of all devices since the library was loaded. */
typedef struct es_host_counts {
    long captures; /* captured sequences */
    long replays;  /* replayed sequences */
    long loose;    /* launches outside of captured sequences */
    long stores, loads;
    long again; /* launches that recomputed flagged rows (attention.h) */
} es_host_counts;

/** The name of the symbol under which the library exports the counts. */
#define ES_HOST_COUNTS_NAME "es_host_counted"

#endif
