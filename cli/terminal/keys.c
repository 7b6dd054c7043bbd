#include "cli/terminal/keys.h"

enum { PLAIN, AFTER_ESCAPE, IN_SEQUENCE };

static es_key plain_key(unsigned char byte)
{
    switch (byte) {
    case 'q':
    case 'Q':
        return ES_KEY_QUIT;
    case ' ':
        return ES_KEY_SPACE;
    case 's':
        return ES_KEY_SERIES;
    case 'S':
        return ES_KEY_SERIES_BACK;
    default:
        return ES_KEY_NONE;
    }
}

/* ESC [ number ~ */
static es_key numbered_key(int number)
{
    switch (number) {
    case 1:
    case 7:
        return ES_KEY_HOME;
    case 4:
    case 8:
        return ES_KEY_END;
    case 5:
        return ES_KEY_PAGE_UP;
    case 6:
        return ES_KEY_PAGE_DOWN;
    default:
        return ES_KEY_NONE;
    }
}

static es_key final_key(unsigned char byte, int number)
{
    switch (byte) {
    case 'A':
        return ES_KEY_UP;
    case 'B':
        return ES_KEY_DOWN;
    case 'C':
        return ES_KEY_RIGHT;
    case 'D':
        return ES_KEY_LEFT;
    case 'H':
        return ES_KEY_HOME;
    case 'F':
        return ES_KEY_END;
    case '~':
        return numbered_key(number);
    default:
        return ES_KEY_NONE;
    }
}

static es_key take_in_sequence(es_keys *keys, unsigned char byte)
{
    if (byte >= 0x40 && byte <= 0x7e) {
        keys->state = PLAIN;
        return final_key(byte, keys->number);
    }
    keys->is_closed = keys->is_closed || byte < '0' || byte > '9';
    if (!keys->is_closed && keys->number < 100)
        keys->number = keys->number * 10 + byte - '0';
    return ES_KEY_NONE;
}

es_key es_keys_take(es_keys *keys, unsigned char byte)
{
    if (byte == 0x1b) {
        *keys = (es_keys){.state = AFTER_ESCAPE};
        return ES_KEY_NONE;
    }
    if (keys->state == IN_SEQUENCE)
        return take_in_sequence(keys, byte);
    if (keys->state == AFTER_ESCAPE && (byte == '[' || byte == 'O')) {
        *keys = (es_keys){.state = IN_SEQUENCE};
        return ES_KEY_NONE;
    }
    keys->state = PLAIN;
    return plain_key(byte);
}
