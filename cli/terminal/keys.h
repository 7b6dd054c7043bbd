/** Keys of the live view. */
#ifndef ES_KEYS_H
#define ES_KEYS_H

#include <stdbool.h>

typedef enum es_key {
    ES_KEY_NONE, /* in the middle of one, or one that means nothing */
    ES_KEY_QUIT,
    ES_KEY_LEFT,
    ES_KEY_RIGHT,
    ES_KEY_UP,
    ES_KEY_DOWN,
    ES_KEY_PAGE_UP,
    ES_KEY_PAGE_DOWN,
    ES_KEY_HOME,
    ES_KEY_END,
    ES_KEY_SPACE,
    ES_KEY_SERIES,     /* s */
    ES_KEY_SERIES_BACK /* S */
} es_key;

/** What came of a sequence so far; begins as zero. */
typedef struct es_keys {
    int state;
    int number;     /* its first parameter, as 5 in ESC [ 5 ~ */
    bool is_closed; /* it has ended; a second one is for Shift and such */
} es_keys;

/** The key that a byte completes. Sequences may come in pieces; those of
 *  xterm, rxvt and the Linux console are known. */
es_key es_keys_take(es_keys *keys, unsigned char byte);

#endif
