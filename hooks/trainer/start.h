/** Starts a training run or a probe from existing weights (--init FILE), or
 *  resumes a training run from a checkpoint (--resume). */
#ifndef ES_START_H
#define ES_START_H

#include "hooks/trainer/files/checkpoint_folder.h"
#include "hooks/trainer/trainer.h"

/**
 * Sets the settings that the file settings->init determines: architecture,
 * family, sizes, biases and context; for a checkpoint also the micro-batch and
 * EReg's settings. A setting that the user has given is kept if it is
 * compatible with the weights.
 *
 * Returns ES_OK; ES_EUSAGE naming the first setting that contradicts the
 * weights; or a status of es_weights_open.
 */
es_status es_start_settings(es_settings *settings) ES_MUST_USE;

/** Description of the loaded weights. */
typedef struct es_start {
    char note[ES_MESSAGE_MAX]; /* names the missing and unused arrays; "" if
                                  there are none */
    char maker[32];            /* "GPT-2", "RoBERTa", ... */
    int64_t step; /* number of steps for which the weights were trained, or 0 */
} es_start;

/**
 * Loads the weights of settings.init into the model of a new trainer. Returns
 * the statuses of es_weights_open and es_weights_load.
 */
es_status es_start_load(es_start *out, es_trainer *trainer) ES_MUST_USE;

/**
 * Computes the settings of a resumed training run: the settings of the
 * checkpoint, overridden by the command line. The model (es_model_config)
 * cannot change. New checkpoints are written to the folder of the given
 * checkpoint, unless --checkpoint names another folder.
 *
 *   settings  in: parsed from the command line alone; out: the result
 *   argv      the command line, which is parsed again on top of the
 *             checkpoint's settings
 *
 * Returns ES_OK; ES_EUSAGE naming the first difference; or a status of
 * es_settings_parse.
 */
es_status es_resume_settings(es_settings *settings,
                             const es_checkpoint *checkpoint, int argc,
                             char **argv) ES_MUST_USE;

/** Writes to `out` one line, short enough for the text of an event, that
 *  describes the resumed checkpoint and the settings that have changed since.
 *  Returns out. */
char *es_resume_describe(char *out, size_t size,
                         const es_checkpoint *checkpoint,
                         const es_settings *settings);

#endif
