/** Whether people want colours on a stream. */
#ifndef ES_COLOUR_H
#define ES_COLOUR_H

#include <stdbool.h>
#include <stdio.h>

/** By the environment: none with NO_COLOR, colours with FORCE_COLOR, else on a
 *  terminal that is not TERM=dumb. Empty variables count as absent. */
bool es_colour_suits(FILE *stream);

#endif
