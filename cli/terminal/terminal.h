/** What the terminal can show. */
#ifndef ES_TERMINAL_H
#define ES_TERMINAL_H

#include <stdbool.h>

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

#endif
