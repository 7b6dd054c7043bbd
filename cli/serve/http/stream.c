/* Sends server-sent events to the pages. */
#include "cli/serve/http/stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Time in seconds after which a client that does not read is disconnected. The
 * server sends a comment every ten seconds, so there is always something to
 * read. */
enum { STALLED_MOST = 30, BLOCK = 4096 };

struct es_serve_client {
    es_serve_stream *stream;
    es_connection *connection;
    es_serve_client *next, **before;
    char *first; /* text of the first event; `at` of its n_first bytes have been
                    sent */
    size_t n_first;
    uint64_t event; /* number of the event that is being sent, of which `at`
                       bytes have been sent */
    size_t at;
    bool waits; /* true if the connection is suspended */
    bool ends;
};

static char *print_event(size_t *n, const char *name, const char *id,
                         const char *data)
{
    char *text = NULL;
    const int length = name ? asprintf(&text, "id: %s\nevent: %s\ndata: %s\n\n",
                                       id, name, data)
                            : asprintf(&text, ":\n\n");
    *n = length < 0 ? 0 : (size_t)length;
    return length < 0 ? NULL : text;
}

static void wake_all(es_serve_stream *stream)
{
    for (es_serve_client *client = stream->clients; client;
         client = client->next)
        if (client->waits) {
            client->waits = false;
            es_mhd.resume_connection(client->connection);
        }
}

void es_serve_stream_add(es_serve_stream *stream, const char *name,
                         const char *id, const char *data)
{
    es_serve_event event;
    if (!stream->n_clients ||
        !(event.text = print_event(&event.n, name, id, data)))
        return;
    es_serve_event *slot =
        &stream->events[stream->n_events++ % ES_SERVE_EVENTS_KEPT];
    free(slot->text);
    *slot = event;
    wake_all(stream);
}

/* Copies the next bytes of a text; *at counts the bytes that were sent. */
static size_t copy_part(char *out, size_t most, const char *text, size_t n,
                        size_t *at)
{
    const size_t part = n - *at < most ? n - *at : most;
    memcpy(out, text + *at, part);
    *at += part;
    return part;
}

/* Gives libmicrohttpd the next bytes for a client, or suspends the
 * connection until the next event. */
static ssize_t read_events(void *user, uint64_t position, char *out,
                           size_t most)
{
    es_serve_client *client = user;
    const es_serve_stream *stream = client->stream;
    (void)position;
    if (client->ends)
        return MHD_CONTENT_READER_END_OF_STREAM;
    if (client->first) {
        const size_t n =
            copy_part(out, most, client->first, client->n_first, &client->at);
        if (client->at == client->n_first) {
            free(client->first);
            client->first = NULL;
            client->at = 0;
        }
        return (ssize_t)n;
    }
    if (stream->n_events - client->event > ES_SERVE_EVENTS_KEPT ||
        (stream->n_events - client->event == ES_SERVE_EVENTS_KEPT &&
         client->at))
        return MHD_CONTENT_READER_END_WITH_ERROR; /* events that the client has
                                                     not read were
                                                     overwritten */
    if (client->event == stream->n_events) {
        client->waits = true;
        es_mhd.suspend_connection(client->connection);
        return 0;
    }
    const es_serve_event *event =
        &stream->events[client->event % ES_SERVE_EVENTS_KEPT];
    const size_t n = copy_part(out, most, event->text, event->n, &client->at);
    if (client->at == event->n) {
        client->event++;
        client->at = 0;
    }
    return (ssize_t)n;
}

static void free_client(void *user)
{
    es_serve_client *client = user;
    if (client->next)
        client->next->before = client->before;
    *client->before = client->next;
    client->stream->n_clients--;
    free(client->first);
    free(client);
}

enum MHD_Result es_serve_stream_open(es_serve_stream *stream,
                                     es_connection *connection, const char *id,
                                     const char *data)
{
    if (stream->n_clients >= ES_SERVE_CLIENTS_MOST)
        return es_reply_error(connection, MHD_HTTP_SERVICE_UNAVAILABLE,
                              "too many pages are open");
    es_serve_client *client = calloc(1, sizeof *client);
    if (!client)
        return MHD_NO;
    *client = (es_serve_client){
        .stream = stream, .connection = connection, .event = stream->n_events};
    client->first = print_event(&client->n_first, "runs", id, data);
    es_response *response = es_reply_guard(es_mhd.create_response_from_callback(
        MHD_SIZE_UNKNOWN, BLOCK, read_events, client, free_client));
    if (!response) {
        free(client->first);
        free(client);
        return MHD_NO;
    }
    client->before = &stream->clients;
    client->next = stream->clients;
    if (client->next)
        client->next->before = &client->next;
    stream->clients = client;
    stream->n_clients++;
    es_mhd.add_response_header(response, "Content-Type", "text/event-stream");
    es_mhd.add_response_header(response, "Cache-Control", "no-store");
    es_mhd.add_response_header(response, "X-Accel-Buffering", "no");
    es_mhd.set_connection_option(connection, MHD_CONNECTION_OPTION_TIMEOUT,
                                 (unsigned)STALLED_MOST);
    return es_reply_queue(connection, MHD_HTTP_OK, response);
}

void es_serve_stream_end(es_serve_stream *stream)
{
    for (es_serve_client *client = stream->clients; client;
         client = client->next)
        client->ends = true;
    wake_all(stream);
}

void es_serve_stream_free(es_serve_stream *stream)
{
    for (int i = 0; i < ES_SERVE_EVENTS_KEPT; i++)
        free(stream->events[i].text);
}
