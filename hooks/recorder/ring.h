/**
 * A ring of bytes in shared memory: the training process writes frames, the
 * recorder reads them. One producer, one consumer, no lock.
 *
 * The memory is a sealed memfd, or what es_kernel_memory_file has in its place,
 * which nobody else can name: a page of words (struct es_ring_words), then
 * `capacity` bytes, which both sides map twice in a row, so that no frame is
 * ever split at the end. Positions count bytes since the beginning and never
 * wrap. The space of a frame is free again only when the consumer releases it:
 * it does so after the commit, so that a failed transaction can be read again.
 *
 * The consumer trusts nothing in here: it copies a frame's header, checks it,
 * then copies the rest, and keeps its own position and capacity. Nor does the
 * producer: any bug of the training process may overwrite any word. What ends
 * something (closing, stop, said) is a mark or a checksum, not a mere 1, and a
 * word that means nothing is as if it were not there.
 */
#ifndef ES_RING_H
#define ES_RING_H

#include "analyzer/base/kernel.h"
#include "analyzer/base/status.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ES_RING_MAX ((size_t)1 << 30) /* bytes of capacity, at most */
#define ES_RING_LAST_WORDS 1152       /* bytes of es_ring_say, at most */

/**
 * What both sides see. A line of its own for what the producer writes at each
 * push, for what the consumer writes at each commit, and for the words that
 * seldom change: a push reads the last without waiting for anybody's cache.
 */
typedef struct es_ring_words {
    /* Written before the consumer starts. */
    uint32_t magic, layout;
    uint64_t capacity;

    _Alignas(64) _Atomic uint64_t head; /* end of the last whole frame */
    _Atomic uint64_t dropped;           /* frames that found no place */
    _Atomic uint32_t wants_space;       /* 1: the producer waits for space */
    _Atomic uint32_t closing;           /* es_ring_close */

    _Alignas(64) _Atomic uint64_t tail; /* end of what was released */
    _Atomic uint64_t committed;         /* frames known to be in the file */
    _Atomic uint32_t space_bell;        /* futex of the waiting producer */
    _Atomic uint64_t said;              /* checksum of last_words; 0: none */

    _Alignas(64) _Atomic uint64_t wake_at; /* head at which the consumer wants
                                              to be woken */
    _Atomic uint32_t bell;                 /* futex of the sleeping consumer */
    _Atomic uint32_t owner; /* the consumer's thread while it takes frames;
                               the kernel clears it when that thread dies */
    _Atomic uint32_t stop;  /* es_ring_request_stop */

    unsigned char last_words[ES_RING_LAST_WORDS]; /* es_ring_say */
} es_ring_words;

typedef struct es_ring {
    es_ring_words *words;
    unsigned char *data; /* capacity bytes, twice */
    uint64_t capacity;   /* a power of two, at least a page */
    uint64_t position;   /* where this side writes or reads next */
    uint64_t released;   /* tail, as this side last saw it */
    const char *name;    /* what the consumer's messages begin with; borrowed */
} es_ring;

/** Before each payload; 8-byte aligned, as the payload is. */
typedef struct es_frame {
    uint32_t bytes; /* of the payload, without padding */
    uint32_t type;
    uint32_t series;
    uint32_t mark; /* derived from the position: a stray one is noticed */
    int64_t step;
} es_frame;

/** Bytes a frame takes in the ring. */
size_t es_ring_frame_size(size_t payload);

/**
 * A file in memory, for both sides of a spawn. Checks RLIMIT_FSIZE first: the
 * kernel would otherwise kill the training process with SIGXFSZ.
 *
 *   fd  written; close-on-exec; the caller's
 *
 * ES_OK or ES_EBROKEN.
 */
es_status es_memory_file(int *fd, const char *name, size_t bytes) ES_MUST_USE;

/**
 * Makes a ring, for the producer. Every page is touched, so that no push does.
 *
 *   fd     written; the caller's; what es_ring_attach takes
 *   bytes  rounded up to a power of two and to a page
 *
 * ES_OK; ES_EARGUMENT (above ES_RING_MAX); ES_EBROKEN.
 */
es_status es_ring_create(es_ring *out, int *fd, size_t bytes) ES_MUST_USE;

/** Maps a new ring for the consumer. ES_OK; ES_EFORMAT if it is no ring of
 *  this layout, or not sealed; ES_EBROKEN if it cannot be mapped. */
es_status es_ring_attach(es_ring *out, int fd) ES_MUST_USE;

/** Unmaps. A ring of zeros is fine. */
void es_ring_detach(es_ring *ring);

/* The producer's part. */

/**
 * Copies a frame into the ring; frame->mark is filled in. Makes no system
 * call unless the consumer wants to be woken. False if there is no space.
 */
bool es_ring_write(es_ring *ring, const es_frame *frame, const void *payload);

/** Wakes the consumer and waits until a frame fits, at most `ms`
 *  milliseconds. False if it still has none. */
bool es_ring_wait_space(es_ring *ring, size_t payload, int64_t ms);

/** Says that nothing more will come, and how the run ended (below 256). To be
 *  repeated while the consumer does not answer: it repairs what was
 *  overwritten since. */
void es_ring_close(es_ring *ring, uint32_t run_status);

/** What es_ring_say left, n bytes of it; waits for it at most `ms`
 *  milliseconds, or until any bell. False: nothing, or not what was said. */
bool es_ring_hear(const es_ring *ring, void *words, size_t n, int64_t ms);

bool es_ring_stop_requested(const es_ring *ring);

/* The consumer's part. */

/** Gives the ring up (process/watch.h takes it): no push succeeds any more. */
void es_ring_disown(es_ring *ring);

/** Leaves n bytes for the producer, ES_RING_LAST_WORDS at most, once. Fit for a
 *  signal handler. */
void es_ring_say(es_ring *ring, const void *words, size_t n);

/** Whether the producer has closed the ring. run_status may be NULL. */
bool es_ring_is_closed(const es_ring *ring, uint32_t *run_status);

void es_ring_request_stop(es_ring *ring);

/** Position up to which frames are there now. */
uint64_t es_ring_head(const es_ring *ring);

/**
 * Reads the next frame.
 *
 *   payload  (size) written; at least 8-byte aligned
 *
 * ES_OK; ES_DONE (nothing unread); ES_EFORMAT (the ring is corrupt, or the
 * payload is larger than size).
 */
es_status es_ring_read(es_ring *ring, es_frame *frame, void *payload,
                       size_t size) ES_MUST_USE;

/** Goes back to the first frame that was not released. */
void es_ring_rewind(es_ring *ring);

/** Gives the space of all frames read so far back to the producer, which
 *  learns that `frames` of them in all are committed. */
void es_ring_release(es_ring *ring, uint64_t frames);

/** A snapshot for es_ring_wait: take it, look whether there is reason not to
 *  sleep, then wait. */
uint32_t es_ring_bell(const es_ring *ring);

/** Wakes the consumer; also from another of its threads. */
void es_ring_wake(es_ring *ring);

/**
 * Sleeps until `bytes` are unread, the bell was rung since the snapshot, or
 * `ms` milliseconds have passed (never, if negative). More bytes than the
 * capacity: until the bell or the time.
 */
void es_ring_wait(es_ring *ring, uint32_t bell, size_t bytes, int64_t ms);

#endif
