/** `entropy-scan RUN.db... --tui`: runs drawn on the terminal. */
#ifndef ES_SHOW_H
#define ES_SHOW_H

#include "cli/terminal/watch_list.h"

/** ES_EUSAGE if standard output is no terminal; or, to follow, one whose
 *  cursor cannot be moved. Else ES_OK. */
es_status es_show_check(bool follow) ES_MUST_USE;

/** Draws once and returns; to follow, when the runs have ended or the user
 *  wants to. ES_OK; ES_EIO (standard output); ES_ENOMEM. */
es_status es_show(es_show_result *out,
                  const es_show_options *options) ES_MUST_USE;

#endif
