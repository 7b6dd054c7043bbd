/** A training or a probe that starts from existing weights, --init FILE, or
 * goes on with a checkpoint, --resume. */
#ifndef ES_START_H
#define ES_START_H

#include "hooks/trainer/files/checkpoint_folder.h"
#include "hooks/trainer/trainer.h"

/**
 * Settles what the file settings->init determines: architecture, family,
 * sizes, biases, context; of a checkpoint also micro-batch and EReg's settings.
 * What was given stays as it is, if the weights permit it.
 *
 * ES_OK; ES_EUSAGE naming the first contradiction; what es_weights_open
 * returns.
 */
es_status es_start_settings(es_settings *settings) ES_MUST_USE;

/** What there is to say of weights that were loaded. */
typedef struct es_start {
    char note[ES_MESSAGE_MAX]; /* one line if arrays are new or were left out,
                                  else "" */
    char maker[32];            /* "GPT-2", ... */
    int64_t step;              /* steps they were trained for, 0: unknown */
} es_start;

/**
 * Fills the new trainer's model with the weights of settings.init.
 * Returns as es_weights_open and es_weights_load do.
 */
es_status es_start_load(es_start *out, es_trainer *trainer) ES_MUST_USE;

/**
 * The settings of a resumed training: the checkpoint's, then what the command
 * line says. What the model is (es_model_config) cannot change. Checkpoints
 * go on where this one lies, unless --checkpoint names another folder.
 *
 *   settings  as parsed without the checkpoint; replaced
 *   argv      parsed once more, over the checkpoint's settings
 *
 * ES_OK; ES_EUSAGE naming the first difference, or what es_settings_parse
 * said.
 */
es_status es_resume_settings(es_settings *settings,
                             const es_checkpoint *checkpoint, int argc,
                             char **argv) ES_MUST_USE;

/** What was resumed and which settings have changed since, as one line that
 *  an event can hold. Returns out. */
char *es_resume_describe(char *out, size_t size,
                         const es_checkpoint *checkpoint,
                         const es_settings *settings);

#endif
