/** Prepares the processes of `serve` that read run files. Each is forked from
 *  the process that answers browsers. */
#ifndef ES_SERVE_CHILD_H
#define ES_SERVE_CHILD_H

/** Called first in a child process. Makes the process end together with its
 *  parent, resets its signals, and closes all descriptors that it inherited
 *  except the standard streams and `kept`. */
void es_serve_child_begin(int kept);

#endif
