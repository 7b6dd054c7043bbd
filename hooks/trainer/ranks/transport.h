/**
 * Connects the ranks, the processes that train one model together, and
 * exchanges data between them through the hosts. There is one TCP connection
 * between any two ranks; sums are taken in the order of the ranks, so that
 * their bits repeat.
 *
 * Every rank must make the same calls with the same sizes in the same order;
 * each call waits for all ranks. The first failure is kept, and every later
 * call returns it at once. A NULL transport stands for a single process: rank 0
 * of a world of 1.
 *
 * Not thread-safe. Calls return ES_OK, or ES_EIO if a rank is gone, silent or
 * has failed: the message names it and says what to do. es_transport_reports
 * says which single process prints the message.
 */
#ifndef ES_TRANSPORT_H
#define ES_TRANSPORT_H

#include "hooks/trainer/ranks/ranks.h"

typedef struct es_transport es_transport;

/**
 * Waits until all ranks are connected.
 *
 *   reports  written: false after a failure that another rank reports
 *
 * Returns ES_OK; ES_EUSAGE (no such rank, two ranks of one number, different
 * worlds, or the rendezvous is an unrelated file); ES_EIO (a rank did not
 * arrive in time or has disconnected, or the network refuses); ES_ENOMEM.
 */
es_status es_transport_open(es_transport **out, bool *reports,
                            const es_transport_options *options) ES_MUST_USE;

/** Closes the connections. Ranks that still wait for this one treat it as lost,
 *  so call es_transport_wait first, or es_transport_abort after a failure. NULL
 *  is accepted. */
void es_transport_close(es_transport *transport);

int es_transport_rank(const es_transport *transport);
int es_transport_world(const es_transport *transport);
/** Returns the longest silence of a rank, seconds; infinite for a single
 *  process. */
double es_transport_timeout(const es_transport *transport);
/** Returns the number of lower ranks on this host; *n_local counts all ranks on
 *  it. */
int es_transport_local_rank(const es_transport *transport, int *n_local);

/**
 * Adds x (n) of rank 0, then of rank 1, ..., to total (n), element by element.
 * total must be the same on all ranks before, and is the same afterwards.
 */
es_status es_transport_add(es_transport *transport, float *total,
                           const float *x, size_t n) ES_MUST_USE;

/** Like es_transport_add, for a few numbers in double. */
es_status es_transport_add_double(es_transport *transport, double *total,
                                  const double *x, size_t n) ES_MUST_USE;

/** Gathers `in` (bytes) of each rank into out (world,bytes). */
es_status es_transport_gather(es_transport *transport, void *out,
                              const void *in, size_t bytes) ES_MUST_USE;

/** Sets *any to true if `mine` is true on any rank. */
es_status es_transport_any(es_transport *transport, bool *any,
                           bool mine) ES_MUST_USE;

/** Waits until all ranks have made this call. */
es_status es_transport_wait(es_transport *transport) ES_MUST_USE;

/** Checks that all ranks are still connected, without waiting for their
 *  work. */
es_status es_transport_check(es_transport *transport) ES_MUST_USE;

/** Ends this rank because of its failure, `code` with es_message(). The others
 *  learn of it where they wait, and return it with "rank N: " in front. Returns
 *  code. Does nothing after a failure of the transport itself. */
es_status es_transport_abort(es_transport *transport, es_status code);

/** After a failure, returns true if this process prints the message: the first
 *  rank that is alive. Without a failure, returns true on rank 0; for a single
 *  process, always. */
bool es_transport_reports(const es_transport *transport);

#endif
