/**
 * Declares fibers: functions that run on separate stacks and switch explicitly.
 * The scheduler, which calls es_fiber_resume, starts and resumes the fibers;
 * there is one fiber for each thread of a block.
 */
#ifndef ES_CUDA_FIBER_H
#define ES_CUDA_FIBER_H

#include <stddef.h>

typedef struct es_fiber es_fiber;

/** Returns the fiber with the number `index`, and allocates its stack at the
 *  first call. Returns NULL if there is no memory for a stack. */
es_fiber *es_fiber_at(int index);

/** Prepares a fiber that runs `main` when it is next resumed. `main` must end
 *  by calling es_fiber_leave. */
void es_fiber_start(es_fiber *fiber, void (*main)(void));

/** Runs the fiber until it calls es_fiber_yield or es_fiber_leave. */
void es_fiber_resume(es_fiber *fiber);

/** es_fiber_yield returns from the running fiber to the scheduler, which may
 *  resume the fiber later. es_fiber_leave ends the fiber. */
void es_fiber_yield(es_fiber *fiber);
[[noreturn]] void es_fiber_leave(es_fiber *fiber);

#endif
