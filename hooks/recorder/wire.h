/**
 * Defines the messages between the training process and the recorder: the
 * greeting that the recorder gets at its start, the payloads of the ring's
 * frames, and the recorder's replies.
 */
#ifndef ES_WIRE_H
#define ES_WIRE_H

#include "analyzer/base/pack.h"
#include "analyzer/base/status.h"
#include "store/run.h"
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/**
 * File descriptors that are open when the recorder starts, in addition to 0, 1
 * and 2.
 */
enum {
    ES_FD_RING = 3, /* memfd: ring.h */
    ES_FD_HELLO,    /* memfd that contains a packed es_hello */
    ES_FD_CONTROL,  /* socket for an es_reply; if the other end is closed, the
                       trainer may have ended */
    ES_FD_TRAINER,  /* pidfd of the training process, or /dev/null if no pidfd
                       is available */
    ES_FD_END
};

/**
 * A reply of the recorder, which sends at most two replies. The first goes
 * through the socket when the file is open or refused; the second is left in
 * the ring (es_ring_say) when the recorder has released the file for any
 * reason. The second reply cannot use the socket, because the training process
 * may have closed every descriptor that it had not opened itself. If the
 * recorder ends without a reply, the training process gets ES_EBROKEN.
 */
typedef struct es_reply {
    int64_t code;       /* es_status */
    uint64_t committed; /* number of samples, maps and events that were
                           committed to the run file */
    char text[ES_MESSAGE_MAX];
} es_reply;

enum { ES_FRAME_SERIES = 1, ES_FRAME_SAMPLE, ES_FRAME_EVENT, ES_FRAME_MAP };

/* Maximum total length in bytes of all strings in a frame. */
#define ES_FRAME_TEXT_MAX 4096
/* Maximum size in bytes of a packed es_hello. */
#define ES_HELLO_MAX ((size_t)1 << 26)

/**
 * The greeting: the first message from the training process to the recorder. It
 * contains everything that the recorder needs to open the file.
 */
typedef struct es_hello {
    const char *path;
    es_run_info run; /* strings borrowed */
    int64_t resume_step;
    int64_t trainer; /* pid of the training process, for messages */
    int64_t store;   /* es_store */
} es_hello;

void es_pack_hello(es_pack *pack, es_hello *hello);

/**
 * Payload of ES_FRAME_SERIES. The header's member `series` is the number of the
 * series.
 */
typedef struct es_series_frame {
    const char *name, *unit;
    int64_t shape, phase;
} es_series_frame;

void es_pack_series(es_pack *pack, es_series_frame *series);

/** Payload of ES_FRAME_EVENT, whose header contains the step. */
typedef struct es_event_frame {
    const char *kind, *message;
    int64_t severity;
} es_event_frame;

void es_pack_event(es_pack *pack, es_event_frame *event);

/**
 * Payload of ES_FRAME_MAP. Only the first size * size elements of `values` are
 * sent.
 */
typedef struct es_map_frame {
    int64_t phase, layer, head, size, n_ctx;
    float values[ES_MAP_MAX * ES_MAP_MAX];
} es_map_frame;

/** Maximum size of a frame's payload in bytes. A ring of any size has space for
 *  such a frame. */
#define ES_FRAME_MAX sizeof(es_map_frame)

#endif
