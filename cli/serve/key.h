/** The key of a run, which names the run in requests and links. */
#ifndef ES_SERVE_RUN_KEY_H
#define ES_SERVE_RUN_KEY_H

#include "cli/serve/messages.h"

/**
 * Writes the key, which has 16 hexadecimal digits and no terminating NUL. It
 * depends on the path of the run file without symbolic links (or the URL) and
 * on the run's uuid, or on its number in the file if it has no uuid.
 */
void es_serve_key(char out[ES_SERVE_KEY], const char *path, const char *uuid,
                  size_t number);

#endif
