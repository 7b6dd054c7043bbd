/** The configurations of the papers' tables as named presets for --preset. */
#ifndef ES_PRESETS_H
#define ES_PRESETS_H

#include "analyzer/base/status.h"

#include <stdbool.h>
#include <stdio.h>

#define ES_PRESET_NAME_SIZE 64

/** The value of --preset that prints the names of all presets. */
#define ES_PRESETS_LIST "list"

/** A preset: one line of presets.txt, at the published size or as its tiny
 *  variant. */
typedef struct es_preset {
    char name[ES_PRESET_NAME_SIZE];
    char size[64];     /* for example "gpt2-l12-t128" or "gpt2-l12-t128-tiny" */
    char arch[64];     /* "SM+LN+G" */
    char figure[128];  /* result that the paper reports for the published
                          size, as text */
    char options[128]; /* the preset's own options, for example "gamma=0.1" */
    const char *next;  /* position in the table, for es_preset_next */
    bool is_tiny;
} es_preset;

/** Moves to the next preset, or to the first preset if *preset is zeroed. The
 *  presets of the published sizes come first, in the order of the table, then
 *  the tiny ones. Returns false at the end. */
bool es_preset_next(es_preset *preset);

/**
 * Checks the name of a preset.
 *
 *   where  beginning of error messages, such as "--preset" or "demo.conf:3:
 *          preset"
 *
 * Returns ES_OK; ES_EUSAGE if there is no such preset and the name is not
 * "list". The message suggests the most similar name.
 */
es_status es_preset_check(const char *name, const char *where) ES_MUST_USE;

/** Receives one option of a preset. Any return value except ES_OK stops the
 *  iteration. */
typedef es_status es_preset_taker(void *user, const char *option,
                                  const char *value);

/**
 * Calls `take` for each option of the preset, in an order in which a later
 * value overrides an earlier one. Returns ES_OK, also if there is no such
 * preset; ES_EINTERNAL if the table of presets is malformed; or the error of
 * `take`.
 */
es_status es_preset_options(const char *name, es_preset_taker *take,
                            void *user) ES_MUST_USE;

/** Prints all presets as a table: name, architecture, result in the paper. */
void es_presets_print(FILE *out);

#endif
