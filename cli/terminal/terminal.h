/**
 * The terminal: its capabilities, and its mode for a live view, which uses the
 * alternate screen, hides the cursor and reads single keys. The terminal is
 * restored whenever the process ends or is stopped, except by SIGKILL.
 */
#ifndef ES_TERMINAL_H
#define ES_TERMINAL_H

#include "analyzer/base/status.h"
#include <stdbool.h>
#include <stddef.h>

typedef enum es_depth {
    ES_DEPTH_ASCII, /* no colours, and no characters beyond ASCII */
    ES_DEPTH_256,   /* block characters, the colours of xterm's cube */
    ES_DEPTH_TRUE   /* block characters, 24 bits of colour */
} es_depth;

typedef struct es_terminal {
    es_depth depth;
    int width, height; /* columns, rows */
} es_terminal;

/** Environment variables; each may be NULL. */
typedef struct es_terminal_variables {
    const char *term, *colorterm, *no_color;
    const char *lc_all, *lc_ctype, *lang;
} es_terminal_variables;

/**
 * Returns the depth of a terminal. It is ASCII if TERM is unset, dumb or a
 * terminal without colours (vt...), if NO_COLOR is set, or if the locale's
 * charset is not UTF-8. The charset is taken from the locale's name, which
 * describes the terminal even if the locale is not installed.
 */
es_depth es_terminal_depth(const es_terminal_variables *variables);

/** Detects the terminal of standard output; the size is 80 x 24 if unknown. */
void es_terminal_detect(es_terminal *out);

/** Returns false if the cursor cannot be moved, because TERM is unset or
 *  dumb. */
bool es_terminal_has_cursor(void);

/** Takes over the terminal of standard output, and of standard input if that is
 * a terminal. Not reentrant. */
void es_tty_take(void);

/** Restores the terminal; does nothing if it is not taken over. */
void es_tty_give_back(void);

/** Returns true once after the terminal was resized or the process continued,
 * when the screen must be redrawn. */
bool es_tty_was_changed(void);

/**
 * Waits for keys or a changed terminal, at most for the given milliseconds.
 * Returns the number of bytes read, 0 if there are none, -1 if the terminal is
 * gone.
 */
int es_tty_wait(unsigned char *out, size_t size, int milliseconds);

/** Writes all n bytes. Returns ES_OK or ES_EIO. */
es_status es_tty_write(const char *bytes, size_t n) ES_MUST_USE;

#endif
