/* Emulates the launch of a CUDA kernel on the CPU. The threads of a block run
 * as fibers, and blocks run one after another. The process ends with an error
 * if threads wait at different barriers. */
#include "hooks/trainer/cuda/kernel.h"
#include "tests/emulation/fiber.h"
#include "tests/emulation/host.h"

#include <stdio.h>
#include <stdlib.h>

uint3 threadIdx, blockIdx;
dim3 blockDim, gridDim;

typedef enum place { RUNS, AT_WARP, AT_BLOCK, ENDED } place;

typedef struct thread {
    es_fiber *fiber;
    place where;
    const char *what; /* name of the barrier at which the thread waits */
    int line;
    unsigned n_exchanges;
    void (*together)(unsigned char *slots);
} thread;

/* Data that the lanes of a warp exchange. There are two sets of slots, since a
 * lane may already write data for the next exchange while other lanes still
 * read. */
typedef struct warp {
    alignas(16) unsigned char slots[2][warpSize * ES_HOST_SLOT];
} warp;

static struct block {
    const es_host_shape *shape;
    bool reverse;
    uint64_t chance; /* state of the random number generator that draws the
                        order of the threads; 0 if the order is fixed */
    unsigned char *shared;
    thread threads[ES_HOST_MAX_THREADS];
    warp warps[ES_HOST_MAX_THREADS / warpSize];
} block;

/* --- a thread's variables ------------------------------------------------- */

int es_host_thread(void)
{
    return (int)threadIdx.x;
}

int es_host_lane(void)
{
    return es_host_thread() % warpSize;
}

void *es_host_shared(void)
{
    return block.shared;
}

void es_host_abort(const char *what)
{
    fprintf(stderr,
            "host emulation: kernel %s, block (%u,%u,%u), thread %u: %s\n",
            block.shape->name, blockIdx.x, blockIdx.y, blockIdx.z, threadIdx.x,
            what);
    abort();
}

void es_host_check_shared(const char *what, const void *from, size_t bytes)
{
    const unsigned char *first = (const unsigned char *)from;
    size_t size = block.shape->shared_bytes;
    if (first < block.shared || first + bytes > block.shared + size)
        es_host_abort(what);
}

/* Marks the calling thread as waiting at `where` and switches to the scheduler.
 * Returns when all threads of the warp or block wait at the same kind of
 * barrier. */
static void wait(place where, const char *what, int line)
{
    thread *self = &block.threads[es_host_thread()];
    self->where = where;
    self->what = what;
    self->line = line;
    es_fiber_yield(self->fiber);
}

void es_host_block_barrier(int line)
{
    wait(AT_BLOCK, "__syncthreads", line);
}

unsigned char *es_host_warp(const char *what, int line, const void *in,
                            size_t bytes,
                            void (*together)(unsigned char *slots))
{
    thread *self = &block.threads[es_host_thread()];
    warp *mine = &block.warps[es_host_thread() / warpSize];
    unsigned char *slots = mine->slots[self->n_exchanges++ % 2];
    if (bytes > 0)
        memcpy(slots + es_host_lane() * ES_HOST_SLOT, in, bytes);
    self->together = together;
    wait(AT_WARP, what, line);
    return slots;
}

unsigned es_host_ballot(const char *what, int line, bool value)
{
    unsigned result = 0;
    unsigned char *slots = es_host_warp(what, line, &value, sizeof value, NULL);
    for (int lane = 0; lane < warpSize; lane++)
        result |= (unsigned)(slots[lane * ES_HOST_SLOT] != 0) << lane;
    return result;
}

/* --- the scheduler -------------------------------------------------------- */

static const void *running_kernel;
static long n_barriers; /* number of barriers that the blocks of this launch
                         * have passed */

static void thread_main(void)
{
    block.shape->body(running_kernel);
    thread *self = &block.threads[es_host_thread()];
    self->where = ENDED;
    self->what = "the end";
    self->line = 0;
    es_fiber_leave(self->fiber);
}

/* Returns which of n blocks, warps or lanes is the i-th to run. */
static int in_order(int i, int n)
{
    return block.reverse ? n - 1 - i : i;
}

/* Returns a random number in 0 .. n - 1. */
static int draw(int n)
{
    block.chance = block.chance * 6364136223846793005u + 1442695040888963407u;
    return (int)((block.chance >> 33) % (uint64_t)n);
}

[[noreturn]] static void apart(const thread *a, const thread *b)
{
    char text[200];
    snprintf(text, sizeof text,
             "is at %s (line %d) while thread %d is at %s (line %d)", a->what,
             a->line, (int)(b - block.threads), b->what, b->line);
    threadIdx.x = (unsigned)(a - block.threads);
    es_host_abort(text);
}

/* Runs each lane of a warp until the lane waits or ends. */
static void run_lanes(thread *lanes)
{
    /* Since warpSize is a power of 2, any odd stride visits all lanes. */
    const int first = block.chance ? draw(warpSize) : 0;
    const int step = block.chance ? 2 * draw(warpSize / 2) + 1 : 1;
    for (int i = 0; i < warpSize; i++) {
        thread *lane =
            &lanes[in_order((first + i * step) % warpSize, warpSize)];
        if (lane->where != RUNS)
            continue;
        threadIdx.x = (unsigned)(lane - block.threads);
        es_fiber_resume(lane->fiber);
    }
}

/* If all lanes of a warp wait for each other, lets them continue and returns
 * true. */
static bool release_lanes(thread *lanes)
{
    for (int i = 1; i < warpSize; i++)
        if (lanes[i].where != lanes[0].where ||
            (lanes[0].where == AT_WARP && (lanes[i].line != lanes[0].line ||
                                           lanes[i].what != lanes[0].what)))
            apart(&lanes[i], &lanes[0]);
    if (lanes[0].where != AT_WARP)
        return false;
    warp *mine = &block.warps[(lanes - block.threads) / warpSize];
    if (lanes[0].together)
        lanes[0].together(mine->slots[(lanes[0].n_exchanges - 1) % 2]);
    for (int i = 0; i < warpSize; i++)
        lanes[i].where = RUNS;
    return true;
}

/* If all threads of the block wait for each other, lets them continue and
 * returns true. Returns false if they have ended. */
static bool release_threads(int n_threads)
{
    thread *first = &block.threads[0];
    for (int i = 1; i < n_threads; i++)
        if (block.threads[i].where != first->where ||
            block.threads[i].line != first->line)
            apart(&block.threads[i], first);
    if (first->where == ENDED)
        return false;
    n_barriers++;
    for (int i = 0; i < n_threads; i++)
        block.threads[i].where = RUNS;
    return true;
}

/* Runs each warp until it waits for the other warps of the block, or ends. */
static void run_warps(int n_warps)
{
    for (int i = 0; i < n_warps; i++) {
        thread *lanes = &block.threads[in_order(i, n_warps) * warpSize];
        do
            run_lanes(lanes);
        while (release_lanes(lanes));
    }
}

/* Same as run_warps, but switches to a randomly chosen warp whenever the lanes
 * of a warp have waited for each other. */
static void run_warps_at_random(int n_warps)
{
    int left[ES_HOST_MAX_THREADS / warpSize];
    for (int i = 0; i < n_warps; i++)
        left[i] = i;
    while (n_warps > 0) {
        const int which = draw(n_warps);
        thread *lanes = &block.threads[left[which] * warpSize];
        run_lanes(lanes);
        if (!release_lanes(lanes))
            left[which] = left[--n_warps];
    }
}

static void start_threads(int n_threads)
{
    for (int i = 0; i < n_threads; i++) {
        thread *t = &block.threads[i];
        t->fiber = es_fiber_at(i);
        if (!t->fiber)
            es_host_abort("no memory for its stack");
        t->where = RUNS;
        t->n_exchanges = 0;
        es_fiber_start(t->fiber, thread_main);
    }
}

static void run_block(int n_threads)
{
    int n_warps = n_threads / warpSize;
    /* Reserves exactly the requested size, so that sanitizers find accesses
     * beyond the end of the shared memory. */
    if (posix_memalign((void **)&block.shared, 128,
                       block.shape->shared_bytes) != 0)
        es_host_abort("no memory for shared memory");
    memset(block.shared, 0xff, block.shape->shared_bytes);
    memset(block.warps, 0xff, sizeof block.warps[0] * (size_t)n_warps);
    es_host_forget_copies();
    start_threads(n_threads);
    do
        if (block.chance)
            run_warps_at_random(n_warps);
        else
            run_warps(n_warps);
    while (release_threads(n_threads));
    free(block.shared);
    block.shared = NULL;
}

/* Ends the process with an error if no device could accept the shape of the
 * launch. */
static void check_shape(const es_device *device, const es_host_shape *shape)
{
    if (shape->n_threads < warpSize || shape->n_threads > ES_HOST_MAX_THREADS ||
        shape->n_threads % warpSize != 0)
        es_host_abort(
            "is launched with a block that does not consist of complete warps");
    if (shape->grid.x < 1 || shape->grid.x > 0x7fffffffu || shape->grid.y < 1 ||
        shape->grid.y > 65535 || shape->grid.z < 1 || shape->grid.z > 65535)
        es_host_abort("is launched with a grid that no device supports");
    if (shape->shared_bytes > es_device_facts_of(device)->shared_bytes)
        es_host_abort(
            "is launched with more shared memory than the device has");
}

void es_host_run_kernel(es_device *device, const void *kernel)
{
    const es_host_shape *shape = (const es_host_shape *)kernel;
    block.shape = shape;
    block.reverse = es_host_faults_of(device)->reverse;
    block.chance = (uint64_t)es_host_faults_of(device)->random;
    running_kernel = kernel;
    check_shape(device, shape);
    n_barriers = 0;
    gridDim = shape->grid;
    blockDim = dim3((unsigned)shape->n_threads);
    int n_x = (int)gridDim.x, n_y = (int)gridDim.y, n_z = (int)gridDim.z;
    for (int z = 0; z < n_z; z++)
        for (int y = 0; y < n_y; y++)
            for (int x = 0; x < n_x; x++) {
                blockIdx.x = (unsigned)in_order(x, n_x);
                blockIdx.y = (unsigned)in_order(y, n_y);
                blockIdx.z = (unsigned)in_order(z, n_z);
                run_block(shape->n_threads);
            }
    /* The kernels that recompute flagged rows only reach a barrier if a row is
     * flagged. */
    if (strstr(shape->name, "_again") && n_barriers > 0)
        es_host_counted.again++;
}
