/* Parses the name of a PostgreSQL database, which is a URL or a list of libpq's
   KEYWORD=VALUE pairs. The parameters `where` and `run` of a URL are those of
   this program and are not passed to libpq. The form of the URL that messages
   show contains no password, regardless of how the password was given. */
#include "store/postgresql/postgres.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/text_stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXAMPLE "postgresql://user@host/database"

static const char *const schemes[] = {"postgresql://", "postgres://"};

static size_t scheme_of(const char *text)
{
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        if (strncmp(text, schemes[i], strlen(schemes[i])) == 0)
            return strlen(schemes[i]);
    return 0;
}

bool es_postgres_is_url(const char *path)
{
    return scheme_of(path) != 0;
}

static bool is_secret(const char *keyword)
{
    return strcmp(keyword, "password") == 0 ||
           strcmp(keyword, "sslpassword") == 0;
}

/* --- a URL ---------------------------------------------------------------- */

static int digit_of(char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                  : -1;
}

/**
 * Decodes %XX in `text` (n) into *out, which the caller must free. Returns
 * ES_EUSAGE if a % is not followed by two hexadecimal digits.
 */
static es_status decode(char **out, const char *text, size_t n)
{
    es_status status = es_alloc(out, n + 1, 1, "a URL");
    size_t length = 0;
    for (size_t i = 0; i < n && status == ES_OK; i++) {
        int high, low, byte = (unsigned char)text[i];
        if (byte == '%') {
            high = i + 2 < n ? digit_of(text[i + 1]) : -1;
            low = i + 2 < n ? digit_of(text[i + 2]) : -1;
            if (high < 0 || low < 0 || high + low == 0)
                return es_fail(ES_EUSAGE,
                               "a PostgreSQL URL: a %% that is "
                               "not part of %%XX must be written as %%25");
            byte = high * 16 + low;
            i += 2;
        }
        (*out)[length++] = (char)byte;
    }
    return status;
}

/**
 * Appends `text` (n) to one of the URL's strings, which have enough capacity.
 */
static void append_text(char *to, const char *text, size_t n)
{
    const size_t length = strlen(to);
    memcpy(to + length, text, n);
    to[length + n] = '\0';
}

static es_status take_ours(char **field, const char *keyword, const char *value,
                           size_t n)
{
    if (*field)
        return es_fail(ES_EUSAGE, "a PostgreSQL URL: %s= given twice", keyword);
    es_status status = decode(field, value, n);
    return status == ES_OK && !**field
               ? es_fail(ES_EUSAGE, "a PostgreSQL URL: %s= without a value",
                         keyword)
               : status;
}

/**
 * Adds a parameter KEYWORD=VALUE, given as `text` (n), to the strings of the
 * URL in which it belongs.
 */
static es_status take_parameter(es_postgres_url *url, const char *text,
                                size_t n)
{
    const char *sign = memchr(text, '=', n);
    const size_t n_keyword = sign ? (size_t)(sign - text) : n;
    char *keyword = NULL, **ours = NULL;
    es_status status = decode(&keyword, text, n_keyword);
    if (status < 0)
        goto done;
    if (strcmp(keyword, "where") == 0)
        ours = &url->where;
    else if (strcmp(keyword, "run") == 0)
        ours = &url->run;
    if (ours)
        status = take_ours(ours, keyword, text + n_keyword + !!sign,
                           n - n_keyword - !!sign);
    char *const to[] = {ours ? NULL : url->conninfo,
                        ours || is_secret(keyword) ? NULL : url->base,
                        is_secret(keyword) ? NULL : url->shown};
    for (size_t i = 0; i < sizeof to / sizeof *to && status == ES_OK; i++)
        if (to[i]) {
            append_text(to[i], strchr(to[i], '?') ? "&" : "?", 1);
            append_text(to[i], text, n);
        }
done:
    free(keyword);
    return status;
}

/**
 * Adds user:password@hosts/database, the part of the URL before the parameters,
 * given as `text` (n), to the strings of the URL.
 */
static es_status take_place(es_postgres_url *url, const char *text, size_t n)
{
    const size_t begin = scheme_of(text);
    const char *at = memchr(text + begin, '@', n - begin);
    const char *slash = memchr(text + begin, '/', n - begin);
    const char *end = text + n;
    /* Refuses an unescaped @ in a password. The @ would end the password too
     * early, and the rest of the password would become part of the host name,
     * which messages display. */
    if (at &&
        (memchr(at + 1, '@', (size_t)(end - at - 1)) || (slash && slash < at)))
        return es_fail(ES_EUSAGE,
                       "a PostgreSQL URL: special characters of user and "
                       "password must be written as %%XX, @ as %%40: " EXAMPLE);
    const char *user = text + begin;
    const char *colon = at ? memchr(user, ':', (size_t)(at - user)) : NULL;
    append_text(url->conninfo, text, n);
    const size_t n_open = (size_t)((colon ? colon : at ? at : end) - text);
    append_text(url->base, text, n_open);
    if (at)
        append_text(url->base, at, (size_t)(end - at));
    append_text(url->shown, url->base, strlen(url->base));
    return ES_OK;
}

static es_status read_url(es_postgres_url *url, const char *text)
{
    const size_t size = strlen(text) + 3;
    size_t n = strcspn(text, "?");
    es_status status;
    if ((status = es_alloc(&url->conninfo, size, 1, "a URL")) < 0 ||
        (status = es_alloc(&url->base, size, 1, "a URL")) < 0 ||
        (status = es_alloc(&url->shown, size, 1, "a URL")) < 0 ||
        (status = take_place(url, text, n)) < 0)
        return status;
    for (const char *at = text + n; *at && status == ES_OK; at += n) {
        at++; /* skip ? or & */
        n = strcspn(at, "&");
        if (n)
            status = take_parameter(url, at, n);
    }
    return status;
}

/* --- pairs ---------------------------------------------------------------- */

static es_status show_pairs(es_postgres_url *url,
                            const es_libpq_option *options)
{
    char *shown = NULL;
    size_t n;
    FILE *out = es_text_stream(&shown, &n);
    if (!out)
        return es_fail(ES_ENOMEM, "out of memory for a database's name");
    fputs("postgresql://", out);
    for (const es_libpq_option *o = options; o->keyword; o++)
        if (o->val && *o->val && !is_secret(o->keyword))
            fprintf(out, "%c%s=%s", ftell(out) > 13 ? '&' : '?', o->keyword,
                    o->val);
    if (fclose(out) != 0) {
        free(shown);
        return es_fail(ES_ENOMEM, "out of memory for a database's name");
    }
    url->base = shown;
    return es_copy_text(&url->shown, shown);
}

/**
 * Checks the result with libpq's parser. libpq's message is not displayed,
 * because it may contain the password.
 */
static es_status check_conninfo(es_postgres_url *url, bool is_url)
{
    char *words = NULL;
    es_libpq_option *options = es_pq.conninfoParse(url->conninfo, &words);
    if (words)
        es_pq.freemem(words);
    if (!options)
        return is_url ? es_fail(ES_EUSAGE,
                                "%s: not a URL that libpq accepts: " EXAMPLE
                                "?service=NAME, special characters as %%XX, "
                                "parameters of libpq, where= and run=",
                                url->shown)
                      : es_fail(ES_EUSAGE, "a database is a URL, " EXAMPLE
                                           ", or KEYWORD=VALUE pairs as in "
                                           "psql");
    const es_status status = is_url ? ES_OK : show_pairs(url, options);
    es_pq.conninfoFree(options);
    return status;
}

es_status es_postgres_url_read(es_postgres_url *out, const char *text)
{
    const bool is_url = es_postgres_is_url(text);
    es_status status = es_libpq_load();
    if (status == ES_OK)
        status =
            is_url ? read_url(out, text) : es_copy_text(&out->conninfo, text);
    return status == ES_OK ? check_conninfo(out, is_url) : status;
}

void es_postgres_url_free(es_postgres_url *url)
{
    free(url->conninfo);
    free(url->base);
    free(url->shown);
    free(url->where);
    free(url->run);
    *url = (es_postgres_url){0};
}
