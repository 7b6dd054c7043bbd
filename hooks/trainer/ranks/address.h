/**
 * Reads and writes the rendezvous file, by which ranks find rank 0. Rank 0
 * writes its address and a key, which the other ranks must send, and removes
 * the file once all ranks are connected. The file is text:
 *
 *     entropy-train ranks 1
 *     key 0123456789abcdef0123456789abcdef
 *     host NAME
 *     port 40123
 *     address 10.1.2.3          one line for each IPv4 address
 *
 * A rendezvous file left by a killed training run is overwritten; a file of any
 * other kind is never overwritten.
 */
#ifndef ES_RANKS_ADDRESS_H
#define ES_RANKS_ADDRESS_H

#include "analyzer/base/status.h"
#include <stdbool.h>

#define ES_MAX_ADDRESSES 8

/** The address where a rank listens. */
typedef struct es_address {
    char key[33], host[64];
    int port;
    int n_addresses;
    char addresses[ES_MAX_ADDRESSES][16];
} es_address;

/**
 * Reads a rendezvous file. Returns ES_OK; ES_ENOTFOUND if it does not exist
 * yet; ES_EUSAGE if the file is not a rendezvous file; or ES_EIO.
 */
es_status es_address_read(es_address *out, const char *path) ES_MUST_USE;

/** Writes the rendezvous file, which appears complete or not at all. Only the
 *  file's owner can read it. Returns ES_OK or ES_EIO. */
es_status es_address_write(const es_address *place,
                           const char *path) ES_MUST_USE;

/** Finds this host's name and addresses, generates a random key, and sets the
 *  port to 0. Returns ES_OK or ES_EIO. */
es_status es_address_find(es_address *out) ES_MUST_USE;

#endif
