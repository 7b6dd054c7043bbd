/** Starts a training or a probe from existing weights (--init FILE), or resumes
 *  a training from a checkpoint (--resume). */
#ifndef ES_START_H
#define ES_START_H

#include "hooks/trainer/files/checkpoint_folder.h"
#include "hooks/trainer/trainer.h"

/**
 * Sets what the file settings->init determines: architecture, family, sizes,
 * biases and context; for a checkpoint also the micro-batch and EReg's
 * settings. Settings that the user has given remain, if the weights permit
 * them.
 *
 * Returns ES_OK; ES_EUSAGE naming the first contradiction; or a status of
 * es_weights_open.
 */
es_status es_start_settings(es_settings *settings) ES_MUST_USE;

/** Description of the loaded weights. */
typedef struct es_start {
    char note[ES_MESSAGE_MAX]; /* one line if arrays are new or were left out,
                                  otherwise "" */
    char maker[32];            /* "GPT-2", "RoBERTa", ... */
    int64_t step; /* steps that they were trained for; 0: unknown */
} es_start;

/**
 * Loads the weights of settings.init into the model of a new trainer. Returns
 * as es_weights_open and es_weights_load do.
 */
es_status es_start_load(es_start *out, es_trainer *trainer) ES_MUST_USE;

/**
 * Computes the settings of a resumed training: the checkpoint's, overridden by
 * the command line. The model (es_model_config) cannot change. New checkpoints
 * go to the folder of this one, unless --checkpoint names another folder.
 *
 *   settings  as parsed without the checkpoint; replaced
 *   argv      parsed once more, on top of the checkpoint's settings
 *
 * Returns ES_OK; ES_EUSAGE naming the first difference; or a status of
 * es_settings_parse.
 */
es_status es_resume_settings(es_settings *settings,
                             const es_checkpoint *checkpoint, int argc,
                             char **argv) ES_MUST_USE;

/** Describes the resumed checkpoint and the settings that have changed since,
 *  in one line that fits an event. Returns out. */
char *es_resume_describe(char *out, size_t size,
                         const es_checkpoint *checkpoint,
                         const es_settings *settings);

#endif
