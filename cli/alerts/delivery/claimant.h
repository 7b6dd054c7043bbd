/** Who has claimed a delivery: a process that cannot be taken for a later one
 *  of the same pid. */
#ifndef ES_CLAIMANT_H
#define ES_CLAIMANT_H

#include <stdbool.h>
#include <stdint.h>

/** This process. Never 0. */
int64_t es_claimant_self(void);

/** No process of this machine is it any more. */
bool es_claimant_is_gone(int64_t claimant);

#endif
