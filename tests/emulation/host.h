/** Between the files of the emulation. */
#ifndef ES_CUDA_HOST_H
#define ES_CUDA_HOST_H

#include "hooks/trainer/cuda/device.h"
#include "tests/emulation/counts.h"

extern "C" ES_API es_host_counts es_host_counted;

enum { ES_HOST_MAX_THREADS = 1024 };

/** What ENTROPY_TRAIN_EMULATION injects, words with commas between them. */
typedef struct es_host_faults {
    bool reverse;  /* threads and blocks from the last to the first */
    long random;   /* warps take turns at random, by this seed; 0: not */
    bool late;     /* a failure is not noticed before it is waited for */
    long fail;     /* the launch of this number fails; 0: none */
    long captured; /* likewise one that is captured */
    long copy;     /* likewise a store or a load */
    long reserve;  /* the reservation of this number is refused */
    size_t memory; /* bytes that the device has */
    bool bare;     /* products are not had with a bias or an epilogue */
} es_host_faults;
const es_host_faults *es_host_faults_of(const es_device *device);

/** The number of the thread that runs within its block. */
int es_host_thread(void);

/** Ends the process unless bytes .. are shared memory of the block. */
void es_host_check_shared(const char *what, const void *from, size_t bytes);

/** Drops copies that nobody waited for: a new block begins. */
void es_host_forget_copies(void);

#endif
