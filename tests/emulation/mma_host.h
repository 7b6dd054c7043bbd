/** The host's implementation of the intrinsics that mma.h declares. */
#ifndef ES_CUDA_MMA_HOST_H
#define ES_CUDA_MMA_HOST_H

#include <stdint.h>

void es_host_mma(float *d, const uint32_t *a, const uint32_t *b, bool bf16);
void es_host_ldmatrix(uint32_t *out, uint32_t row, bool transposed);
/** Returns the address relative to the block's shared memory. */
uint32_t es_host_shared_address(const void *shared);

void es_host_copy(void *shared, const void *from);
void es_host_copy_commit(void);
void es_host_copy_wait(int n_left);

/** Returns a bf16 or fp16 element as f32. */
float es_host_half(uint16_t bits, bool bf16);

#endif
