/** The parts of a pass that a training step runs; model.h declares whole
 *  passes. */
#ifndef ES_MODEL_PASS_H
#define ES_MODEL_PASS_H

#include "hooks/trainer/model/model.h"

/** Returns how many of the targets (B,T) are not ES_NO_TARGET. */
int es_model_count_targets(const es_model *model, const int32_t *targets);

/** Runs the forward pass of es_model_pass over model->tokens and targets. */
void es_model_run_pass(es_model *model, bool has_targets, bool training);

/** Runs the backward pass of es_model_backward. */
void es_model_run_backward(es_model *model, double scale);

/** Returns true if captured operations (a CUDA graph) can compute gradients
 *  with this scale. Operations are captured with the scale of the first call
 *  and cannot be used with another scale. */
bool es_model_captures_scale(es_model *model, double scale);

#endif
