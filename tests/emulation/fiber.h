/**
 * Fibers: functions that run on separate stacks, with explicit switches between
 * them. There is one scheduler, the caller of es_fiber_resume, and one fiber
 * for each thread of a block.
 */
#ifndef ES_CUDA_FIBER_H
#define ES_CUDA_FIBER_H

#include <stddef.h>

typedef struct es_fiber es_fiber;

/** Returns the fiber with the number `index`; its next start reuses its stack.
 *  Returns NULL if there is no memory for a stack. */
es_fiber *es_fiber_at(int index);

/** Makes the next es_fiber_resume start `main`, which must end in
 *  es_fiber_leave. */
void es_fiber_start(es_fiber *fiber, void (*main)(void));

/** Runs the fiber until it calls es_fiber_yield or es_fiber_leave. */
void es_fiber_resume(es_fiber *fiber);

/** Returns from the running fiber to the scheduler. */
void es_fiber_yield(es_fiber *fiber);
[[noreturn]] void es_fiber_leave(es_fiber *fiber);

#endif
