/** Writes series and attention maps as binary blocks, whose format README.md
 *  describes. */
#ifndef ES_SERVE_BLOCKS_H
#define ES_SERVE_BLOCKS_H

#include "cli/serve/request.h"
#include "store/reader.h"

/** Writes the blocks of a request for series or maps. A run or series
 *  that cannot be read gets a block with the reason. The caller checks the
 *  stream for errors. Returns ES_OK or ES_ENOMEM. */
es_status es_serve_write_blocks(FILE *out,
                                const es_serve_request *request) ES_MUST_USE;

#endif
