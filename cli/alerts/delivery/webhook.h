/** Posts alerts to a server: the only place that uses libcurl. */
#ifndef ES_WEBHOOK_H
#define ES_WEBHOOK_H

#include "analyzer/base/options.h"
#include "cli/alerts/alert.h"
#include "store/ledger.h"

typedef struct es_webhook {
    char *url; /* a secret, never printed; NULL if no webhook is used */
    enum {
        ES_WEBHOOK_PLAIN,
        ES_WEBHOOK_SLACK
    } format;       /* the whole alert, or {"text": its line} */
    double timeout; /* seconds per attempt */
} es_webhook;

/**
 * Reads the URL of a webhook into an es_webhook, whose url the caller frees.
 * For the option webhook-env, `value` names an environment variable that
 * contains it; for any other option, a file whose first line is the URL. ES_OK;
 * ES_EUSAGE: there is no such variable or it is not an http(s) URL; ES_EIO;
 * ES_ENOMEM.
 */
es_option_reader es_webhook_read_url;

/**
 * Posts one alert. The header X-Entropy-Scan-Id contains its id, so that a
 * server can recognise a repeated post.
 *
 * The message says why, unless the alert is delivered.
 *
 * Delivered: 2xx. Failed, because the user must correct it: a malformed URL, a
 * permanent redirection (none is followed), other 4xx. To be retried:
 * everything else, such as no connection, a reset, a timeout, an answer that is
 * not HTTP, a certificate that is not trusted, a missing libcurl, 302, 303,
 * 307, 408, 425, 429, 5xx.
 */
es_delivery_outcome es_webhook_post(const es_webhook *webhook, const char *id,
                                    const es_alert *alert) ES_MUST_USE;

#endif
