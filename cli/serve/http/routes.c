/* Decides how each request is answered. README.md describes the addresses (the
   page and api/...). */
#include "cli/serve/http/server_internal.h"

#include "analyzer/base/text_stream.h"
#include "cli/report/report.h"

#include <stdlib.h>
#include <string.h>

/* --- the page -------------------------------------------------------------*/

/* Prints the value of the header Content-Security-Policy. If `embedded` is
 * false, the policy forbids frames to contain the page. The page for frames may
 * be in any frame: its address contains the token, so a program that opens the
 * frame could read the runs anyway. */
static char *print_policy(bool embedded)
{
    char *text = NULL;
    size_t n;
    FILE *stream = es_text_stream(&text, &n);
    if (!stream)
        return NULL;
    es_report_write_live_policy(stream);
    if (!embedded)
        fputs("; frame-ancestors 'none'", stream);
    return fclose(stream) == 0 ? text : NULL;
}

static es_response *make_page(const es_server *server, bool embedded)
{
    const es_report_live live = {.boot = server->listing.boot,
                                 .title = "Attention entropy",
                                 .can_stop = server->options->can_stop};
    char *text = NULL, *policy = print_policy(embedded);
    size_t n;
    FILE *stream = es_text_stream(&text, &n);
    if (stream)
        es_report_write_live(stream, &live);
    es_response *page =
        stream && fclose(stream) == 0 && policy
            ? es_reply_text(text, n, "text/html; charset=utf-8", false)
            : NULL;
    if (page) {
        es_mhd.add_response_header(page, "Content-Security-Policy", policy);
        es_mhd.add_response_header(page, "Cache-Control", "no-store");
        if (!embedded)
            es_mhd.add_response_header(page, "X-Frame-Options", "DENY");
    }
    free(policy);
    return page;
}

es_status es_serve_routes_begin(es_server *server)
{
    server->page = make_page(server, false);
    server->embedded = make_page(server, true);
    return server->page && server->embedded
               ? ES_OK
               : es_fail(ES_ENOMEM, "out of memory for the page");
}

static void release(es_response *response)
{
    if (response)
        es_mhd.destroy_response(response);
}

void es_serve_routes_free(es_server *server)
{
    release(server->page);
    release(server->embedded);
    release(server->list);
}

/* Stores the token in a cookie and redirects the browser to the page's address
 * without the token, which should not remain in the browser's history. */
static enum MHD_Result reply_cookie(const es_server *server,
                                    es_connection *connection)
{
    const es_serve_access *access = &server->options->access;
    char cookie[ES_SERVE_TOKEN_MOST + ES_SERVE_COOKIE_MOST + 64];
    snprintf(cookie, sizeof cookie, "%s=%s; HttpOnly; SameSite=Strict",
             access->cookie, access->token);
    es_response *response = es_reply_guard(
        es_mhd.create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT));
    if (response) {
        es_mhd.add_response_header(response, "Location", "./");
        es_mhd.add_response_header(response, "Set-Cookie", cookie);
        es_mhd.add_response_header(response, "Cache-Control", "no-store");
    }
    return es_reply_queue(connection, MHD_HTTP_SEE_OTHER, response);
}

/* --- the list -------------------------------------------------------------*/

static es_response *make_list(const es_server *server, const char *since,
                              bool packed)
{
    char version[40], tag[44], *text = NULL;
    size_t n;
    FILE *stream = es_text_stream(&text, &n);
    if (!stream)
        return NULL;
    es_serve_listing_write(stream, &server->listing, since);
    if (fclose(stream) != 0)
        return NULL;
    es_response *response = es_reply_text(text, n, "application/json", packed);
    if (!response)
        return NULL;
    es_serve_listing_version(version, &server->listing);
    snprintf(tag, sizeof tag, "\"%s\"", version);
    es_mhd.add_response_header(response, "ETag", tag);
    es_mhd.add_response_header(response, "Cache-Control", "private, no-cache");
    return response;
}

static enum MHD_Result reply_unchanged(es_connection *connection)
{
    return es_reply_queue(connection, MHD_HTTP_NOT_MODIFIED,
                          es_reply_guard(es_mhd.create_response_from_buffer(
                              0, NULL, MHD_RESPMEM_PERSISTENT)));
}

/* Answers with the list of runs. The response with the complete list is kept,
   because every new tab requests it. */
static enum MHD_Result reply_list(es_server *server, es_connection *connection)
{
    const char *since = es_reply_argument(connection, "since"),
               *tag = es_reply_header(connection, "If-None-Match");
    const bool packed = es_reply_is_packed(connection);
    char version[40];
    es_serve_listing_version(version, &server->listing);
    if (tag && strstr(tag, version))
        return reply_unchanged(connection);
    if (since || !packed)
        return es_reply_queue(connection, MHD_HTTP_OK,
                              make_list(server, since, packed));
    if (server->list && server->list_version != server->listing.version) {
        release(server->list);
        server->list = NULL;
    }
    if (!server->list)
        server->list = make_list(server, NULL, true);
    server->list_version = server->listing.version;
    return server->list
               ? es_mhd.queue_response(connection, MHD_HTTP_OK, server->list)
               : MHD_NO;
}

static enum MHD_Result reply_events(es_server *server,
                                    es_connection *connection)
{
    char version[40];
    char *data = es_serve_listing_event(&server->listing, false);
    if (!data)
        return MHD_NO;
    es_serve_listing_version(version, &server->listing);
    es_serve_peers_set(connection, true, true);
    enum MHD_Result result =
        es_serve_stream_open(&server->stream, connection, version, data);
    free(data);
    return result;
}

/* --- requests for run files -----------------------------------------------*/

typedef struct parsing {
    es_serve_request *request;
    const es_serve_listing *listing;
    es_status status;
} parsing;

static enum MHD_Result add_argument(void *user, enum MHD_ValueKind kind,
                                    const char *name, const char *value)
{
    parsing *p = user;
    (void)kind;
    p->status = es_serve_request_add(p->request, p->listing, name, value);
    return p->status == ES_OK ? MHD_YES : MHD_NO;
}

static enum MHD_Result reply_failure(es_connection *connection,
                                     es_status status)
{
    return es_reply_error(connection,
                          status == ES_ENOTFOUND ? MHD_HTTP_NOT_FOUND
                          : status == ES_EUSAGE  ? MHD_HTTP_BAD_REQUEST
                                                 : MHD_HTTP_SERVICE_UNAVAILABLE,
                          es_message());
}

static enum MHD_Result start_job(es_server *server, es_connection *connection,
                                 es_serve_ask ask, void **context)
{
    parsing p = {.listing = &server->listing};
    es_status status = es_serve_request_new(&p.request, ask);
    if (status == ES_OK) {
        es_mhd.get_connection_values(connection, MHD_GET_ARGUMENT_KIND,
                                     add_argument, &p);
        status = p.status;
    }
    if (status == ES_OK)
        status = es_serve_request_check(p.request);
    es_serve_job *job =
        status == ES_OK
            ? es_serve_jobs_add(&server->jobs, connection, p.request)
            : NULL;
    if (job) {
        *context = job;
        return MHD_YES;
    }
    es_serve_request_free(p.request);
    return status < 0 ? reply_failure(connection, status)
                      : es_reply_error(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                                       "too many requests at once");
}

/* --- all requests ---------------------------------------------------------*/

/* Returns the part of `path` behind the page's address, "" for the page itself;
 * NULL if `path` does not begin with /. A proxy may or may not have removed the
 * prefix `base`. */
static const char *below_base(const char *path, const char *base)
{
    const size_t n = strlen(base);
    if (n && strncmp(path, base, n) == 0 && path[n] == '/')
        path += n;
    return path[0] == '/' ? path + 1 : NULL;
}

/* Returns true if the request's headers say that a page of another origin made
 * the request. */
static bool is_foreign(const es_serve_access *access, es_connection *connection,
                       bool is_page)
{
    const char *site = es_reply_header(connection, "Sec-Fetch-Site");
    if (!es_serve_access_is_origin(access,
                                   es_reply_header(connection, "Origin"),
                                   es_reply_header(connection, "Host")))
        return true;
    return !is_page && site && strcmp(site, "same-origin") != 0 &&
           strcmp(site, "none") != 0;
}

static enum MHD_Result reply_page(es_server *server, es_connection *connection)
{
    const es_serve_access *access = &server->options->access;
    const char *token = es_reply_argument(connection, "token"),
               *embed = es_reply_argument(connection, "embed");
    if (token && es_serve_access_is_token(access, token, strlen(token)))
        return reply_cookie(server, connection);
    if (embed && es_serve_access_is_token(access, embed, strlen(embed)))
        return es_mhd.queue_response(connection, MHD_HTTP_OK, server->embedded);
    if (es_serve_access_has_cookie(access,
                                   es_reply_header(connection, "Cookie")) ||
        es_serve_access_has_bearer(
            access, es_reply_header(connection, "Authorization")))
        return es_mhd.queue_response(connection, MHD_HTTP_OK, server->page);
    return es_reply_error(connection, MHD_HTTP_UNAUTHORIZED,
                          "open the address that entropy-scan serve printed: "
                          "it contains a token");
}

/* The addresses whose answers are made from run files by a job. */
static const struct route {
    const char *path;
    es_serve_ask ask;
} routes[] = {{"api/series", ES_SERVE_SERIES},
              {"api/maps", ES_SERVE_MAPS},
              {"api/draw", ES_SERVE_DRAW}};

static enum MHD_Result reply_stop(es_server *server, es_connection *connection,
                                  const char *method, void **context)
{
    if (strcmp(method, "POST") != 0)
        return es_reply_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                              "api/stop needs POST");
    if (!server->options->can_stop)
        return es_reply_error(connection, MHD_HTTP_FORBIDDEN,
                              "runs cannot be stopped: start entropy-scan "
                              "serve with --allow-stop");
    return start_job(server, connection, ES_SERVE_STOP, context);
}

/* Answers a request for an address below that of the page. `path` is not
   empty. */
static enum MHD_Result reply_api(es_server *server, es_connection *connection,
                                 const char *path, const char *method,
                                 void **context)
{
    if (strcmp(path, "api/stop") == 0)
        return reply_stop(server, connection, method, context);
    if (strcmp(path, "api/runs") == 0)
        return reply_list(server, connection);
    if (strcmp(path, "api/events") == 0)
        return reply_events(server, connection);
    for (size_t i = 0; i < sizeof routes / sizeof *routes; i++)
        if (strcmp(path, routes[i].path) == 0)
            return start_job(server, connection, routes[i].ask, context);
    return es_reply_error(connection, MHD_HTTP_NOT_FOUND, "no such address");
}

/* Returns true if the request has a body, which no address accepts. */
static bool has_body(es_connection *connection)
{
    const char *length = es_reply_header(connection, "Content-Length");
    return es_reply_header(connection, "Transfer-Encoding") ||
           (length && strcmp(length, "0") != 0);
}

static enum MHD_Result reply(es_server *server, es_connection *connection,
                             const char *path, const char *method,
                             void **context)
{
    const es_serve_access *access = &server->options->access;
    const bool posts = strcmp(method, "POST") == 0;
    if (!es_serve_access_is_host(access, es_reply_header(connection, "Host")))
        return es_reply_error(connection, MHD_HTTP_FORBIDDEN,
                              "the host of the address is not this server: "
                              "give entropy-scan serve --host NAME");
    path = below_base(path, server->options->base);
    if (!posts && strcmp(method, "GET") != 0 && strcmp(method, "HEAD") != 0)
        return es_reply_error(connection, MHD_HTTP_METHOD_NOT_ALLOWED,
                              "only GET and HEAD are allowed");
    if (is_foreign(access, connection, path && !*path && !posts))
        return es_reply_error(connection, MHD_HTTP_FORBIDDEN,
                              "a page of another site made the request");
    if (path && !*path && !posts)
        return reply_page(server, connection);
    if (!es_serve_access_has_cookie(access,
                                    es_reply_header(connection, "Cookie")) &&
        !es_serve_access_has_bearer(
            access, es_reply_header(connection, "Authorization")))
        return es_reply_error(connection, MHD_HTTP_UNAUTHORIZED,
                              "the request has no valid token");
    if (!path || (posts && strcmp(path, "api/stop") != 0))
        return es_reply_error(connection,
                              posts ? MHD_HTTP_METHOD_NOT_ALLOWED
                                    : MHD_HTTP_NOT_FOUND,
                              "no such address");
    return reply_api(server, connection, path, method, context);
}

/* Marks a request without a job: the first call for a request stores the
   address of this variable as the request's context. */
static char called;

enum MHD_Result es_serve_routes_answer(void *user, es_connection *connection,
                                       const char *path, const char *method,
                                       const char *version, const char *body,
                                       size_t *n_body, void **context)
{
    (void)version, (void)body;
    if (*context && *context != &called)
        return es_serve_job_reply(*context); /* the job has resumed the
                                                connection */
    if (*context && !*n_body)
        return reply(user, connection, path, method, context);
    if (*context || has_body(connection))
        return es_reply_error(connection, MHD_HTTP_CONTENT_TOO_LARGE,
                              "a request has no body");
    es_serve_peers_set(connection, true, false);
    *context = &called; /* libmicrohttpd calls this function several times
                           for a request; an answer to the first call would
                           close the connection */
    return MHD_YES;
}

void es_serve_routes_complete(void *user, es_connection *connection,
                              void **context,
                              enum MHD_RequestTerminationCode code)
{
    es_server *server = user;
    (void)code;
    if (*context && *context != &called)
        es_serve_job_end(&server->jobs, *context);
    *context = NULL;
    es_serve_peers_set(connection, false, false);
}
