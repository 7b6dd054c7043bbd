/**
 * Detects the capabilities of the terminal, and switches the terminal to the
 * mode of the live view (alternate screen, hidden cursor, keys without Enter).
 * The terminal is restored whenever the process ends or is stopped, except by
 * SIGKILL.
 */
#ifndef ES_TERMINAL_H
#define ES_TERMINAL_H

#include "render/screen.h"
#include <stddef.h>

typedef struct es_terminal {
    es_depth depth;
    int width, height; /* columns, rows */
} es_terminal;

/** Environment variables that describe the terminal; each may be NULL. */
typedef struct es_terminal_variables {
    const char *term, *colorterm, *no_color;
    const char *lc_all, *lc_ctype, *lang;
} es_terminal_variables;

/**
 * Returns which colours and characters a terminal supports. The result is
 * ES_DEPTH_ASCII if TERM is unset, dumb or names a terminal without colours
 * (vt...), if NO_COLOR is set, or if the charset of the locale is not UTF-8.
 * The charset is taken from the name of the locale, which describes the
 * terminal even if the locale is not installed.
 */
es_depth es_terminal_depth(const es_terminal_variables *variables);

/**
 * Detects the capabilities and the size of the terminal of standard output; an
 * unknown size is set to 80 x 24.
 */
void es_terminal_detect(es_terminal *out);

/** Returns false if the cursor cannot be moved, because TERM is unset or
 *  dumb. */
bool es_terminal_has_cursor(void);

/**
 * Switches the terminal of standard output to the mode of the live view, and
 * also standard input if it is a terminal. Must be followed by es_tty_give_back
 * before the next call.
 */
void es_tty_take(void);

/** Restores the terminal's previous mode; does nothing if es_tty_take was not
 *  called. */
void es_tty_give_back(void);

/**
 * Returns true if the terminal was resized or the process was resumed after a
 * stop, since the last call. The screen must then be redrawn.
 */
bool es_tty_was_changed(void);

/**
 * Waits for keys or for a change of the terminal, at most the given number of
 * milliseconds. Returns the number of bytes read, 0 if no key arrived, -1 if
 * the terminal was closed.
 */
int es_tty_wait(unsigned char *out, size_t size, int milliseconds);

/** Writes all n bytes. Returns ES_OK or ES_EIO. */
es_status es_tty_write(const char *bytes, size_t n) ES_MUST_USE;

#endif
