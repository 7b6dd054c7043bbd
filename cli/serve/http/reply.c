/* Makes the HTTP responses of `serve`. */
#include "cli/serve/http/reply.h"

#include "analyzer/base/json_write.h"
#include "analyzer/base/text_stream.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

/* Minimum size in bytes of a text that is compressed. */
enum { PACKED_LEAST = 2048 };

es_response *es_reply_guard(es_response *response)
{
    static const char *const headers[][2] = {
        {"X-Content-Type-Options", "nosniff"},
        {"Referrer-Policy", "no-referrer"},
        {"Cross-Origin-Resource-Policy", "same-origin"},
        {"Cross-Origin-Opener-Policy", "same-origin"},
    };
    for (size_t i = 0; response && i < sizeof headers / sizeof *headers; i++)
        es_mhd.add_response_header(response, headers[i][0], headers[i][1]);
    return response;
}

/* Compresses text with gzip. Returns false if memory is short. */
static bool pack(char **out, size_t *n_out, const char *text, size_t n)
{
    z_stream stream = {.next_in = (Bytef *)(uintptr_t)text,
                       .avail_in = (uInt)n};
    if (n > UINT32_MAX || deflateInit2(&stream, 1, Z_DEFLATED, 15 + 16, 8,
                                       Z_DEFAULT_STRATEGY) != Z_OK)
        return false;
    const size_t most = deflateBound(&stream, n);
    *out = malloc(most);
    stream.next_out = (Bytef *)*out;
    stream.avail_out = (uInt)most;
    const bool packed = *out && deflate(&stream, Z_FINISH) == Z_STREAM_END;
    *n_out = stream.total_out;
    deflateEnd(&stream);
    if (!packed) {
        free(*out);
        *out = NULL;
    }
    return packed;
}

es_response *es_reply_text(char *text, size_t n, const char *type, bool packed)
{
    char *smaller = NULL;
    if (!text)
        return NULL;
    packed = packed && n >= PACKED_LEAST && pack(&smaller, &n, text, n);
    if (packed) {
        free(text);
        text = smaller;
    }
    es_response *response = es_reply_guard(
        es_mhd.create_response_from_buffer(n, text, MHD_RESPMEM_MUST_FREE));
    if (!response) {
        free(text);
        return NULL;
    }
    es_mhd.add_response_header(response, "Content-Type", type);
    es_mhd.add_response_header(response, "Vary", "Accept-Encoding");
    if (packed)
        es_mhd.add_response_header(response, "Content-Encoding", "gzip");
    return response;
}

bool es_reply_is_packed(es_connection *connection)
{
    const char *accepted = es_reply_header(connection, "Accept-Encoding");
    return accepted && strstr(accepted, "gzip");
}

enum MHD_Result es_reply_queue(es_connection *connection, unsigned status,
                               es_response *response)
{
    if (!response)
        return MHD_NO; /* memory is short; MHD_NO closes the connection */
    enum MHD_Result result =
        es_mhd.queue_response(connection, status, response);
    es_mhd.destroy_response(response);
    return result;
}

enum MHD_Result es_reply_error(es_connection *connection, unsigned status,
                               const char *message)
{
    char *text = NULL;
    size_t n;
    FILE *stream = es_text_stream(&text, &n);
    if (!stream)
        return MHD_NO;
    es_json_writer json = {.stream = stream};
    es_json_write_object(&json, NULL);
    es_json_write_text(&json, "error", message);
    es_json_write_end(&json, "}");
    if (fclose(stream) != 0)
        return MHD_NO;
    es_response *response = es_reply_text(text, n, "application/json", false);
    if (response) {
        es_mhd.add_response_header(response, "Cache-Control", "no-store");
        es_mhd.add_response_header(response, "Content-Security-Policy",
                                   "default-src 'none'; frame-ancestors "
                                   "'none'");
        if (status == MHD_HTTP_METHOD_NOT_ALLOWED)
            es_mhd.add_response_header(response, "Allow", "GET, HEAD");
        if (status == MHD_HTTP_SERVICE_UNAVAILABLE)
            es_mhd.add_response_header(response, "Retry-After", "1");
    }
    return es_reply_queue(connection, status, response);
}

const char *es_reply_header(es_connection *connection, const char *name)
{
    return es_mhd.lookup_connection_value(connection, MHD_HEADER_KIND, name);
}

const char *es_reply_argument(es_connection *connection, const char *name)
{
    return es_mhd.lookup_connection_value(connection, MHD_GET_ARGUMENT_KIND,
                                          name);
}
