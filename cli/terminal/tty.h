/**
 * The terminal while a live view has it: the alternate screen, no cursor, keys
 * as they are pressed. Whatever ends or stops the process gives it back first,
 * but for SIGKILL.
 */
#ifndef ES_TTY_H
#define ES_TTY_H

#include "analyzer/base/status.h"

#include <stdbool.h>
#include <stddef.h>

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
