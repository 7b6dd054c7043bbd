/** A command line that goes on with a checkpoint. */
#ifndef ES_RESUME_H
#define ES_RESUME_H

#include "hooks/trainer/files/checkpoint_folder.h"

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
