/** The device for a call from outside, which brings its own stream and memory:
 *  of device.h only es_launch may be used with it. */
#ifndef ES_CUDA_BORROWED_H
#define ES_CUDA_BORROWED_H

extern "C" {
#include "analyzer/base/status.h"
}

struct es_device;

/** Launches go to `stream`, a cudaStream_t or NULL, of the device that is
 *  current in this thread. ES_OK; ES_ENOMEM. */
es_status es_device_borrow(es_device **out, void *stream) ES_MUST_USE;

/** Ends that, without waiting: ES_OK, or ES_EIO if a launch failed. */
es_status es_device_give_back(es_device *device) ES_MUST_USE;

#endif
