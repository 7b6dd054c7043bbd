/** Between verify.c and verify_case.c: one case in memory. */
#ifndef ES_VERIFY_INTERNAL_H
#define ES_VERIFY_INTERNAL_H

#include "hooks/trainer/files/npy.h"
#include "hooks/trainer/model/config.h"

#include <stdbool.h>

typedef struct es_verify_case {
    const char *dir; /* borrowed */
    es_model_config config;
    es_npy tokens, targets; /* (B,T) int32 */
} es_verify_case;

/**
 * Reads case.json, tokens.npy and targets.npy of a folder.
 * ES_OK; ES_EIO, ES_EFORMAT, ES_EUSAGE (an architecture or a size that no
 * model can have). Free it in every case.
 */
es_status es_verify_case_read(es_verify_case *out, const char *dir) ES_MUST_USE;
void es_verify_case_free(es_verify_case *it);

/** Reads DIR/FOLDER/NAME.npy. Returns as es_npy_read, or ES_ENOMEM. */
es_status es_verify_array_read(es_npy *out, const es_verify_case *it,
                               const char *folder,
                               const char *name) ES_MUST_USE;

/** Is there such a file? */
bool es_verify_array_exists(const es_verify_case *it, const char *folder,
                            const char *name);

#endif
