/* Implements the options `--webhook-*`: posts an alert with libcurl, which is
 * loaded when the first alert is posted. The server's answer decides whether
 * the alert has been delivered, is given up, or is retried. The URL is a secret
 * and appears in no message. */
#include "cli/alerts/delivery/webhook.h"

#include "analyzer/base/infile.h"
#include "analyzer/base/json_write.h"
#include "analyzer/base/text_stream.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define URL_MOST 4096
/* Maximum number of bytes of the server's answer that are read (and
   discarded). */
#define ANSWER_MOST 65536

/* --- libcurl --------------------------------------------------------------*/

/* Functions of libcurl, which is loaded only when the first alert is posted,
 * because it depends on thirty libraries that would triple the start-up time of
 * every other command. */
#define CURL_FUNCTIONS(use)                                                    \
    use(easy_init) use(easy_setopt) use(easy_perform) use(easy_getinfo)        \
        use(easy_cleanup) use(easy_strerror) use(slist_append)                 \
            use(slist_free_all)
#define DECLARE(name) __typeof__(curl_##name) *name;
static struct {
    CURL_FUNCTIONS(DECLARE)
    bool loaded;
} curl;

static bool find_function(void *library, const char *name, void *function)
{
    void *found = dlsym(library, name);
    memcpy(function, &found, sizeof found);
    return found != NULL;
}

/* Loads libcurl, which then stays loaded. Returns false and sets the message if
 * libcurl is not installed. */
static bool load_curl(void)
{
    if (curl.loaded)
        return true;
    void *library = dlopen("libcurl.so.4", RTLD_NOW | RTLD_LOCAL);
    if (!library)
        library = dlopen("libcurl-gnutls.so.4", RTLD_NOW | RTLD_LOCAL);
#define FIND(name) &&find_function(library, "curl_" #name, &curl.name)
    curl.loaded = library CURL_FUNCTIONS(FIND);
    if (!curl.loaded)
        es_fail(ES_EIO, "a webhook needs libcurl.so.4: install libcurl4: %s",
                library ? "the installed version lacks functions" : dlerror());
    return curl.loaded;
}

/* --- URL ------------------------------------------------------------------ */

static es_status read_line(char line[URL_MOST], const char *path)
{
    FILE *file;
    es_status status = es_infile_stream(&file, path);
    if (status != ES_OK)
        return status;
    bool read = fgets(line, URL_MOST, file) != NULL;
    fclose(file);
    if (read && strlen(line) + 1 == URL_MOST)
        return es_fail(ES_EUSAGE, "%s: the line is too long for a URL", path);
    return ES_OK;
}

/* The messages of this function name the variable or file, but never the secret
 * URL. */
es_status es_webhook_read_url(void *field, const es_option *option,
                              const char *value, const char *where)
{
    es_webhook *webhook = field;
    char line[URL_MOST] = "";
    bool is_variable = strcmp(option->name, "webhook-env") == 0;
    const char *text = is_variable ? getenv(value) : line;
    es_status status = is_variable ? ES_OK : read_line(line, value);
    (void)where;
    free(webhook->url);
    webhook->url = NULL;
    if (status != ES_OK)
        return status;
    if (!text)
        return es_fail(ES_EUSAGE, "%.80s: no such environment variable", value);
    if (strncmp(text, "https://", 8) != 0 && strncmp(text, "http://", 7) != 0)
        return es_fail(ES_EUSAGE, "%s: not a URL: expected https://...", value);
    webhook->url = strndup(text, strcspn(text, "\r\n"));
    return webhook->url ? ES_OK : es_fail(ES_ENOMEM, "out of memory for a URL");
}

/* Returns the request body for Slack, such as {"text":"run &lt;a&gt;: collapse
 * ..."}. The characters & < > are escaped because Slack reads them as markup.
 * Returns NULL if memory is short. */
static char *slack_body(const es_alert *alert)
{
    char *body = NULL, *escaped = NULL;
    size_t n;
    FILE *out = es_text_stream(&escaped, &n);
    for (const char *c = alert->text; out && *c; c++)
        if (*c == '&' || *c == '<' || *c == '>')
            fputs(*c == '&' ? "&amp;" : *c == '<' ? "&lt;" : "&gt;", out);
        else
            fputc(*c, out);
    if (!out || fclose(out) != 0 || !(out = es_text_stream(&body, &n)))
        goto done;
    es_json_writer json = {.stream = out};
    es_json_write_object(&json, NULL);
    es_json_write_text(&json, "text", escaped);
    es_json_write_end(&json, "}");
    if (fclose(out) != 0) {
        free(body);
        body = NULL;
    }
done:
    free(escaped);
    return body;
}

/* --- posting --------------------------------------------------------------*/

static struct curl_slist *headers_of(const char *id)
{
    char line[256];
    snprintf(line, sizeof line, "X-Entropy-Scan-Id: %.200s", id);
    for (char *c = line; *c; c++)
        if (*c < 0x20 || *c > 0x7e)
            *c = '?';
    struct curl_slist *list =
        curl.slist_append(NULL, "Content-Type: application/json");
    struct curl_slist *longer = list ? curl.slist_append(list, line) : NULL;
    if (!longer)
        curl.slist_free_all(list);
    return longer;
}

static size_t discard_bytes(char *bytes, size_t size, size_t n, void *user)
{
    size_t *eaten = user;
    (void)bytes;
    *eaten += size * n;
    return *eaten > ANSWER_MOST ? 0 : size * n;
}

/* Returns the outcome of a post. The status line of the answer decides, even if
 * the transfer fails later. The alert is given up only if the user must correct
 * the error: a malformed URL, a permanent redirection, or an answer that
 * refuses the request as wrong. */
static es_delivery_outcome judge_answer(CURLcode code, long answer)
{
    static const int later[] = {302, 303, 307, 408, 425, 429};
    if (answer == 0) {
        /* es_webhook_read_url accepts only supported protocols, so
         * CURLE_UNSUPPORTED_PROTOCOL means that the server answered in another
         * protocol. */
        es_fail(ES_EIO, "%s",
                code == CURLE_UNSUPPORTED_PROTOCOL ? "the answer is not HTTP"
                                                   : curl.easy_strerror(code));
        return code == CURLE_URL_MALFORMAT ? ES_OUTCOME_FAILED
                                           : ES_OUTCOME_AGAIN;
    }
    if (answer / 100 == 2)
        return ES_OUTCOME_DELIVERED;
    es_fail(ES_EIO, "the server answers %ld%s", answer,
            answer / 100 == 3 ? ": redirections are not followed" : "");
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
        if (answer == later[i])
            return ES_OUTCOME_AGAIN;
    return answer / 100 == 3 || answer / 100 == 4 ? ES_OUTCOME_FAILED
                                                  : ES_OUTCOME_AGAIN;
}

/* Applies the environment variables of the curl program that name certificate
 * authorities; the library does not read them. */
static void choose_authorities(CURL *handle)
{
    const char *bundle = getenv("CURL_CA_BUNDLE");
    const char *folder = getenv("SSL_CERT_DIR");
    const char *file = getenv("SSL_CERT_FILE");
    bool bundled = bundle && *bundle;
    if (bundled)
        curl.easy_setopt(handle, CURLOPT_CAINFO, bundle);
    if (!bundled && folder && *folder)
        curl.easy_setopt(handle, CURLOPT_CAPATH, folder);
    if (!bundled && file && *file)
        curl.easy_setopt(handle, CURLOPT_CAINFO, file);
}

es_delivery_outcome es_webhook_post(const es_webhook *webhook,
                                    const es_alert *alert)
{
    if (!load_curl())
        return ES_OUTCOME_AGAIN;
    es_delivery_outcome outcome = ES_OUTCOME_AGAIN;
    size_t eaten = 0;
    long answer = 0, limit = (long)(webhook->timeout * 1000);
    char *body = webhook->format == ES_WEBHOOK_SLACK ? slack_body(alert)
                                                     : es_alert_json(alert);
    struct curl_slist *headers = headers_of(alert->id);
    CURL *handle = body && headers ? curl.easy_init() : NULL;
    if (!handle) {
        es_fail(ES_ENOMEM, "out of memory for a message");
        goto done;
    }
    __typeof__(curl_easy_setopt) *set = curl.easy_setopt;
    choose_authorities(handle);
    set(handle, CURLOPT_URL, webhook->url);
    set(handle, CURLOPT_PROTOCOLS_STR, "http,https");
    set(handle, CURLOPT_FOLLOWLOCATION, 0L);
    set(handle, CURLOPT_SSL_VERIFYPEER, 1L);
    set(handle, CURLOPT_SSL_VERIFYHOST, 2L);
    set(handle, CURLOPT_NOSIGNAL, 1L);
    set(handle, CURLOPT_TIMEOUT_MS, limit);
    set(handle, CURLOPT_CONNECTTIMEOUT_MS, limit);
    set(handle, CURLOPT_USERAGENT, "entropy-scan/" ES_VERSION);
    set(handle, CURLOPT_HTTPHEADER, headers);
    set(handle, CURLOPT_POSTFIELDS, body);
    set(handle, CURLOPT_WRITEFUNCTION, discard_bytes);
    set(handle, CURLOPT_WRITEDATA, &eaten);
    CURLcode code = curl.easy_perform(handle);
    curl.easy_getinfo(handle, CURLINFO_RESPONSE_CODE, &answer);
    outcome = judge_answer(code, answer);
done:
    curl.easy_cleanup(handle);
    curl.slist_free_all(headers);
    free(body);
    return outcome;
}
