/** Declares the host's versions of the functions in mma.h. */
#ifndef ES_CUDA_MMA_HOST_H
#define ES_CUDA_MMA_HOST_H

#include <stdint.h>

void es_host_mma(float *d, const uint32_t *a, const uint32_t *b, bool bf16);
void es_host_ldmatrix(uint32_t *out, uint32_t row, bool transposed);
/** Returns the address relative to the start of the block's shared memory. Ends
 *  the process if the address is outside of it. */
uint32_t es_host_shared_address(const void *shared);

void es_host_copy(void *shared, const void *from);
void es_host_copy_commit(void);
void es_host_copy_wait(int n_left);

/** Converts the bits of a bf16 or fp16 element to f32. */
float es_host_half(uint16_t bits, bool bf16);

#endif
