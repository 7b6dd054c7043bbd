/**
 * Counts of the emulation's operations, by which tests check how the back-end
 * uses a device.
 */
#ifndef ES_CUDA_HOST_COUNTS_H
#define ES_CUDA_HOST_COUNTS_H

/** Totals of all devices since the library was loaded. */
typedef struct es_host_counts {
    long captures; /* captured sequences */
    long replays;  /* replayed sequences */
    long loose;    /* launches outside of captured sequences */
    long stores, loads;
    long again; /* launches of the exact kernels that had inaccurate rows to
                   recompute */
} es_host_counts;

/** Name of the symbol under which the emulation's library exports the
 *  counts. */
#define ES_HOST_COUNTS_NAME "es_host_counted"

#endif
