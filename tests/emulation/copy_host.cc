/* Emulates asynchronous copies (cp.async): the copied data only arrive when the
 * thread waits for them. */
#include "hooks/trainer/cuda/mma.h"
#include "tests/emulation/host.h"

enum { MAX_COPIES = 512, COPY_BYTES = 16 };

typedef struct copy {
    void *to;
    const void *from; /* NULL: zeros */
    int group;
} copy;

/* A thread's pending copies, in the order of their start. */
typedef struct queue {
    int n, group; /* number of pending copies, and number of the group of the
                   * next copy */
    copy copies[MAX_COPIES];
} queue;

static queue queues[ES_HOST_MAX_THREADS];

void es_host_forget_copies(void)
{
    for (int i = 0; i < ES_HOST_MAX_THREADS; i++)
        queues[i].n = queues[i].group = 0;
}

void es_host_copy(void *shared, const void *from)
{
    queue *q = &queues[es_host_thread()];
    es_host_check_shared("copies to an address outside shared memory", shared,
                         COPY_BYTES);
    if (((uintptr_t)shared | (uintptr_t)from) % COPY_BYTES != 0)
        es_host_abort("copies from or to an address that is not aligned");
    if (q->n == MAX_COPIES)
        es_host_abort("never waits for its copies");
    /* A device may write the copied data at any time from now on. To reveal
     * reads that come too early, the earlier contents are overwritten with
     * NaN. */
    memset(shared, 0xff, COPY_BYTES);
    q->copies[q->n++] = {shared, from, q->group};
}

void es_host_copy_commit(void)
{
    queues[es_host_thread()].group++;
}

void es_host_copy_wait(int n_left)
{
    queue *q = &queues[es_host_thread()];
    int n = 0;
    for (; n < q->n && q->copies[n].group < q->group - n_left; n++)
        if (q->copies[n].from)
            memcpy(q->copies[n].to, q->copies[n].from, COPY_BYTES);
        else
            memset(q->copies[n].to, 0, COPY_BYTES);
    q->n -= n;
    memmove(q->copies, q->copies + n, (size_t)q->n * sizeof(copy));
}
