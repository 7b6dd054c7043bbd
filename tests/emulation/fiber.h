/**
 * Fibers: stacks of their own that are switched between by hand. One scheduler
 * (whoever calls es_fiber_resume) and as many fibers as a block has threads.
 */
#ifndef ES_CUDA_FIBER_H
#define ES_CUDA_FIBER_H

#include <stddef.h>

typedef struct es_fiber es_fiber;

/** The fiber number `index`; its stack stays for the next one that starts.
 *  NULL if there is no memory for a stack. */
es_fiber *es_fiber_at(int index);

/** The next resume starts `main`, which must end in es_fiber_leave. */
void es_fiber_start(es_fiber *fiber, void (*main)(void));

/** Runs the fiber until it yields or leaves. */
void es_fiber_resume(es_fiber *fiber);

/** Of the fiber that runs: back to the scheduler. */
void es_fiber_yield(es_fiber *fiber);
[[noreturn]] void es_fiber_leave(es_fiber *fiber);

#endif
