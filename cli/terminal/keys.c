/* Keys out of the bytes of a terminal: a byte, ESC [ LETTER, ESC O LETTER or
   ESC [ NUMBER ~. */
#include "cli/terminal/keys.h"

enum { PLAIN, AFTER_ESCAPE, IN_SEQUENCE };

typedef struct binding {
    unsigned char code; /* a byte, or a number */
    es_key key;
} binding;

static const binding plain[] = {{'q', ES_KEY_QUIT},        {'Q', ES_KEY_QUIT},
                                {' ', ES_KEY_SPACE},       {'s', ES_KEY_SERIES},
                                {'S', ES_KEY_SERIES_BACK}, {0, ES_KEY_NONE}};
static const binding lettered[] = {{'A', ES_KEY_UP},    {'B', ES_KEY_DOWN},
                                   {'C', ES_KEY_RIGHT}, {'D', ES_KEY_LEFT},
                                   {'H', ES_KEY_HOME},  {'F', ES_KEY_END},
                                   {0, ES_KEY_NONE}};
static const binding numbered[] = {{1, ES_KEY_HOME},    {7, ES_KEY_HOME},
                                   {4, ES_KEY_END},     {8, ES_KEY_END},
                                   {5, ES_KEY_PAGE_UP}, {6, ES_KEY_PAGE_DOWN},
                                   {0, ES_KEY_NONE}};

static es_key find(const binding *bindings, int code)
{
    while (bindings->key != ES_KEY_NONE && bindings->code != code)
        bindings++;
    return bindings->key;
}

static es_key take_in_sequence(es_keys *keys, unsigned char byte)
{
    if (byte >= 0x40 && byte <= 0x7e) {
        keys->state = PLAIN;
        return byte == '~' ? find(numbered, keys->number)
                           : find(lettered, byte);
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
    return find(plain, byte);
}
