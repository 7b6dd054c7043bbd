/** Decides whether to write colours to a stream. */
#ifndef ES_COLOUR_H
#define ES_COLOUR_H

#include <stdbool.h>
#include <stdio.h>

/**
 * Returns true if `stream` should get colours: never with NO_COLOR, always
 * with FORCE_COLOR, otherwise on a terminal unless TERM=dumb. An empty
 * variable counts as unset.
 */
bool es_colour_suits(FILE *stream);

#endif
