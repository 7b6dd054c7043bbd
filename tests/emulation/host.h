/** Declarations shared by the files of the emulation: injected faults, the
 *  number of the running thread, and checks of addresses in shared memory. */
#ifndef ES_CUDA_HOST_H
#define ES_CUDA_HOST_H

#include "hooks/trainer/cuda/device.h"
#include "tests/emulation/counts.h"

extern "C" ES_API es_host_counts es_host_counted;

enum { ES_HOST_MAX_THREADS = 1024 };

/** Injected faults, requested by comma-separated words in
 *  ENTROPY_TRAIN_EMULATION. */
typedef struct es_host_faults {
    bool reverse;  /* run blocks and threads from the last to the first */
    long random;   /* seed for a random order of warps; 0 for a fixed order */
    bool late;     /* report a failure at the next wait instead of at once */
    long fail;     /* index, from 1, of the launch that fails; 0 for none */
    long captured; /* index of the captured launch that fails; 0 for none */
    long copy;     /* index of the copy to or from the device that fails; 0 for
                      none */
    /* index, from 1, of the memory reservation that is refused; 0 for none */
    long reserve;
    size_t memory; /* size of the device's memory in bytes */
    bool bare;     /* refuse to fuse biases and epilogues into products */
} es_host_faults;
const es_host_faults *es_host_faults_of(const es_device *device);

/** Returns the number of the running thread within its block. */
int es_host_thread(void);

/** Ends the process with the message `what` unless all `bytes` bytes at `from`
 *  lie in the block's shared memory. */
void es_host_check_shared(const char *what, const void *from, size_t bytes);

/** Discards asynchronous copies for which no thread has waited. Called at the
 *  start of each block. */
void es_host_forget_copies(void);

#endif
