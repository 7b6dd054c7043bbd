/**
 * The file by which ranks find each other: rank 0 writes where it listens,
 * under a key that the others have to know, and removes the file when all are
 * there. Lines of text:
 *
 *     entropy-train ranks 1
 *     key 0123456789abcdef0123456789abcdef
 *     host NAME
 *     port 40123
 *     address 10.1.2.3          IPv4, one line for each of the host's
 *
 * One that a killed training left is overwritten; another file never is.
 */
#ifndef ES_RANKS_ADDRESS_H
#define ES_RANKS_ADDRESS_H

#include "analyzer/base/status.h"
#include <stdbool.h>

#define ES_MAX_ADDRESSES 8

/** Where a rank listens. */
typedef struct es_address {
    char key[33], host[64];
    int port;
    int n_addresses;
    char addresses[ES_MAX_ADDRESSES][16];
} es_address;

/**
 * Reads such a file. ES_OK; ES_ENOTFOUND (there is none yet); ES_EUSAGE (it is
 * another kind of file); ES_EIO.
 */
es_status es_address_read(es_address *out, const char *path) ES_MUST_USE;

/** Writes it, readable by its owner alone; whole or not at all. ES_OK; ES_EIO.
 */
es_status es_address_write(const es_address *place,
                           const char *path) ES_MUST_USE;

/** This host's name and addresses, and a new key; port 0. ES_OK; ES_EIO. */
es_status es_address_find(es_address *out) ES_MUST_USE;

#endif
