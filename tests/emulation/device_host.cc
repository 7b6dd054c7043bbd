/* Implements device.h on the host, in place of device.cu: memory, captured
 * graphs, and faults that ENTROPY_TRAIN_EMULATION injects. */
#include "hooks/trainer/cuda/kernel.h"
#include "tests/emulation/host.h"

#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>

enum { MAX_SEQUENCES = 64 };

/* A captured operation. A graph is a list of operations, in the order in which
 * they were captured. */
typedef struct captured {
    struct captured *next;
    void (*work)(es_device *device, const void *argument);
    void *argument;
} captured;

typedef struct graph {
    captured *first, **end;
} graph;

struct es_device {
    es_device_facts facts;
    es_host_faults faults;
    size_t reserved;
    long n_launches, n_captured, n_copies, n_reserved;
    char trouble[200];
    void *places[2]; /* results of es_device_fetch; NULL if nothing was
                      * copied */
    /* failure that the next wait reports; NULL if none */
    const char *unnoticed;
    bool captures;
    graph capturing, graphs[MAX_SEQUENCES];
};

es_host_counts es_host_counted;

/* --- opening -------------------------------------------------------------- */

static es_host_faults read_faults(void)
{
    es_host_faults faults = {};
    faults.memory = SIZE_MAX;
    const char *words = getenv("ENTROPY_TRAIN_EMULATION");
    for (; words && *words; words += strcspn(words, ",")) {
        words += *words == ',';
        unsigned long long n = 0;
        if (strncmp(words, "reverse", 7) == 0)
            faults.reverse = true;
        else if (strncmp(words, "late", 4) == 0)
            faults.late = true;
        else if (strncmp(words, "bare", 4) == 0)
            faults.bare = true;
        else if (sscanf(words, "random=%llu", &n) == 1)
            faults.random = (long)n;
        else if (sscanf(words, "fail=%llu", &n) == 1)
            faults.fail = (long)n;
        else if (sscanf(words, "captured=%llu", &n) == 1)
            faults.captured = (long)n;
        else if (sscanf(words, "copy=%llu", &n) == 1)
            faults.copy = (long)n;
        else if (sscanf(words, "reserve=%llu", &n) == 1)
            faults.reserve = (long)n;
        else if (sscanf(words, "memory=%llu", &n) == 1)
            faults.memory = (size_t)n;
    }
    return faults;
}

es_status es_device_open(es_device **out)
{
    es_device *device = (es_device *)calloc(1, sizeof *device);
    *out = device;
    if (!device)
        return es_fail(ES_ENOMEM, "out of memory for the emulated device");
    /* the properties are those of the smallest supported device */
    snprintf(device->facts.name, sizeof device->facts.name, "host emulation");
    device->facts.n_processors = 4;
    device->facts.shared_bytes = 163 << 10;
    device->facts.major = 8;
    device->faults = read_faults();
    return ES_OK;
}

static void free_graph(graph *old)
{
    while (old->first) {
        captured *first = old->first;
        old->first = first->next;
        free(first->argument);
        free(first);
    }
}

void es_device_close(es_device *device)
{
    if (!device)
        return;
    free(device->places[0]);
    free(device->places[1]);
    free_graph(&device->capturing);
    for (int i = 0; i < MAX_SEQUENCES; i++)
        free_graph(&device->graphs[i]);
    free(device);
}

const es_device_facts *es_device_facts_of(const es_device *device)
{
    return &device->facts;
}

const es_host_faults *es_host_faults_of(const es_device *device)
{
    return &device->faults;
}

static void expect_no_capture(const es_device *device, const char *what)
{
    if (!device->captures)
        return;
    fprintf(stderr, "host emulation: %s within a captured sequence\n", what);
    abort();
}

/* --- memory --------------------------------------------------------------- */

es_status es_device_reserve(es_device *device, void **out, size_t bytes)
{
    size_t left = device->faults.memory - device->reserved;
    expect_no_capture(device, "a reserve");
    *out = NULL;
    const bool refused = ++device->n_reserved == device->faults.reserve;
    /* Reserves exactly the requested size, so that sanitizers find accesses
     * beyond the end of the memory. */
    if (refused || bytes > left || posix_memalign(out, 256, bytes) != 0)
        return es_fail(ES_ENOMEM,
                       "host emulation: out of memory: %zu MiB wanted, "
                       "%zu MiB free",
                       bytes >> 20, left >> 20);
    device->reserved += malloc_usable_size(*out);
    memset(*out, 0xff, bytes);
    return ES_OK;
}

void es_device_release(es_device *device, void *memory)
{
    expect_no_capture(device, "a release");
    if (memory)
        device->reserved -= malloc_usable_size(memory);
    free(memory);
}

/* --- injected faults -------------------------------------------------------
 */

/* Returns true if the device has failed, even if the failure has not been
 * reported yet. */
static bool is_over(const es_device *device)
{
    return device->trouble[0] || device->unnoticed;
}

/* Makes launch or copy number n fail, and returns true, if n equals
 * `faulty`. */
static bool fails(es_device *device, const char *what, long n, long faulty)
{
    if (n != faulty)
        return false;
    if (device->faults.late)
        device->unnoticed = what;
    else
        es_device_trouble(device, what, 719);
    return true;
}

/* Reports a failure that has not been reported yet. Called whenever the host
 * waits for the device. */
static void notice(es_device *device)
{
    if (device->unnoticed)
        es_device_trouble(device, device->unnoticed, 719);
}

/* Counts a copy, and returns true if it must be performed. After a failure,
 * copies are skipped. */
static bool can_copy(es_device *device)
{
    return !is_over(device) && !fails(device, "a copy that was meant to fail",
                                      ++device->n_copies, device->faults.copy);
}

typedef struct span {
    void *out;
    size_t bytes;
} span;

static void zero(es_device *device, const void *argument)
{
    const span *s = (const span *)argument;
    (void)device;
    memset(s->out, 0, s->bytes);
}

void es_device_zero(es_device *device, void *out, size_t bytes)
{
    span s = {out, bytes};
    es_host_do(device, zero, &s, sizeof s);
}

void es_device_store(es_device *device, void *out, const void *in, size_t bytes)
{
    expect_no_capture(device, "a store");
    es_host_counted.stores++;
    if (can_copy(device) && bytes > 0)
        memcpy(out, in, bytes);
}

void es_device_load(es_device *device, void *out, const void *in, size_t bytes)
{
    expect_no_capture(device, "a load");
    es_host_counted.loads++;
    const bool can_load = can_copy(device);
    notice(device);
    if (!can_load)
        memset(out, 0xff, bytes);
    else if (bytes > 0)
        memcpy(out, in, bytes);
}

void es_device_fetch(es_device *device, int place, const void *in, size_t bytes)
{
    expect_no_capture(device, "a fetch");
    free(device->places[place]);
    device->places[place] = can_copy(device) ? malloc(bytes) : NULL;
    if (device->places[place])
        memcpy(device->places[place], in, bytes);
}

const void *es_device_fetched(es_device *device, int place)
{
    expect_no_capture(device, "a wait");
    es_host_counted.loads++;
    notice(device);
    return device->trouble[0] ? NULL : device->places[place];
}

/* --- work ----------------------------------------------------------------- */

/* Adds an operation to the graph that is being captured. */
static bool capture(es_device *device,
                    void (*work)(es_device *device, const void *argument),
                    const void *argument, size_t bytes)
{
    graph *all = &device->capturing;
    captured *added = (captured *)calloc(1, sizeof *added);
    void *copy = malloc(bytes);
    if (!added || !copy) {
        free(added);
        free(copy);
        return false;
    }
    memcpy(copy, argument, bytes);
    added->work = work;
    added->argument = copy;
    *all->end = added;
    all->end = &added->next;
    return true;
}

static void run(es_device *device,
                void (*work)(es_device *device, const void *argument),
                const void *argument)
{
    if (!is_over(device) && !fails(device, "a launch that was meant to fail",
                                   ++device->n_launches, device->faults.fail))
        work(device, argument);
}

void es_host_do(es_device *device,
                void (*work)(es_device *device, const void *argument),
                const void *argument, size_t bytes)
{
    if (device->trouble[0])
        return;
    if (!device->captures) {
        es_host_counted.loose++;
        run(device, work, argument);
    } else if (++device->n_captured == device->faults.captured)
        es_device_trouble(device, "a launch that was meant to fail", 901);
    else if (!capture(device, work, argument, bytes))
        es_device_trouble(device, "a captured sequence", 2);
}

void es_device_capture(es_device *device)
{
    expect_no_capture(device, "a capture");
    if (device->trouble[0])
        return;
    device->captures = true;
    free_graph(&device->capturing);
    device->capturing.end = &device->capturing.first;
}

void es_device_capture_end(es_device *device, int sequence)
{
    graph *kept = &device->graphs[sequence];
    if (!device->captures)
        return;
    es_host_counted.captures++;
    free_graph(kept);
    kept->first = device->capturing.first;
    device->capturing.first = NULL;
    device->captures = false;
}

bool es_device_captures(const es_device *device)
{
    return device->captures;
}

bool es_device_replay(es_device *device, int sequence)
{
    const captured *next = device->graphs[sequence].first;
    expect_no_capture(device, "a replay");
    if (!next)
        return device->trouble[0] != 0;
    es_host_counted.replays++;
    for (; next; next = next->next)
        run(device, next->work, next->argument);
    return true;
}

/* --- trouble -------------------------------------------------------------- */

void es_device_trouble(es_device *device, const char *what, int code)
{
    if (!device->trouble[0])
        snprintf(device->trouble, sizeof device->trouble, "%s: error %d", what,
                 code);
}

bool es_device_is_in_trouble(const es_device *device)
{
    return device->trouble[0] != 0;
}

es_status es_device_status(es_device *device)
{
    expect_no_capture(device, "a wait");
    notice(device);
    if (device->trouble[0])
        return es_fail(ES_EIO, "host emulation: %s", device->trouble);
    return ES_OK;
}
