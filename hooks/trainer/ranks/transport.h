/**
 * Processes that train one model together, its ranks: what they exchange by
 * way of the host. Connections are TCP, one between each two ranks; sums are
 * taken in the order of the ranks, so that their bits repeat.
 *
 * Every rank makes the same calls with the same sizes in the same order: each
 * waits for all. The first failure is kept, and every later call returns it at
 * once. A NULL transport is a process by itself: rank 0 of a world of 1.
 *
 * One thread. Calls return ES_OK, or ES_EIO where a rank is gone, silent or
 * has failed: the message names it and says what to do. es_transport_reports
 * says which one process is to print it.
 */
#ifndef ES_TRANSPORT_H
#define ES_TRANSPORT_H

#include "hooks/trainer/ranks/ranks.h"

typedef struct es_transport es_transport;

/**
 * Waits until all ranks are there.
 *
 *   reports  written: false after a failure that another rank reports
 *
 * ES_OK; ES_EUSAGE (no such rank, two of one number, worlds of two sizes, a
 * rendezvous that is another file); ES_EIO (one has not come in time, has gone
 * again, or the network refuses); ES_ENOMEM.
 */
es_status es_transport_open(es_transport **out, bool *reports,
                            const es_transport_options *options) ES_MUST_USE;

/** Others that wait for this rank take it for gone: es_transport_wait goes
 *  before, es_transport_abort where something failed. NULL is fine. */
void es_transport_close(es_transport *transport);

int es_transport_rank(const es_transport *transport);
int es_transport_world(const es_transport *transport);
/** The longest silence of a rank, seconds; without others infinite. */
double es_transport_timeout(const es_transport *transport);
/** Ranks below this one on the same host, and all ranks there. */
int es_transport_local_rank(const es_transport *transport, int *n_local);

/**
 * total (n) += x (n) of rank 0, then of rank 1, ..., each number by itself;
 * total has to be the same on all ranks before, and is afterwards.
 */
es_status es_transport_add(es_transport *transport, float *total,
                           const float *x, size_t n) ES_MUST_USE;

/** The same of a few numbers, in double. */
es_status es_transport_add_double(es_transport *transport, double *total,
                                  const double *x, size_t n) ES_MUST_USE;

/** out (world,bytes): what each rank has `in` (bytes). */
es_status es_transport_gather(es_transport *transport, void *out,
                              const void *in, size_t bytes) ES_MUST_USE;

/** *any: `mine` of any rank. */
es_status es_transport_any(es_transport *transport, bool *any,
                           bool mine) ES_MUST_USE;

/** Until all ranks are here. */
es_status es_transport_wait(es_transport *transport) ES_MUST_USE;

/** Whether all are still there, without waiting for what they do. */
es_status es_transport_check(es_transport *transport) ES_MUST_USE;

/** This rank ends by a failure of its own, `code` with es_message(): the
 *  others learn of it where they wait, and return it with "rank N: " before.
 *  Returns code. Nothing happens after a failure of the transport itself. */
es_status es_transport_abort(es_transport *transport, es_status code);

/** After a failure: true if this process is who prints the message, the first
 *  rank that is alive. Without one: of rank 0. By itself: always. */
bool es_transport_reports(const es_transport *transport);

#endif
