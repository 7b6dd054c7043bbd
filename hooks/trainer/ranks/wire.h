/** Bytes over a connection between ranks, and the packets they come in. */
#ifndef ES_RANKS_WIRE_H
#define ES_RANKS_WIRE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { ES_PACKET_DATA = 1, ES_PACKET_ABORT, ES_PACKET_TABLE };

/** What goes before the bytes of a packet. Ranks run on one kind of machine. */
typedef struct es_packet {
    uint32_t magic, kind;
    uint64_t number; /* of the exchange that it belongs to */
    uint64_t bytes;  /* that follow; of an abort its message */
    int32_t code;    /* of an abort: the status, */
    int32_t origin;  /* and which rank failed; -1 - rank: one that is gone */
} es_packet;

#define ES_PACKET_MAGIC 0x6b6e6172u

/** Seconds of a clock that never goes back. */
double es_wire_now(void);

/** All of n bytes, in `seconds` at most. ES_OK; ES_EIO without a message that
 *  is of any use: the caller knows whom it is about. */
es_status es_wire_send(int fd, const void *bytes, size_t n,
                       double seconds) ES_MUST_USE;
es_status es_wire_receive(int fd, void *bytes, size_t n,
                          double seconds) ES_MUST_USE;

/** What an abort that has begun with `packet` says, as this thread's message.
 *  Returns its code. */
es_status es_wire_take_abort(int fd, const es_packet *packet);

/** Sends one, if the other side still reads; true if it could. */
bool es_wire_send_abort(int fd, es_status code, int origin,
                        const char *message);

#endif
