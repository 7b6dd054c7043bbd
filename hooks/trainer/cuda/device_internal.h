/** Between device.cu and gemm.cu. */
#ifndef ES_CUDA_DEVICE_INTERNAL_H
#define ES_CUDA_DEVICE_INTERNAL_H

#include "hooks/trainer/cuda/device.h"

/** Whether a call of the CUDA runtime worked; else that is the device's
 *  trouble, reported with `what`. */
bool es_device_check(es_device *device, const char *what, cudaError_t code);

/** Trouble of another library, reported as "what: why". */
void es_device_trouble_text(es_device *device, const char *what,
                            const char *why);

/** What gemm.cu keeps with the device; freed by es_gemm_plans_free. */
struct es_gemm_plans **es_device_gemm_plans(es_device *device);
void es_gemm_plans_free(struct es_gemm_plans *plans); /* NULL is fine */

#endif
