/** What the model of a run costs, from what its file says of it. */
#ifndef ES_COST_H
#define ES_COST_H

#include "cli/figures/drawing.h"
#include "cli/runs/model.h"

/** Opens the run's file and reads its model: cli/runs/model.h. `figure` is what
 *  messages call it; es_reader_open's errors, too. */
es_status es_run_shape_read(es_cost_model *out, const es_run_summary *run,
                            const char *figure) ES_MUST_USE;

/**
 * Tokens that a step trains on: batch x ctx of the run, times "accumulate" of
 * its configuration (1). ES_OK; ES_ENOTFOUND if batch or ctx is unknown;
 * es_reader_open's errors.
 */
es_status es_tokens_a_step(double *out, const es_run_summary *run) ES_MUST_USE;

/**
 * The cost of a run: of one forward pass over one sequence, or the tokens read
 * up to the step of its evaluation; what is not modelled has no interval but
 * its value. ES_OK; ES_ENOTFOUND, ES_EIO, ES_ENOMEM as
 * above.
 */
es_status es_run_cost(es_modelled *out, es_drawing *drawing,
                      const es_run_summary *run, es_cost cost) ES_MUST_USE;

/** What the cost is: for an axis, and exactly, for a note. */
const char *es_cost_text(es_cost cost);
const char *es_cost_meaning(es_cost cost);

#define ES_COST_MAX 24

/** Context lengths that bars go over, as AERO's figures 20 and 21 do, and what
 *  these are called: "128" to "8K". */
enum { ES_N_COST_LENGTHS = 7 };
extern const int64_t es_cost_lengths[ES_N_COST_LENGTHS];
extern const char *const es_cost_length_names[ES_N_COST_LENGTHS];

/** A whole share: "65%"; ">99%" where that is not all. Returns out. */
char *es_cost_print_share(char out[ES_COST_MAX], double percent);

/** Three digits and K, M, B or T: "14.5B". Returns out. */
char *es_cost_print(char out[ES_COST_MAX], double cost);

#endif
