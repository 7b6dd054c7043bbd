/**
 * The terminal: what it can show, and taking it for a live view: the alternate
 * screen, no cursor, keys as they are pressed. Whatever ends or stops the
 * process gives it back first, but for SIGKILL.
 */
#ifndef ES_TERMINAL_H
#define ES_TERMINAL_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum es_depth {
    ES_DEPTH_ASCII, /* no colour and no character beyond ASCII */
    ES_DEPTH_256,   /* block characters, the colours of xterm's cube */
    ES_DEPTH_TRUE   /* block characters, 24 bits of colour */
} es_depth;

typedef struct es_terminal {
    es_depth depth;
    int width, height; /* columns, rows */
} es_terminal;

/** Variables of the environment; any may be NULL. */
typedef struct es_terminal_variables {
    const char *term, *colorterm, *no_color;
    const char *lc_all, *lc_ctype, *lang;
} es_terminal_variables;

/**
 * ASCII if TERM is unset, dumb or a terminal without colours (vt...), if
 * NO_COLOR is set to anything, or if the locale's charset is not UTF-8. The
 * charset is read from the locale's name: it is the terminal's even where the
 * locale itself is not installed.
 */
es_depth es_terminal_depth(const es_terminal_variables *variables);

/** Standard output's terminal; 80 x 24 where it does not know its size. */
void es_terminal_detect(es_terminal *out);

/** False where the cursor cannot be moved: TERM is unset or dumb. */
bool es_terminal_has_cursor(void);

/** Takes the terminal of standard output, and of standard input if that is
 *  one. Once at a time. */
void es_tty_take(void);

/** Gives it back; nothing if it is not taken. */
void es_tty_give_back(void);

/** True once after the terminal was resized, or the process was continued:
 *  nothing on the screen is as it was. */
bool es_tty_was_changed(void);

/**
 * Waits for keys, a changed terminal, or so many milliseconds; returns the
 * bytes of keys, 0 if there are none, -1 if there is no terminal any more.
 */
int es_tty_wait(unsigned char *out, size_t size, int milliseconds);

/** Writes all n bytes. ES_OK or ES_EIO. */
es_status es_tty_write(const char *bytes, size_t n) ES_MUST_USE;

#endif
