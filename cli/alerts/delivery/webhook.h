/** Alerts posted to a server: the only place that uses libcurl. */
#ifndef ES_WEBHOOK_H
#define ES_WEBHOOK_H

#include "analyzer/base/options.h"
#include "cli/alerts/alert.h"
#include "store/ledger.h"

typedef struct es_webhook {
    char *url; /* a secret: never printed; NULL: none */
    enum {
        ES_WEBHOOK_PLAIN,
        ES_WEBHOOK_SLACK
    } format;       /* the whole alert, or
                       {"text": its line} */
    double timeout; /* seconds for one try */
} es_webhook;

/** Of the option webhook-env: the URL in that environment variable; of any
 *  other: in the first line of that file. Into an es_webhook, to be freed.
 *  ES_OK; ES_EUSAGE: it is not there, or no http(s) URL; ES_EIO; ES_ENOMEM. */
es_option_reader es_webhook_read_url;

/**
 * Posts one alert, its id in the header X-Entropy-Scan-Id so that a server can
 * recognise a repeated one.
 *
 * Unless it is delivered, the message says why.
 *
 * Delivered on 2xx. Failed, for it is the user's mistake: a malformed URL,
 * a redirection for good (none is followed), a 4xx. To be tried again: all
 * else, such as no connection, a reset, a timeout, an answer that is no HTTP, a
 * certificate that does not convince, no libcurl, 302, 303, 307, 408, 425,
 * 429, 5xx.
 */
es_delivery_outcome es_webhook_post(const es_webhook *webhook, const char *id,
                                    const es_alert *alert) ES_MUST_USE;

#endif
