/* What the terminal can show, from its environment and its size. */
#include "cli/terminal/terminal.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <unistd.h>

static bool is_set(const char *value)
{
    return value && *value;
}

static bool is_utf8(const es_terminal_variables *variables)
{
    const char *name = is_set(variables->lc_all)     ? variables->lc_all
                       : is_set(variables->lc_ctype) ? variables->lc_ctype
                                                     : variables->lang;
    const char *charset = name ? strchr(name, '.') : NULL;
    return charset && (strncasecmp(charset, ".utf-8", 6) == 0 ||
                       strncasecmp(charset, ".utf8", 5) == 0);
}

es_depth es_terminal_depth(const es_terminal_variables *variables)
{
    const char *term = variables->term, *colours = variables->colorterm;
    if (!is_set(term) || strcmp(term, "dumb") == 0 ||
        strncmp(term, "vt", 2) == 0 || is_set(variables->no_color) ||
        !is_utf8(variables))
        return ES_DEPTH_ASCII;
    if (colours &&
        (strcmp(colours, "truecolor") == 0 || strcmp(colours, "24bit") == 0))
        return ES_DEPTH_TRUE;
    return ES_DEPTH_256;
}

void es_terminal_detect(es_terminal *out)
{
    const es_terminal_variables variables = {
        .term = getenv("TERM"),
        .colorterm = getenv("COLORTERM"),
        .no_color = getenv("NO_COLOR"),
        .lc_all = getenv("LC_ALL"),
        .lc_ctype = getenv("LC_CTYPE"),
        .lang = getenv("LANG"),
    };
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *out = (es_terminal){.depth = es_terminal_depth(&variables),
                         .width = known && size.ws_col ? size.ws_col : 80,
                         .height = known && size.ws_row ? size.ws_row : 24};
}

bool es_terminal_has_cursor(void)
{
    const char *term = getenv("TERM");
    return is_set(term) && strcmp(term, "dumb") != 0;
}
