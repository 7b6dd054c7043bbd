/**
 * A descriptor in a process that is not ours: the host may close every one
 * that it does not know, and its own files get the numbers.
 */
#ifndef ES_HELD_H
#define ES_HELD_H

#include <stdbool.h>
#include <sys/types.h>

typedef struct es_held {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
} es_held;

/** Takes `fd` over; -1 stays -1. */
es_held es_held_take(int fd);

/** Whether the number still is what it was. */
bool es_held_is_ours(const es_held *held);

/** Closes it if it is ours. */
void es_held_close(es_held *held);

#endif
