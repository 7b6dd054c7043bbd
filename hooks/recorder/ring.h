/**
 * A ring buffer in shared memory, into which the training process writes frames
 * and from which the recorder reads them. The ring has one producer, one
 * consumer and no lock.
 *
 * The memory is a sealed memfd (or the replacement that es_kernel_memory_file
 * provides), which other processes cannot open. It consists of a page of words
 * (struct es_ring_words) and `capacity` bytes of data. Both sides map the data
 * twice in a row, so that no frame is split at the end. Positions count bytes
 * since the start and never wrap. The consumer releases the space of a frame
 * only after the commit, so that it can read the frame again if the transaction
 * fails.
 *
 * Neither side trusts the memory, because a bug of the training process may
 * overwrite any word. The consumer copies a frame's header, checks the copy,
 * then copies the rest of the frame; it keeps its position and the capacity in
 * private memory. The words that end the recording or the training (closing,
 * stop, said) are valid only if they contain a fixed mark or a checksum, which
 * other values hardly ever match by accident.
 */
#ifndef ES_RING_H
#define ES_RING_H

#include "analyzer/base/kernel.h"
#include "analyzer/base/status.h"
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ES_RING_MAX ((size_t)1 << 30) /* maximum capacity in bytes */
/* Maximum length in bytes of the message that es_ring_say accepts. */
#define ES_RING_LAST_WORDS 1152

/**
 * The shared words. The words that the producer writes at each push, the words
 * that the consumer writes at each commit, and the words that rarely change are
 * in separate cache lines, so that a push can read the rarely changed words
 * without waiting for another core.
 */
typedef struct es_ring_words {
    /* The producer writes these members before the consumer starts. */
    uint32_t magic, layout;
    uint64_t capacity;

    _Alignas(64) _Atomic uint64_t head; /* position of the end of the last
                                           complete frame */
    _Atomic uint64_t dropped;           /* number of frames that did not fit */
    _Atomic uint32_t wants_space;       /* 1 while the producer waits for
                                           space */
    _Atomic uint32_t closing; /* 0, or a fixed number plus the run's status, set
                                 by es_ring_close */

    _Alignas(64) _Atomic uint64_t tail; /* position of the end of the
                                           released space */
    _Atomic uint64_t committed;         /* number of frames known to be in
                                           the file */
    _Atomic uint32_t space_bell;        /* futex on which the producer waits */
    _Atomic uint64_t said;              /* checksum of last_words; 0 before
                                           last_words is set */

    _Alignas(64) _Atomic uint64_t wake_at; /* value of `head` at which the
                                              consumer wants to be woken */
    _Atomic uint32_t bell;                 /* futex on which the consumer
                                              sleeps */
    _Atomic uint32_t owner; /* id of the consumer's thread while it reads
                               frames; the kernel replaces the id when that
                               thread dies */
    _Atomic uint32_t stop;  /* a fixed value once a stop of training was
                               requested, set by es_ring_request_stop */

    unsigned char last_words[ES_RING_LAST_WORDS]; /* last message of the
                                                     consumer, written by
                                                     es_ring_say */
} es_ring_words;

typedef struct es_ring {
    es_ring_words *words;
    unsigned char *data; /* (capacity) bytes of data; the same memory is mapped
                            a second time right after them */
    uint64_t capacity;   /* size of the data in bytes, which is a power of two
                            and at least a page */
    uint64_t position;   /* position at which this side writes or reads next */
    uint64_t released;   /* value of the word `tail` when this side last read
                            it */
    const char *name;    /* path with which the consumer's messages begin;
                            borrowed */
} es_ring;

/** The header of a frame. Header and payload begin at multiples of 8 bytes. */
typedef struct es_frame {
    uint32_t bytes; /* size of the payload in bytes, without padding */
    uint32_t type;
    uint32_t series;
    uint32_t mark; /* value computed from the frame's position, by which the
                      reader detects bytes that are not a header */
    int64_t step;
} es_frame;

/**
 * Returns the number of bytes in the ring that a frame with a payload of this
 * size occupies.
 */
size_t es_ring_frame_size(size_t payload);

/**
 * Creates a file in memory that parent and child process can use. Checks
 * RLIMIT_FSIZE first, because the kernel would otherwise kill the training
 * process with SIGXFSZ.
 *
 *   fd  output: descriptor, close-on-exec; owned by the caller
 *
 * Returns ES_OK or ES_EBROKEN.
 */
es_status es_memory_file(int *fd, const char *name, size_t bytes) ES_MUST_USE;

/**
 * Creates a ring for the producer. Touches every page, so that pushes cause no
 * page faults.
 *
 *   fd     output: descriptor for es_ring_attach; owned by the caller
 *   bytes  capacity, rounded up to a power of two and to a page
 *
 * Returns ES_OK; ES_EARGUMENT if `bytes` exceeds ES_RING_MAX; ES_EBROKEN.
 */
es_status es_ring_create(es_ring *out, int *fd, size_t bytes) ES_MUST_USE;

/**
 * Maps a new ring for the consumer. Returns ES_OK; ES_EFORMAT if fd is not a
 * ring of this layout, or is not sealed; ES_EBROKEN if the ring cannot be
 * mapped.
 */
es_status es_ring_attach(es_ring *out, int fd) ES_MUST_USE;

/** Unmaps the ring. Does nothing if *ring is all zeros. */
void es_ring_detach(es_ring *ring);

/* --- producer ------------------------------------------------------------- */

/**
 * Copies a frame into the ring, and sets the member `mark` of the copy. Makes
 * no system call unless the consumer wants to be woken. Returns false if there
 * is no space.
 */
bool es_ring_write(es_ring *ring, const es_frame *frame, const void *payload);

/**
 * Wakes the consumer and waits at most `ms` milliseconds until a frame whose
 * payload has `payload` bytes fits. Returns false if the frame still does not
 * fit.
 */
bool es_ring_wait_space(es_ring *ring, size_t payload, int64_t ms);

/**
 * Informs the consumer that no frame will follow, and passes the run's status
 * (below 256). While the consumer does not answer, the function should be
 * called again, because each call repairs words that were overwritten in the
 * meantime.
 */
void es_ring_close(es_ring *ring, uint32_t run_status);

/**
 * Copies the last message (n bytes) that the consumer left with es_ring_say.
 * Waits for the message at most `ms` milliseconds, or until the consumer wakes
 * this process for any reason. Returns false if there is no message, or if its
 * checksum is wrong.
 */
bool es_ring_hear(const es_ring *ring, void *words, size_t n, int64_t ms);

bool es_ring_stop_requested(const es_ring *ring);

/* --- consumer ------------------------------------------------------------- */

/**
 * Ends the consumer's ownership of the ring, which began with es_watch_own
 * (process/watch.h). Afterwards the producer's calls fail.
 */
void es_ring_disown(es_ring *ring);

/**
 * Leaves a last message of n bytes, at most ES_RING_LAST_WORDS, for the
 * producer. May be called only once; is safe in a signal handler.
 */
void es_ring_say(es_ring *ring, const void *words, size_t n);

/** Returns true if the producer has closed the ring. run_status may be NULL. */
bool es_ring_is_closed(const es_ring *ring, uint32_t *run_status);

void es_ring_request_stop(es_ring *ring);

/** Returns the position at which the last complete frame ends. */
uint64_t es_ring_head(const es_ring *ring);

/**
 * Reads the next frame.
 *
 *   payload  (size) written; at least 8-byte aligned
 *
 * Returns ES_OK; ES_DONE (no unread frame); ES_EFORMAT (the ring is corrupt, or
 * the payload is larger than size).
 */
es_status es_ring_read(es_ring *ring, es_frame *frame, void *payload,
                       size_t size) ES_MUST_USE;

/** Moves the reading position back to the first frame that was not released. */
void es_ring_rewind(es_ring *ring);

/**
 * Releases the space of all frames read so far and informs the producer that
 * `frames` frames in total are committed.
 */
void es_ring_release(es_ring *ring, uint64_t frames);

/**
 * Returns the current value of the bell for es_ring_wait. The consumer gets
 * this value, checks for reasons not to sleep, then waits; if es_ring_wake is
 * called in between, the wait ends at once.
 */
uint32_t es_ring_bell(const es_ring *ring);

/** Wakes the consumer. Any thread of the consumer's process may call this. */
void es_ring_wake(es_ring *ring);

/**
 * Sleeps until `bytes` bytes are unread, es_ring_wake has been called since
 * `bell` was read, or `ms` milliseconds have passed (no limit if negative). If
 * `bytes` exceeds the capacity, the number of unread bytes is ignored.
 */
void es_ring_wait(es_ring *ring, uint32_t bell, size_t bytes, int64_t ms);

#endif
