/* Computes the key of a run, a 64-bit FNV-1a hash of its path and its uuid (or
   its number). */
#include "cli/serve/key.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static uint64_t add_text(uint64_t hash, const char *text)
{
    for (const char *at = text; *at; at++)
        hash = (hash ^ (unsigned char)*at) * UINT64_C(1099511628211);
    return (hash ^ '\n') * UINT64_C(1099511628211);
}

void es_serve_key(char out[ES_SERVE_KEY], const char *path, const char *uuid,
                  size_t number)
{
    char real[PATH_MAX], text[ES_SERVE_KEY + 1], in_file[32];
    snprintf(in_file, sizeof in_file, "%zu", number);
    uint64_t hash = add_text(UINT64_C(14695981039346656037),
                             realpath(path, real) ? real : path);
    hash = add_text(hash, uuid && *uuid ? uuid : in_file);
    snprintf(text, sizeof text, "%016llx", (unsigned long long)hash);
    memcpy(out, text, ES_SERVE_KEY);
}
