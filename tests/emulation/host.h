/** Shared by the files of the emulation: injected faults, the running thread,
 *  and checks of shared memory. */
#ifndef ES_CUDA_HOST_H
#define ES_CUDA_HOST_H

#include "hooks/trainer/cuda/device.h"
#include "tests/emulation/counts.h"

extern "C" ES_API es_host_counts es_host_counted;

enum { ES_HOST_MAX_THREADS = 1024 };

/** Faults that ENTROPY_TRAIN_EMULATION injects: words separated by commas. */
typedef struct es_host_faults {
    bool reverse;  /* run threads and blocks from the last to the first */
    long random;   /* seed that runs warps in random order; 0: in order */
    bool late;     /* a failure is only reported at the next wait */
    long fail;     /* number of the launch that fails; 0: none */
    long captured; /* the same for captured launches */
    long copy;     /* the same for a store or a load */
    long reserve;  /* number of the reservation that is refused */
    size_t memory; /* size of the device's memory in bytes */
    bool bare;     /* products cannot be fused with a bias or epilogue */
} es_host_faults;
const es_host_faults *es_host_faults_of(const es_device *device);

/** Returns the number of the running thread within its block. */
int es_host_thread(void);

/** Ends the process unless the `bytes` at `from` are in the block's shared
 *  memory. */
void es_host_check_shared(const char *what, const void *from, size_t bytes);

/** Drops copies that were never waited for, at the start of a new block. */
void es_host_forget_copies(void);

#endif
