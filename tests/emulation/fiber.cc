/* Implements the fibers on which the emulated threads of a block run. Each
 * fiber has a separate stack; one fiber runs at a time, until it switches back
 * to the scheduler. Reports switches to address sanitizers. */
#include "tests/emulation/fiber.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ADDRESS_SANITIZER
#endif
#endif
#ifdef __SANITIZE_ADDRESS__
#define HAS_ADDRESS_SANITIZER
#endif

#ifdef HAS_ADDRESS_SANITIZER
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef __x86_64__
#include <ucontext.h>
#endif

enum { MAX_FIBERS = 1024, STACK_BYTES = 128 << 10, GUARD_BYTES = 4096 };

struct es_fiber {
    char *stack;
#ifdef __x86_64__
    void *registers; /* stack pointer of the fiber while it is not running */
#else
    ucontext_t registers;
#endif
    void (*main)(void);
    void *shadow; /* data that the sanitizer stores for the fiber */
};

static es_fiber fibers[MAX_FIBERS];
static es_fiber scheduler;

/* --- the switch ----------------------------------------------------------- */

#ifdef __x86_64__

/* Pushes the callee-saved registers on the current stack, saves the stack
 * pointer in *from, and continues on the stack whose pointer is `to`. */
extern "C" void es_fiber_swap(void **from, void *to);
__asm__(".text\n"
        ".hidden es_fiber_swap\n"
        ".globl es_fiber_swap\n"
        ".type es_fiber_swap, @function\n"
        "es_fiber_swap:\n"
        "    pushq %rbp\n"
        "    pushq %rbx\n"
        "    pushq %r12\n"
        "    pushq %r13\n"
        "    pushq %r14\n"
        "    pushq %r15\n"
        "    movq %rsp, (%rdi)\n"
        "    movq %rsi, %rsp\n"
        "    popq %r15\n"
        "    popq %r14\n"
        "    popq %r13\n"
        "    popq %r12\n"
        "    popq %rbx\n"
        "    popq %rbp\n"
        "    ret\n"
        ".size es_fiber_swap, . - es_fiber_swap\n");

static void swap(es_fiber *from, es_fiber *to)
{
    es_fiber_swap(&from->registers, to->registers);
}

/* Prepares the fiber's stack so that the first switch to the fiber calls
 * `main`. */
static void prepare(es_fiber *fiber, void (*main)(void))
{
    void **top = (void **)(void *)(fiber->stack + STACK_BYTES) - 1;
    *top-- = NULL; /* return address of main, which never returns */
    *top = (void *)main;
    for (int i = 0; i < 6; i++)
        *--top = NULL;
    fiber->registers = top;
}

#else

static void swap(es_fiber *from, es_fiber *to)
{
    swapcontext(&from->registers, &to->registers);
}

static void prepare(es_fiber *fiber, void (*main)(void))
{
    getcontext(&fiber->registers);
    fiber->registers.uc_stack.ss_sp = fiber->stack;
    fiber->registers.uc_stack.ss_size = STACK_BYTES;
    fiber->registers.uc_link = NULL;
    makecontext(&fiber->registers, main, 0);
}

#endif

/* --- the sanitizer, which must know the stack ----------------------------- */

#ifdef HAS_ADDRESS_SANITIZER

static void before_switch(es_fiber *from, const es_fiber *to)
{
    __sanitizer_start_switch_fiber(from ? &from->shadow : NULL, to->stack,
                                   STACK_BYTES);
}

/* Stack of the scheduler, which the sanitizer reports at the first switch. */
static const void *scheduler_stack;
static size_t scheduler_bytes;

static void before_return(es_fiber *from)
{
    __sanitizer_start_switch_fiber(from ? &from->shadow : NULL, scheduler_stack,
                                   scheduler_bytes);
}

static void after_switch(es_fiber *self)
{
    const void *stack;
    size_t bytes;
    __sanitizer_finish_switch_fiber(self->shadow, &stack, &bytes);
    if (self != &scheduler) {
        scheduler_stack = stack;
        scheduler_bytes = bytes;
    }
}

#else

static void before_switch(es_fiber *from, const es_fiber *to)
{
    (void)from;
    (void)to;
}

static void before_return(es_fiber *from)
{
    (void)from;
}

static void after_switch(es_fiber *self)
{
    (void)self;
}

#endif

/* --- fibers --------------------------------------------------------------- */

es_fiber *es_fiber_at(int index)
{
    es_fiber *fiber = &fibers[index];
    if (fiber->stack)
        return fiber;
    char *memory =
        (char *)mmap(NULL, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED || mprotect(memory, GUARD_BYTES, PROT_NONE) != 0)
        return NULL;
    fiber->stack = memory + GUARD_BYTES;
    return fiber;
}

static es_fiber *started;

/* First function on the stack of a fiber. Calls the fiber's `main`. */
static void begin(void)
{
    es_fiber *self = started;
    after_switch(self);
    self->main();
    abort(); /* not reached, since main calls es_fiber_leave at its end */
}

void es_fiber_start(es_fiber *fiber, void (*main)(void))
{
    fiber->main = main;
    fiber->shadow = NULL;
    prepare(fiber, begin);
}

void es_fiber_resume(es_fiber *fiber)
{
    started = fiber;
    before_switch(&scheduler, fiber);
    swap(&scheduler, fiber);
    after_switch(&scheduler);
}

void es_fiber_yield(es_fiber *fiber)
{
    before_return(fiber);
    swap(fiber, &scheduler);
    after_switch(fiber);
}

void es_fiber_leave(es_fiber *fiber)
{
    before_return(NULL);
    swap(fiber, &scheduler);
    abort();
}
