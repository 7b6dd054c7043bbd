/**
 * Gives operations access to rows of activations as floats, whatever the
 * storage type. Operations read rows with es_cpu_open, compute in float32, and
 * write results with es_cpu_place and es_cpu_close. For float32 activations
 * these functions return pointers to the activations and cost nothing; for bf16
 * activations they convert through a panel, which is a buffer in the thread's
 * scratch memory.
 */
#ifndef ES_CPU_ACTIVATIONS_H
#define ES_CPU_ACTIVATIONS_H

#include "hooks/trainer/cpu/cpu.h"

/** Number of panels (conversion buffers) of a thread, and so the maximum number
 *  of rows that an operation can access at the same time. */
enum { ES_CPU_N_PANELS = 4 };

/** Number of activations that an operation processes at a time, chosen so that
 *  the panels stay in the L1 cache. A longer row is processed as a whole. */
#define ES_CPU_CHUNK 2048

/** Minimum capacity of a panel in floats. */
#define ES_CPU_LEAST_PANEL 8192

static inline float *es_cpu_panel(const es_backend *backend, es_share share,
                                  int index)
{
    return backend->panels +
           ((size_t)share.thread * ES_CPU_N_PANELS + (size_t)index) *
               backend->panel_size;
}

static inline es_bfloat *es_cpu_halves(const es_mem *memory)
{
    return (es_bfloat *)(void *)(uintptr_t)(const void *)memory;
}

/** Returns n activations of x as floats for reading, starting at element
 *  `at`. */
static inline const float *es_cpu_open(const es_backend *backend,
                                       es_share share, int index,
                                       const es_mem *x, size_t at, size_t n)
{
    if (!backend->bf16)
        return es_cpu_read(x) + at;
    float *panel = es_cpu_panel(backend, share, index);
    backend->kernels->widen(panel, es_cpu_halves(x) + at, n);
    return panel;
}

/** Returns a buffer to which the caller writes results as floats; es_cpu_close
 *  then stores them in y from element `at` on. */
static inline float *es_cpu_place(const es_backend *backend, es_share share,
                                  int index, es_mem *y, size_t at)
{
    return backend->bf16 ? es_cpu_panel(backend, share, index)
                         : es_cpu_floats(y) + at;
}

/** Returns n activations of y as floats that the caller may change, starting at
 *  element `at`; es_cpu_close stores the changed values. */
static inline float *es_cpu_change(const es_backend *backend, es_share share,
                                   int index, es_mem *y, size_t at, size_t n)
{
    if (backend->bf16)
        backend->kernels->widen(es_cpu_panel(backend, share, index),
                                es_cpu_halves(y) + at, n);
    return es_cpu_place(backend, share, index, y, at);
}

/** Stores n values of a gradient in y from element `at` on. The caller has
 *  written the values to the memory that es_cpu_place or es_cpu_change
 *  returned. */
static inline void es_cpu_close_gradient(const es_backend *backend, es_mem *y,
                                         size_t at, const float *values,
                                         size_t n)
{
    if (backend->bf16)
        backend->kernels->narrow(es_cpu_halves(y) + at, values, n);
}

/** Same as es_cpu_close_gradient, for an activation: first rounds the values to
 *  the precision of activations. */
static inline void es_cpu_close(const es_backend *backend, es_mem *y, size_t at,
                                float *values, size_t n)
{
    es_cpu_round(backend, values, n);
    es_cpu_close_gradient(backend, y, at, values, n);
}

/** Returns how many of n activations an operation processes at a time. */
static inline size_t es_cpu_piece(const es_backend *backend, size_t n)
{
    return !backend->bf16 || n < ES_CPU_CHUNK ? n : ES_CPU_CHUNK;
}

/** Divides a range of rows into parts that an operation processes one at a
 *  time. Returns the part of `slab` that begins with row `first`, for rows of
 *  `width` activations; it has 0 rows after the end of the slab. Float32 rows
 *  are not copied to a panel, and their number (except in the last part) is a
 *  multiple of the vector length. */
static inline es_slab es_cpu_chunk_from(const es_backend *backend, es_slab slab,
                                        int first, int width)
{
    const int unit = backend->bf16 ? 1 : ES_CPU_MAX_LANES;
    const int fit = ES_CPU_CHUNK / width / unit * unit;
    const int most = fit > 0 ? fit : unit;
    const int n = slab.first + slab.n - first;
    return (es_slab){first, n < most ? n : most};
}

#define ES_CPU_EACH_CHUNK(rows, backend, slab, width)                          \
    for (es_slab rows = es_cpu_chunk_from(backend, slab, (slab).first, width); \
         rows.n > 0;                                                           \
         rows = es_cpu_chunk_from(backend, slab, rows.first + rows.n, width))

#endif
