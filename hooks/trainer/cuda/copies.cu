/* Keeps copies of the model's weights in the precision of matrix products: one
 * copy per array that the model registers, renewed when the weights have
 * changed. Products in float32 and tf32 need no copies because they read the
 * weights themselves. */
#include "hooks/trainer/cuda/reduce.h"

#include <stdlib.h>

struct es_cuda_copies {
    es_cuda_copies *next;
    const float *weights; /* the model's n weights in float32 */
    size_t n;
    void *copy; /* the same n weights in the precision of matrix products */
};

/* Returns the list entry for the array that contains the address `weights`, or
 * NULL. */
static const es_cuda_copies *find_copy(const es_backend *backend,
                                       const es_mem *weights)
{
    const float *at = es_at<float>(weights);
    const es_cuda_copies *c = backend->copies;
    while (c && !(at >= c->weights && at < c->weights + c->n))
        c = c->next;
    return c;
}

/* Returns the address in the 16-bit copy that corresponds to the address
 * `weights` in the float32 array. */
static char *address_in(const es_cuda_copies *entry, const es_mem *weights)
{
    const size_t at = (size_t)(es_at<float>(weights) - entry->weights);
    return (char *)entry->copy + at * sizeof(uint16_t);
}

const es_mem *es_cuda_weights(const es_backend *backend, const es_mem *weights,
                              bool *is_copy)
{
    const es_cuda_copies *c = find_copy(backend, weights);
    *is_copy = c != NULL;
    return c ? (const es_mem *)(const void *)address_in(c, weights) : weights;
}

template <class A>
__global__ void convert_kernel(A *out, const float *in, size_t n_packs,
                               size_t n)
{
    es_begin_kernel();
    constexpr int lanes = es_lanes<A>;
    for (size_t i = es_thread(); i < n_packs; i += es_all_threads()) {
        float values[lanes];
        es_load(values, in + i * lanes);
        es_store(out + i * lanes, values);
    }
    for (size_t i = n_packs * lanes + es_thread(); i < n; i += es_all_threads())
        out[i] = es_act_of<A>(in[i]);
}

template <class A>
static void refresh_copy(es_backend *backend, const es_mem *weights, size_t n)
{
    const es_cuda_copies *c = find_copy(backend, weights);
    if (!c || n == 0)
        return;
    A *out = (A *)(void *)address_in(c, weights);
    const size_t n_packs = es_packs_fit(out, weights) ? n / es_lanes<A> : 0;
    const size_t n_items = n_packs > 0 ? n_packs : n;
    es_launch(backend->device, "convert", convert_kernel<A>,
              es_blocks(backend, n_items, ES_THREADS, 8), ES_THREADS, 0, out,
              es_at<float>(weights), n_packs, n);
}

/* Frees the copy of the weights that begin at this address. Does nothing if
 * there is no copy. */
static void drop_copy(es_backend *backend, const float *weights)
{
    es_cuda_copies **link = &backend->copies;
    while (*link && (*link)->weights != weights)
        link = &(*link)->next;
    es_cuda_copies *old = *link;
    if (!old)
        return;
    *link = old->next;
    es_device_release(backend->device, old->copy);
    free(old);
}

void es_cuda_drop_copies(es_backend *backend)
{
    while (backend->copies)
        drop_copy(backend, backend->copies->weights);
}

template <class A>
static es_status keep_copy(es_backend *backend, const es_mem *weights, size_t n)
{
    drop_copy(backend, es_at<float>(weights));
    if (n == 0)
        return ES_OK;
    es_cuda_copies *added = (es_cuda_copies *)calloc(1, sizeof *added);
    if (!added)
        return es_fail(ES_ENOMEM, "out of memory for the CUDA back-end");
    es_status status =
        es_device_reserve(backend->device, &added->copy, n * sizeof(A));
    if (status != ES_OK) {
        free(added);
        return status;
    }
    added->weights = es_at<float>(weights);
    added->n = n;
    added->next = backend->copies;
    backend->copies = added;
    refresh_copy<A>(backend, weights, n);
    return ES_OK;
}

template <class A>
void es_cuda_copy_ops(es_ops *ops)
{
    if (sizeof(A) == sizeof(float))
        return;
    ops->keep = keep_copy<A>;
    ops->refresh = refresh_copy<A>;
}
ES_OF_ACTIVATIONS(es_cuda_copy_ops)
