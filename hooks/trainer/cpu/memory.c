/* Reserves memory for the CPU back-end, and keeps bf16 copies of the weights
 * for matrix products: one copy per array that the model registers, renewed
 * when the weights have changed. The float32 back-end needs no copies because
 * its products read the weights themselves. */
#include "hooks/trainer/cpu/cpu.h"

#include "analyzer/base/checked.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ALIGNMENT 64

/* Returns true if `bytes` exceeds the machine's memory. The operating system
 * would grant a request of this size, but kill the process when it uses the
 * memory. */
static bool exceeds_machine(size_t bytes)
{
    long pages = sysconf(_SC_PHYS_PAGES), size = sysconf(_SC_PAGESIZE);
    return pages > 0 && size > 0 && bytes / (size_t)size >= (size_t)pages;
}

void *es_cpu_reserve(size_t n, size_t size)
{
    size_t bytes, padded;
    if (!es_size_mul(&bytes, n, size) ||
        !es_size_add(&padded, bytes, ALIGNMENT - 1) || exceeds_machine(padded))
        return NULL;
    padded = padded / ALIGNMENT * ALIGNMENT;
    void *memory = aligned_alloc(ALIGNMENT, padded ? padded : ALIGNMENT);
    if (memory)
        memset(memory, 0, padded);
    return memory;
}

/* --- copies of weights --------------------------------------------------- */

struct es_cpu_copies {
    es_cpu_copies *next;
    const es_mem *weights; /* the model's n weights in float32 */
    size_t n;
    es_bfloat *copy; /* (n) */
};

/* Returns the list entry for the array that contains the address `weights`, or
 * NULL. */
static const es_cpu_copies *find_copy(const es_backend *backend,
                                      const es_mem *weights)
{
    const es_cpu_copies *c = backend->copies;
    while (c && !(es_cpu_read(weights) >= es_cpu_read(c->weights) &&
                  es_cpu_read(weights) < es_cpu_read(c->weights) + c->n))
        c = c->next;
    return c;
}

const es_bfloat *es_cpu_copy_of(const es_backend *backend,
                                const es_mem *weights)
{
    const es_cpu_copies *c = find_copy(backend, weights);
    return c ? c->copy + (es_cpu_read(weights) - es_cpu_read(c->weights))
             : NULL;
}

static void drop_copy(es_backend *backend, const es_mem *weights)
{
    es_cpu_copies **link = &backend->copies;
    while (*link && (*link)->weights != weights)
        link = &(*link)->next;
    es_cpu_copies *old = *link;
    if (old) {
        *link = old->next;
        free(old->copy);
        free(old);
    }
}

void es_cpu_drop_copies(es_backend *backend)
{
    while (backend->copies)
        drop_copy(backend, backend->copies->weights);
}

es_status es_cpu_keep(es_backend *backend, const es_mem *weights, size_t n)
{
    drop_copy(backend, weights);
    if (n == 0)
        return ES_OK;
    es_cpu_copies *added = calloc(1, sizeof *added);
    es_bfloat *copy = es_cpu_reserve(n, sizeof *copy);
    if (!added || !copy) {
        free(added);
        free(copy);
        return es_fail(ES_ENOMEM,
                       "out of memory: cannot keep a bf16 copy of %zu weights",
                       n);
    }
    *added = (es_cpu_copies){backend->copies, weights, n, copy};
    backend->copies = added;
    es_cpu_refresh(backend, weights, n);
    return ES_OK;
}

typedef struct job {
    const es_backend *backend;
    es_bfloat *out;
    const float *in;
    size_t n;
} job;

static void refresh_part(void *argument, es_share share)
{
    const job *j = argument;
    size_t first, end;
    es_cpu_span(&first, &end, share, j->n, 32);
    if (first < end)
        j->backend->kernels->narrow(j->out + first, j->in + first, end - first);
}

void es_cpu_refresh(es_backend *backend, const es_mem *weights, size_t n)
{
    /* the back-end owns the copies, so it may write to them */
    job j = {backend, (es_bfloat *)es_cpu_copy_of(backend, weights),
             es_cpu_read(weights), n};
    if (j.out)
        es_team_run(backend->team, refresh_part, &j);
}
