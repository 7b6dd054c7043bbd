/**
 * Connects the ranks (processes that train a model together), and exchanges
 * data between them through the hosts. Any two ranks are connected by TCP. Sums
 * are computed in the order of the ranks, so that their bits are reproducible.
 *
 * Every rank must make the same calls with the same sizes in the same order;
 * each call waits for all ranks. After a failure, every later call returns the
 * same failure at once. A NULL transport stands for a single process: rank 0 of
 * a world of 1.
 *
 * Not thread-safe. Calls return ES_OK, or ES_EIO if a rank is gone, silent or
 * has failed: the message names the rank and the remedy. es_transport_reports
 * returns true in the only process that is to print the message.
 */
#ifndef ES_TRANSPORT_H
#define ES_TRANSPORT_H

#include "hooks/trainer/ranks/ranks.h"

typedef struct es_transport es_transport;

/**
 * Waits until all ranks are connected.
 *
 *   reports  set to false if another rank reports the failure
 *
 * Returns ES_OK; ES_EUSAGE (the rank is not below the world's size, two
 * processes have the same rank, ranks differ in the world's size, or the
 * rendezvous path names an unrelated file); ES_EIO (a rank did not arrive in
 * time or has disconnected, or the network refuses); ES_ENOMEM.
 */
es_status es_transport_open(es_transport **out, bool *reports,
                            const es_transport_options *options) ES_MUST_USE;

/** Closes the connections. Ranks that still wait for the calling rank treat it
 *  as lost, so call es_transport_wait first, or es_transport_abort after a
 *  failure. `transport` may be NULL. */
void es_transport_close(es_transport *transport);

int es_transport_rank(const es_transport *transport);
int es_transport_world(const es_transport *transport);
/** Returns after how many seconds of silence a rank counts as lost; infinite
 *  for a single process. */
double es_transport_timeout(const es_transport *transport);
/** Returns the number of lower ranks on this host. Sets *n_local to the number
 *  of all ranks on this host. */
int es_transport_local_rank(const es_transport *transport, int *n_local);

/**
 * Adds x (n) of rank 0, then x of rank 1 and so on, to total (n), element by
 * element. `total` must be equal on all ranks before the call, and is equal on
 * all ranks afterwards.
 */
es_status es_transport_add(es_transport *transport, float *total,
                           const float *x, size_t n) ES_MUST_USE;

/** Same as es_transport_add, for a few values of type double. */
es_status es_transport_add_double(es_transport *transport, double *total,
                                  const double *x, size_t n) ES_MUST_USE;

/** Gathers `in`, which has `bytes` bytes on each rank, into out (world,bytes)
 *  on every rank. */
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

/** Ends this rank's participation after a failure with status `code` and
 *  message es_message(). The other ranks receive the failure in the call in
 *  which they wait, and return it with "rank N: " in front of the message.
 *  Returns code. Does nothing if the transport itself has failed. */
es_status es_transport_abort(es_transport *transport, es_status code);

/** Returns true in the process that must print the message of a failure: the
 *  first rank that is alive. Without a failure, returns true on rank 0. Always
 *  returns true for a single process. */
bool es_transport_reports(const es_transport *transport);

#endif
