/** Posts alerts to a server. Only webhook.c uses libcurl. */
#ifndef ES_WEBHOOK_H
#define ES_WEBHOOK_H

#include "analyzer/base/options.h"
#include "cli/alerts/alert.h"
#include "store/ledger.h"

typedef struct es_webhook {
    char *url; /* URL of the webhook, which is secret and never printed; NULL if
                  no webhook is used */
    enum {
        ES_WEBHOOK_PLAIN,
        ES_WEBHOOK_SLACK
    } format;       /* request body: the alert as JSON, or {"text": LINE} */
    double timeout; /* maximum duration of an attempt in seconds */
} es_webhook;

/**
 * Reads the URL of a webhook into an es_webhook, whose url the caller frees.
 * For the option webhook-env, `value` names an environment variable that
 * contains the URL; for any other option, `value` names a file whose first line
 * is the URL. Returns ES_OK, ES_EIO or ES_ENOMEM, or ES_EUSAGE if the variable
 * does not exist or the text is not an http(s) URL.
 */
es_option_reader es_webhook_read_url;

/**
 * Posts one alert. The header X-Entropy-Scan-Id contains the alert's id, by
 * which a server can recognise a repeated post.
 *
 * If the alert was not delivered, the message gives the reason.
 *
 * Returns "delivered" for a status 2xx; "failed" for errors that the user must
 * correct: a malformed URL, a permanent redirection (redirections are not
 * followed), and 4xx except those below; "retry" for everything else, such as
 * no connection, a reset, a timeout, an answer that is not HTTP, an untrusted
 * certificate, a missing libcurl, and the statuses 302, 303, 307, 408, 425,
 * 429, 5xx.
 */
es_delivery_outcome es_webhook_post(const es_webhook *webhook,
                                    const es_alert *alert) ES_MUST_USE;

#endif
