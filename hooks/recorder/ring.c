/* Implements both sides of the ring in shared memory: the mapping, frames,
 * wake-ups by futexes, and the words by which each side learns that the other
 * side has ended. No function waits without a limit unless the caller requests
 * it. */
#include "hooks/recorder/ring.h"

#include "analyzer/base/kernel.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/futex.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define RING_MAGIC UINT32_C(0x454e5452)
#define RING_LAYOUT 2
/* A closed ring's word `closing` is this value plus the run's status. */
#define CLOSING_MARK UINT32_C(0x454e4400)
#define STOP_MARK UINT32_C(0x53544f50)
#define RING_SEALS (F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL)

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "words shared between processes must be lock-free");
_Static_assert(sizeof(es_frame) % 8 == 0, "payloads are 8-byte aligned");
_Static_assert(sizeof(es_ring_words) <= 4096,
               "the control words fit into one page of memory");

static size_t page_size(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

/* FUTEX_PRIVATE must not be used, because the two sides are different
 * processes. */
static void futex_wait(_Atomic uint32_t *word, uint32_t value, int64_t ms)
{
    struct timespec timeout = {ms / 1000, ms % 1000 * 1000000};
    syscall(SYS_futex, word, FUTEX_WAIT, value, ms < 0 ? NULL : &timeout, NULL,
            0);
}

static void futex_ring(_Atomic uint32_t *bell)
{
    atomic_fetch_add(bell, 1);
    syscall(SYS_futex, bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

size_t es_ring_frame_size(size_t payload)
{
    return sizeof(es_frame) + ((payload + 7) & ~(size_t)7);
}

es_status es_memory_file(int *fd, const char *name, size_t bytes)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && bytes > limit.rlim_cur)
        return es_fail(ES_EBROKEN,
                       "%s of %zu bytes exceeds the limit on file sizes: raise "
                       "it (ulimit -f) or make the ring smaller",
                       name, bytes);
    *fd = es_kernel_memory_file(name, (off_t)bytes);
    if (*fd < 0)
        return es_fail(ES_EBROKEN, "%s of %zu bytes: %s", name, bytes,
                       strerror(errno));
    return ES_OK;
}

/* Maps the control words and the data, then maps the data a second time,
 * directly after the first mapping. */
static es_status map_ring(es_ring *out, int fd, size_t capacity, int flags)
{
    size_t page = page_size();
    size_t total = page + 2 * capacity;
    unsigned char *base =
        mmap(NULL, total, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (base == MAP_FAILED)
        return es_fail(ES_EBROKEN,
                       "no address space for a ring of %zu bytes: %s", capacity,
                       strerror(errno));
    int access = PROT_READ | PROT_WRITE;
    flags |= MAP_SHARED | MAP_FIXED;
    unsigned char *second = base + page + capacity;
    if (mmap(base, page + capacity, access, flags, fd, 0) == MAP_FAILED ||
        mmap(second, capacity, access, flags, fd, (off_t)page) == MAP_FAILED) {
        es_fail(ES_EBROKEN, "cannot map the ring: %s", strerror(errno));
        munmap(base, total);
        return ES_EBROKEN;
    }
    *out = (es_ring){.words = (es_ring_words *)(void *)base,
                     .data = base + page,
                     .capacity = capacity,
                     .name = "entropy-ring"};
    return ES_OK;
}

/* Returns true if the file with these seals is a memfd, which must be sealed.
 * On some systems a file of /dev/shm or of a disk replaces the memfd and cannot
 * be sealed; however, this file no longer has a name, and the producer keeps no
 * descriptor of it. */
static bool can_be_sealed(int seals)
{
    return seals >= 0 && !(seals & F_SEAL_SEAL);
}

es_status es_ring_create(es_ring *out, int *fd, size_t bytes)
{
    if (bytes > ES_RING_MAX)
        return es_fail(ES_EARGUMENT,
                       "a ring of %zu bytes: at most %zu are allowed", bytes,
                       ES_RING_MAX);
    size_t capacity = page_size();
    while (capacity < bytes)
        capacity *= 2;
    int file;
    es_status status =
        es_memory_file(&file, "entropy-ring", page_size() + capacity);
    if (status < 0)
        return status;
    if (can_be_sealed(fcntl(file, F_GET_SEALS)) &&
        fcntl(file, F_ADD_SEALS, RING_SEALS) != 0)
        status =
            es_fail(ES_EBROKEN, "cannot seal the ring: %s", strerror(errno));
    else
        status = map_ring(out, file, capacity, MAP_POPULATE);
    if (status < 0) {
        close(file);
        return status;
    }
    out->words->magic = RING_MAGIC;
    out->words->layout = RING_LAYOUT;
    out->words->capacity = capacity;
    atomic_store(&out->words->wake_at, UINT64_MAX);
    *fd = file;
    return ES_OK;
}

es_status es_ring_attach(es_ring *out, int fd)
{
    struct stat file;
    int seals = fcntl(fd, F_GET_SEALS);
    if (fstat(fd, &file) != 0)
        return es_fail(ES_EFORMAT, "not a ring buffer: %s", strerror(errno));
    size_t page = page_size();
    size_t capacity = (size_t)file.st_size - page;
    /* Without the seal, another process could shrink the file, and the next
     * access to the mapping would kill this process with SIGBUS. */
    if ((can_be_sealed(seals) && !(seals & F_SEAL_SHRINK)) ||
        file.st_size <= (off_t)page || capacity > ES_RING_MAX ||
        capacity < page || (capacity & (capacity - 1)) != 0)
        return es_fail(ES_EFORMAT, "not a ring buffer: %jd bytes, seals %x",
                       (intmax_t)file.st_size, (unsigned)seals);
    es_status status = map_ring(out, fd, capacity, 0);
    if (status < 0)
        return status;
    const es_ring_words *words = out->words;
    if (words->magic != RING_MAGIC || words->layout != RING_LAYOUT ||
        words->capacity != capacity) {
        es_fail(ES_EFORMAT,
                "ring layout %u differs from this program's %d: install "
                "libentropyrecord and entropy-recorder of the same version",
                words->layout, RING_LAYOUT);
        es_ring_detach(out);
        return ES_EFORMAT;
    }
    return ES_OK;
}

void es_ring_detach(es_ring *ring)
{
    if (ring->words)
        munmap(ring->words, page_size() + 2 * ring->capacity);
    *ring = (es_ring){0};
}

static unsigned char *at(const es_ring *ring, uint64_t position)
{
    return ring->data + (position & (ring->capacity - 1));
}

static uint32_t mark_of(uint64_t position)
{
    return (uint32_t)position ^ (uint32_t)(position >> 32) ^ RING_MAGIC;
}

static bool has_space(es_ring *ring, uint64_t size)
{
    uint64_t used = ring->position - ring->released;
    if (used <= ring->capacity && size <= ring->capacity - used)
        return true;
    ring->released = atomic_load(&ring->words->tail);
    used = ring->position - ring->released;
    return used <= ring->capacity && size <= ring->capacity - used;
}

/*
 * Wakes the consumer if it waits for `head` to reach wake_at. The consumer
 * stores wake_at and then reads head; the producer stores head and then reads
 * wake_at. A full fence between the store and the read on both sides guarantees
 * that at least one side sees the other side's store. The producer resets
 * wake_at, so that the consumer is woken only once for many frames.
 */
static void wake_if_wanted(es_ring_words *words, uint64_t head)
{
    atomic_thread_fence(memory_order_seq_cst);
    uint64_t wake_at =
        atomic_load_explicit(&words->wake_at, memory_order_relaxed);
    while (head >= wake_at)
        if (atomic_compare_exchange_weak(&words->wake_at, &wake_at,
                                         UINT64_MAX)) {
            futex_ring(&words->bell);
            return;
        }
}

bool es_ring_write(es_ring *ring, const es_frame *frame, const void *payload)
{
    uint64_t size = es_ring_frame_size(frame->bytes);
    if (!has_space(ring, size))
        return false;
    es_frame header = *frame;
    header.mark = mark_of(ring->position);
    unsigned char *place = at(ring, ring->position);
    memcpy(place, &header, sizeof header);
    if (frame->bytes)
        memcpy(place + sizeof header, payload, frame->bytes);
    ring->position += size;
    atomic_store_explicit(&ring->words->head, ring->position,
                          memory_order_release);
    wake_if_wanted(ring->words, ring->position);
    return true;
}

bool es_ring_wait_space(es_ring *ring, size_t payload, int64_t ms)
{
    es_ring_words *words = ring->words;
    uint64_t size = es_ring_frame_size(payload);
    int64_t deadline = es_now_ms() + ms;
    bool fits;
    atomic_store(&words->wants_space, 1);
    futex_ring(&words->bell);
    for (;;) {
        uint32_t bell = atomic_load(&words->space_bell);
        int64_t left = deadline - es_now_ms();
        fits = has_space(ring, size);
        if (fits || left <= 0)
            break;
        futex_wait(&words->space_bell, bell, left);
    }
    atomic_store(&words->wants_space, 0);
    return fits;
}

void es_ring_close(es_ring *ring, uint32_t run_status)
{
    atomic_store(&ring->words->head, ring->position);
    atomic_store(&ring->words->closing, CLOSING_MARK | run_status);
    futex_ring(&ring->words->bell);
}

bool es_ring_is_closed(const es_ring *ring, uint32_t *run_status)
{
    uint32_t closing = atomic_load(&ring->words->closing);
    if (run_status)
        *run_status = closing & 0xff;
    return (closing & ~UINT32_C(0xff)) == CLOSING_MARK;
}

/* FNV-1a, never 0. */
static uint64_t checksum(const unsigned char *bytes, size_t n)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    for (size_t i = 0; i < n; i++)
        sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    return sum ? sum : 1;
}

void es_ring_say(es_ring *ring, const void *words, size_t n)
{
    memcpy(ring->words->last_words, words, n);
    atomic_store(&ring->words->said, checksum(words, n));
    futex_ring(&ring->words->space_bell);
}

static bool was_said(const es_ring_words *shared, void *words, size_t n)
{
    uint64_t said = atomic_load(&shared->said);
    if (!said)
        return false;
    memcpy(words, shared->last_words, n);
    return checksum(words, n) == said;
}

bool es_ring_hear(const es_ring *ring, void *words, size_t n, int64_t ms)
{
    es_ring_words *shared = ring->words;
    uint32_t bell = atomic_load(&shared->space_bell);
    if (was_said(shared, words, n))
        return true;
    if (ms > 0)
        futex_wait(&shared->space_bell, bell, ms);
    return ms > 0 && was_said(shared, words, n);
}

void es_ring_request_stop(es_ring *ring)
{
    atomic_store(&ring->words->stop, STOP_MARK);
}

bool es_ring_stop_requested(const es_ring *ring)
{
    return atomic_load_explicit(&ring->words->stop, memory_order_relaxed) ==
           STOP_MARK;
}

void es_ring_disown(es_ring *ring)
{
    atomic_store(&ring->words->owner, 0);
    futex_ring(&ring->words->space_bell);
}

uint64_t es_ring_head(const es_ring *ring)
{
    return atomic_load_explicit(&ring->words->head, memory_order_acquire);
}

static es_status corrupt(const es_ring *ring, const char *what, uint64_t value)
{
    return es_fail(ES_EFORMAT,
                   "%s: the ring is corrupt at byte %llu: %s %llu: something "
                   "in the training process overwrites the shared memory",
                   ring->name, (unsigned long long)ring->position, what,
                   (unsigned long long)value);
}

/* Returns true if the producer has overwritten unread frames. This happens only
 * if the ring's word `tail` was corrupt. */
static bool is_overrun(const es_ring *ring)
{
    return es_ring_head(ring) - ring->released > ring->capacity;
}

es_status es_ring_read(es_ring *ring, es_frame *frame, void *payload,
                       size_t size)
{
    uint64_t unread = es_ring_head(ring) - ring->position;
    if (unread == 0)
        return ES_DONE;
    if (unread > ring->capacity || unread < sizeof *frame || unread % 8)
        return corrupt(ring, "invalid number of unread bytes", unread);
    if (is_overrun(ring))
        return corrupt(ring, "unread frames overwritten up to byte",
                       es_ring_head(ring));
    const unsigned char *place = at(ring, ring->position);
    memcpy(frame, place, sizeof *frame);
    /* The fence keeps the compiler from reading the shared memory again,
     * because the checks below are valid only for the copy. */
    atomic_signal_fence(memory_order_seq_cst);
    if (frame->mark != mark_of(ring->position))
        return corrupt(ring, "invalid mark", frame->mark);
    uint64_t whole = es_ring_frame_size(frame->bytes);
    if (whole > unread || frame->bytes > size)
        return corrupt(ring, "invalid frame length", frame->bytes);
    memcpy(payload, place + sizeof *frame, frame->bytes);
    if (is_overrun(ring))
        return corrupt(ring, "unread frames overwritten up to byte",
                       es_ring_head(ring));
    ring->position += whole;
    return ES_OK;
}

void es_ring_rewind(es_ring *ring)
{
    ring->position = ring->released;
}

void es_ring_release(es_ring *ring, uint64_t frames)
{
    es_ring_words *words = ring->words;
    ring->released = ring->position;
    atomic_store(&words->committed, frames);
    atomic_store(&words->tail, ring->position);
    if (atomic_load(&words->wants_space))
        futex_ring(&words->space_bell);
}

uint32_t es_ring_bell(const es_ring *ring)
{
    return atomic_load(&ring->words->bell);
}

void es_ring_wake(es_ring *ring)
{
    futex_ring(&ring->words->bell);
}

void es_ring_wait(es_ring *ring, uint32_t bell, size_t bytes, int64_t ms)
{
    es_ring_words *words = ring->words;
    int64_t deadline = es_now_ms() + ms;
    uint64_t wake_at =
        bytes > ring->capacity ? UINT64_MAX : ring->position + bytes;
    atomic_store(&words->wake_at, wake_at);
    atomic_thread_fence(memory_order_seq_cst);
    while (es_ring_head(ring) - ring->position < bytes &&
           atomic_load(&words->bell) == bell) {
        int64_t left = ms < 0 ? -1 : deadline - es_now_ms();
        if (ms >= 0 && left <= 0)
            break;
        futex_wait(&words->bell, bell, left);
    }
    atomic_store(&words->wake_at, UINT64_MAX);
}
