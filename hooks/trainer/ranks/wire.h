/** Transfers bytes over a connection between ranks with a time limit, and
 *  defines the packets that rendezvous.c and transport.c exchange. */
#ifndef ES_RANKS_WIRE_H
#define ES_RANKS_WIRE_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stdint.h>

enum { ES_PACKET_DATA = 1, ES_PACKET_ABORT, ES_PACKET_TABLE };

/** Header of a packet, sent in this binary form: all ranks must run on the same
 *  kind of machine. */
typedef struct es_packet {
    uint32_t magic, kind;
    uint64_t number; /* sequence number of the exchange to which the packet
                      * belongs */
    uint64_t bytes;  /* length of the payload in bytes */
    int32_t code;    /* status code, if the packet reports a failure (an
                      * abort) */
    int32_t origin;  /* rank that failed, or -1 - rank if a rank is lost */
} es_packet;

#define ES_PACKET_MAGIC 0x6b6e6172u

/** Returns the time of a monotonic clock in seconds. */
double es_wire_now(void);

/** Transfer all n bytes within `seconds`. Return ES_OK, or ES_EIO with a
 *  message that does not name the rank; the caller adds the name. */
es_status es_wire_send(int fd, const void *bytes, size_t n,
                       double seconds) ES_MUST_USE;
es_status es_wire_receive(int fd, void *bytes, size_t n,
                          double seconds) ES_MUST_USE;

/** Receives the rest of an abort, which is a packet that reports a failure;
 *  `packet` is its header. Sets the calling thread's message to the abort's
 *  message, and returns the abort's status code. */
es_status es_wire_take_abort(int fd, const es_packet *packet);

/** Sends a packet that reports a failure (an abort). Returns true if the other
 *  side was still able to receive it. */
bool es_wire_send_abort(int fd, es_status code, int origin,
                        const char *message);

#endif
