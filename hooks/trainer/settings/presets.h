/** The configurations of the papers' tables by name: --preset. */
#ifndef ES_PRESETS_H
#define ES_PRESETS_H

#include "analyzer/base/status.h"

#include <stdbool.h>
#include <stdio.h>

#define ES_PRESET_NAME_SIZE 64

/** The option that prints the presets instead: --preset list. */
#define ES_PRESETS_LIST "list"

/** A preset of presets.txt: a line of it, at one of two sizes. */
typedef struct es_preset {
    char name[ES_PRESET_NAME_SIZE];
    char size[64];     /* "gpt2-l12-t128", "gpt2-l12-t128-tiny" */
    char arch[64];     /* "SM+LN+G" */
    char figure[128];  /* what the papers report at the published size */
    char options[128]; /* its own, "gamma=0.1" */
    const char *next;  /* es_preset_next's */
    bool is_tiny;
} es_preset;

/** The first preset if all of *preset is 0, else the one that follows it:
 *  those of the published sizes in the order of the table, then the tiny ones.
 *  False: there is none. */
bool es_preset_next(es_preset *preset);

/**
 * ES_OK; ES_EUSAGE: there is no such preset, and it is not "list". The message
 * names the nearest one.
 *
 *   where  what the message begins with: "--preset", "demo.conf:3: preset"
 */
es_status es_preset_check(const char *name, const char *where) ES_MUST_USE;

/** Takes an option of a preset. Anything but ES_OK ends them. */
typedef es_status es_preset_taker(void *user, const char *option,
                                  const char *value);

/**
 * Calls `take` for each option of the preset, in their order: a later value
 * overrides. ES_OK, also where there is no such preset; ES_EINTERNAL: the
 * table is wrong; what `take` returned.
 */
es_status es_preset_options(const char *name, es_preset_taker *take,
                            void *user) ES_MUST_USE;

/** All of them as a table: name, architecture, what the papers report. */
void es_presets_print(FILE *out);

#endif
