/**
 * A ring of bytes in shared memory: the training process writes frames, the
 * recorder reads them. One producer, one consumer, no lock.
 *
 * The memory is a sealed memfd (or the replacement that es_kernel_memory_file
 * provides), which other processes cannot open: a page of words (struct
 * es_ring_words), then `capacity` bytes. Both sides map these bytes twice in a
 * row, so that no frame is split at the end. Positions count bytes since the
 * start and never wrap. The consumer releases the space of a frame only after
 * the commit, so that it can read the frame again if the transaction fails.
 *
 * The consumer does not trust the memory: it copies a frame's header, checks
 * it, then copies the rest, and keeps its own position and capacity. Nor does
 * the producer, because a bug of the training process may overwrite any word. A
 * word that ends something (closing, stop, said) must contain a mark or a
 * checksum, not just 1; any other value is ignored.
 */
#ifndef ES_RING_H
#define ES_RING_H

#include "analyzer/base/kernel.h"
#include "analyzer/base/status.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ES_RING_MAX ((size_t)1 << 30) /* largest capacity in bytes */
#define ES_RING_LAST_WORDS 1152       /* most bytes that es_ring_say takes */

/**
 * The shared words. The words that the producer writes at each push, those that
 * the consumer writes at each commit, and those that rarely change have
 * separate cache lines: a push reads the latter without waiting for another
 * core.
 */
typedef struct es_ring_words {
    /* Written before the consumer starts. */
    uint32_t magic, layout;
    uint64_t capacity;

    _Alignas(64) _Atomic uint64_t head; /* end of the last complete frame */
    _Atomic uint64_t dropped;           /* frames that did not fit */
    _Atomic uint32_t wants_space;       /* 1: the producer waits for space */
    _Atomic uint32_t closing;           /* set by es_ring_close */

    _Alignas(64) _Atomic uint64_t tail; /* end of the released space */
    _Atomic uint64_t committed;         /* frames known to be in the file */
    _Atomic uint32_t space_bell;        /* futex of the waiting producer */
    _Atomic uint64_t said;              /* checksum of last_words; 0: no last
                                           words yet */

    _Alignas(64) _Atomic uint64_t wake_at; /* head at which the consumer wants
                                              to be woken */
    _Atomic uint32_t bell;                 /* futex of the sleeping consumer */
    _Atomic uint32_t owner; /* thread id of the consumer while it reads frames;
                               the kernel replaces it when that thread dies */
    _Atomic uint32_t stop;  /* set by es_ring_request_stop */

    unsigned char last_words[ES_RING_LAST_WORDS]; /* set by es_ring_say */
} es_ring_words;

typedef struct es_ring {
    es_ring_words *words;
    unsigned char *data; /* (capacity) mapped twice */
    uint64_t capacity;   /* a power of two, at least a page */
    uint64_t position;   /* next byte that this side writes or reads */
    uint64_t released;   /* tail, as this side last read it */
    const char *name;    /* prefix of the consumer's messages; borrowed */
} es_ring;

/** Header of each payload; 8-byte aligned, as is the payload. */
typedef struct es_frame {
    uint32_t bytes; /* size of the payload, without padding */
    uint32_t type;
    uint32_t series;
    uint32_t mark; /* derived from the position, so that a stray header is
                      detected */
    int64_t step;
} es_frame;

/** Returns the number of bytes that a frame takes in the ring. */
size_t es_ring_frame_size(size_t payload);

/**
 * Makes a file in memory that both sides of a spawn can use. Checks
 * RLIMIT_FSIZE first: the kernel would otherwise kill the training process with
 * SIGXFSZ.
 *
 *   fd  written; close-on-exec; owned by the caller
 *
 * ES_OK or ES_EBROKEN.
 */
es_status es_memory_file(int *fd, const char *name, size_t bytes) ES_MUST_USE;

/**
 * Makes a ring for the producer. Touches every page, so that pushes cause no
 * page faults.
 *
 *   fd     written, for es_ring_attach; owned by the caller
 *   bytes  rounded up to a power of two and to a page
 *
 * ES_OK; ES_EARGUMENT (above ES_RING_MAX); ES_EBROKEN.
 */
es_status es_ring_create(es_ring *out, int *fd, size_t bytes) ES_MUST_USE;

/**
 * Maps a new ring for the consumer. ES_OK; ES_EFORMAT if fd is not a ring of
 * this layout, or is not sealed; ES_EBROKEN if it cannot be mapped.
 */
es_status es_ring_attach(es_ring *out, int fd) ES_MUST_USE;

/** Unmaps the ring. A ring of zeros is allowed. */
void es_ring_detach(es_ring *ring);

/* --- producer ------------------------------------------------------------- */

/**
 * Copies a frame into the ring and fills in frame->mark. Makes no system call
 * unless the consumer wants to be woken. Returns false if there is no space.
 */
bool es_ring_write(es_ring *ring, const es_frame *frame, const void *payload);

/**
 * Wakes the consumer and waits at most `ms` milliseconds until a frame fits.
 * Returns false if it still does not fit.
 */
bool es_ring_wait_space(es_ring *ring, size_t payload, int64_t ms);

/**
 * Informs the consumer that no frame will follow, and how the run ended (a
 * number below 256). Call it repeatedly while the consumer does not answer: it
 * repairs words that were overwritten in the meantime.
 */
void es_ring_close(es_ring *ring, uint32_t run_status);

/**
 * Copies the n bytes that es_ring_say left. Waits for them at most `ms`
 * milliseconds, or until any bell. Returns false if there are none, or if their
 * checksum is wrong.
 */
bool es_ring_hear(const es_ring *ring, void *words, size_t n, int64_t ms);

bool es_ring_stop_requested(const es_ring *ring);

/* --- consumer ------------------------------------------------------------- */

/**
 * Gives up the ring, which es_watch_own (process/watch.h) took: pushes fail
 * from now on.
 */
void es_ring_disown(es_ring *ring);

/**
 * Leaves n bytes, at most ES_RING_LAST_WORDS, for the producer. Call it once;
 * it is safe in a signal handler.
 */
void es_ring_say(es_ring *ring, const void *words, size_t n);

/** Returns true if the producer has closed the ring. run_status may be NULL. */
bool es_ring_is_closed(const es_ring *ring, uint32_t *run_status);

void es_ring_request_stop(es_ring *ring);

/** Returns the position up to which frames are complete. */
uint64_t es_ring_head(const es_ring *ring);

/**
 * Reads the next frame.
 *
 *   payload  (size) written; at least 8-byte aligned
 *
 * ES_OK; ES_DONE (no unread frame); ES_EFORMAT (the ring is corrupt, or the
 * payload is larger than size).
 */
es_status es_ring_read(es_ring *ring, es_frame *frame, void *payload,
                       size_t size) ES_MUST_USE;

/** Goes back to the first frame that was not released. */
void es_ring_rewind(es_ring *ring);

/**
 * Releases the space of all frames read so far and informs the producer that
 * `frames` frames in total are committed.
 */
void es_ring_release(es_ring *ring, uint64_t frames);

/**
 * Takes a snapshot for es_ring_wait: take it, check whether there is a reason
 * not to sleep, then wait.
 */
uint32_t es_ring_bell(const es_ring *ring);

/** Wakes the consumer; other threads of the consumer may call it too. */
void es_ring_wake(es_ring *ring);

/**
 * Sleeps until `bytes` are unread, the bell has rung since the snapshot, or
 * `ms` milliseconds have passed (never, if negative). If `bytes` exceeds the
 * capacity, only the bell and the time count.
 */
void es_ring_wait(es_ring *ring, uint32_t bell, size_t bytes, int64_t ms);

#endif
