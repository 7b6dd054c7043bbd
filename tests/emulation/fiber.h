/**
 * Fibers: separate stacks with explicit switches between them. There are one
 * scheduler, the caller of es_fiber_resume, and as many fibers as a block has
 * threads.
 */
#ifndef ES_CUDA_FIBER_H
#define ES_CUDA_FIBER_H

#include <stddef.h>

typedef struct es_fiber es_fiber;

/** Returns fiber number `index`, whose stack is reused by its next start; NULL
 *  if there is no memory for a stack. */
es_fiber *es_fiber_at(int index);

/** Makes the next resume start `main`, which must end in es_fiber_leave. */
void es_fiber_start(es_fiber *fiber, void (*main)(void));

/** Runs the fiber until it yields or leaves. */
void es_fiber_resume(es_fiber *fiber);

/** Called on a fiber: returns to the scheduler. */
void es_fiber_yield(es_fiber *fiber);
[[noreturn]] void es_fiber_leave(es_fiber *fiber);

#endif
