/*
 * Makes an allocation of a program fail, for tests/soak/fault_points.py.
 * LD_PRELOAD loads this library before glibc, whose functions it calls.
 *
 *   ES_ALLOC_IN=NAME     name of the program's processes; others are left alone
 *   ES_ALLOC_FAIL=N, N+  the Nth allocation fails, or the Nth and all later
 *                        ones
 *   ES_ALLOC_COUNT=FILE  receives the number of allocations when the process
 *                        ends
 *   ES_ALLOC_TRACE=1     prints the stack of the first failure to stderr
 *
 * The library counts allocations by the program itself, by the libraries of
 * this project, by the libraries that process the program's data (listed
 * below), and by libc once main has begun. It does not count allocations by the
 * dynamic linker, font libraries and BLAS, nor by jansson, which aborts when
 * memory runs out.
 */
#include <errno.h>
#include <execinfo.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);

static const char *const counted[] = {"libentropy", "libsqlite3", "libinih",
                                      "libyaml", "libcurl"};

enum { RANGES_MOST = 16 };
static struct {
    uintptr_t from, to;
    bool is_libc;
} ranges[RANGES_MOST];
static int n_ranges;

static bool is_on, has_begun, lasts;
static long first_failing;         /* 0: none */
static atomic_long *n_allocations; /* counter in memory that forked processes
                                      share */
static pid_t counting_process;

static bool is_counted(const char *path)
{
    for (size_t i = 0; i < sizeof counted / sizeof *counted; i++)
        if (strstr(path, counted[i]))
            return true;
    return !*path; /* an empty path stands for the program itself */
}

static int add_range(struct dl_phdr_info *module, size_t size, void *unused)
{
    (void)size, (void)unused;
    const bool is_libc = strstr(module->dlpi_name, "/libc.so");
    if (!is_counted(module->dlpi_name) && !is_libc)
        return 0;
    for (int i = 0; i < module->dlpi_phnum && n_ranges < RANGES_MOST; i++) {
        const ElfW(Phdr) *part = &module->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || !(part->p_flags & PF_X))
            continue;
        ranges[n_ranges].from = module->dlpi_addr + part->p_vaddr;
        ranges[n_ranges].to = ranges[n_ranges].from + part->p_memsz;
        ranges[n_ranges++].is_libc = is_libc;
    }
    return 0;
}

__attribute__((constructor)) static void begin(void)
{
    const char *name = getenv("ES_ALLOC_IN"), *fail = getenv("ES_ALLOC_FAIL");
    if (!name || strcmp(name, program_invocation_short_name) != 0)
        return;
    if (fail) {
        first_failing = strtol(fail, NULL, 10);
        lasts = strchr(fail, '+');
    }
    void *unused;
    /* makes backtrace load its libraries now, which allocates */
    backtrace(&unused, 1);
    n_allocations = mmap(NULL, sizeof *n_allocations, PROT_READ | PROT_WRITE,
                         MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (n_allocations == MAP_FAILED)
        abort();
    dl_iterate_phdr(add_range, NULL);
    counting_process = getpid();
    is_on = true;
}

__attribute__((destructor)) static void end(void)
{
    const char *path = getenv("ES_ALLOC_COUNT");
    if (!is_on || !path || getpid() != counting_process)
        return;
    char text[32];
    const int n = snprintf(text, sizeof text, "%ld\n", *n_allocations);
    const int file = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0666);
    if (file < 0 || write(file, text, (size_t)n) != n)
        abort();
    close(file);
}

static void trace(void)
{
    void *calls[32];
    is_on = false;
    backtrace_symbols_fd(calls, backtrace(calls, 32), 2);
    is_on = true;
}

/* Returns true if the allocation by the code at `caller` must fail. */
static bool fails(const void *caller)
{
    if (!is_on)
        return false;
    const uintptr_t address = (uintptr_t)caller;
    for (int i = 0; i < n_ranges; i++) {
        if (address < ranges[i].from || address >= ranges[i].to)
            continue;
        has_begun = has_begun || !ranges[i].is_libc;
        if (!has_begun)
            return false;
        const long number = atomic_fetch_add(n_allocations, 1) + 1;
        if (number == first_failing && getenv("ES_ALLOC_TRACE"))
            trace();
        if (lasts ? number < first_failing : number != first_failing)
            return false;
        errno = ENOMEM;
        return true;
    }
    return false;
}

#define FAILS fails(__builtin_return_address(0))

void *malloc(size_t size)
{
    return FAILS ? NULL : __libc_malloc(size);
}

void *calloc(size_t n, size_t size)
{
    return FAILS ? NULL : __libc_calloc(n, size);
}

void *realloc(void *block, size_t size)
{
    return FAILS ? NULL : __libc_realloc(block, size);
}

void *aligned_alloc(size_t alignment, size_t size)
{
    return FAILS ? NULL : __libc_memalign(alignment, size);
}

/* Makes sleep return at once, because a program that sleeps until memory
 * becomes available would sleep forever. */
unsigned sleep(unsigned seconds)
{
    struct timespec pause = {.tv_sec = seconds};
    if (!is_on || !first_failing)
        nanosleep(&pause, NULL);
    return 0;
}

int posix_memalign(void **block, size_t alignment, size_t size)
{
    void *memory = FAILS ? NULL : __libc_memalign(alignment, size);
    if (memory)
        *block = memory;
    return memory ? 0 : ENOMEM;
}
