/** Where a watcher keeps what it has reported, if --state does not say. */
#ifndef ES_STATE_H
#define ES_STATE_H

#include "analyzer/base/status.h"
#include <stddef.h>

#define ES_STATE_NAME_MAX 72 /* bytes */

/**
 * The name of the state of a folder: readable at its beginning, and a hash of
 * host and path, both of which are the folder's identity. Device and inode are
 * not: on network and layered file systems, and after a reboot, the same folder
 * has others, and all would be reported again.
 *
 *   folder  absolute, without links
 */
void es_state_name(char out[ES_STATE_NAME_MAX], const char *host,
                   const char *folder);

/**
 * Chooses the state for the first of what is watched, a folder or a file in
 * one, and makes the folders that the state needs, for this user alone. They
 * are below XDG_STATE_HOME or, if that is no absolute path, below
 * HOME/.local/state: who may write in a watched folder must not be able to
 * prepare a state.
 *
 *   out  its path, to be freed; the file itself need not be there
 *
 * If it is not, and one of an earlier version lies in the watched folder, that
 * is reported on standard error: it is not used unless --state names it.
 *
 * ES_OK; ES_EUSAGE (neither variable is set); ES_EIO (no such folder; the
 * state's cannot be made, or is open to others); ES_ENOMEM.
 */
es_status es_state_choose(char **out, const char *root) ES_MUST_USE;

#endif
