/** The processes of `serve` that read files: each begins as a copy of the
 *  process that answers browsers. */
#ifndef ES_SERVE_CHILD_H
#define ES_SERVE_CHILD_H

/** Ends with the parent process, resets its signals, and closes its
 *  descriptors except the standard streams and `kept`. */
void es_serve_child_begin(int kept);

#endif
