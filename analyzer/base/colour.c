/* Decides for every program whether to colour its output, from the variables
   NO_COLOR and FORCE_COLOR and from the terminal. */
#include "analyzer/base/colour.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *value_of(const char *name)
{
    const char *value = getenv(name);
    return value && *value ? value : NULL;
}

bool es_colour_suits(FILE *stream)
{
    const char *term = value_of("TERM");
    if (value_of("NO_COLOR"))
        return false;
    return value_of("FORCE_COLOR") ||
           (isatty(fileno(stream)) && term && strcmp(term, "dumb") != 0);
}
