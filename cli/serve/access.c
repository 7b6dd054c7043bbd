/* Creates the access token of the server, and checks the tokens, cookies, host
   names and origins of requests. */
#include "cli/serve/access.h"

#include "store/crc32c.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { RANDOM_BYTES = 16, HOST_MOST = 256 };

/* --- token ----------------------------------------------------------------*/

static es_status make_token(char *out)
{
    unsigned char bytes[RANDOM_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return es_fail(ES_EIO, "no random numbers for a token: %s",
                       strerror(errno));
    for (int i = 0; i < RANDOM_BYTES; i++)
        snprintf(out + 2 * i, 3, "%02x", bytes[i]);
    return ES_OK;
}

static es_status write_token(const char *path, const char *token)
{
    const int fd =
        open(path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return es_fail(ES_EIO, "%s: cannot create: %s", path, strerror(errno));
    const size_t n = strlen(token);
    const bool written =
        write(fd, token, n) == (ssize_t)n && write(fd, "\n", 1) == 1;
    if (close(fd) == 0 && written)
        return ES_OK;
    unlink(path);
    return es_fail(ES_EIO, "%s: cannot write: %s", path, strerror(errno));
}

static es_status check_token(const char *token, const char *path)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                  "abcdefghijklmnopqrstuvwxyz0123456789-_";
    const size_t n = strlen(token);
    if (n < ES_SERVE_TOKEN_LEAST || n > ES_SERVE_TOKEN_MOST ||
        strspn(token, letters) != n)
        return es_fail(ES_EUSAGE,
                       "%s: the first line is not a token of %d to %d letters, "
                       "digits, - and _: remove the file to get a new one",
                       path, ES_SERVE_TOKEN_LEAST, ES_SERVE_TOKEN_MOST);
    return ES_OK;
}

/* Reads the token from an open file. Fails unless the file belongs to this user
 * and no other user can read it. */
static es_status read_token(char *out, int fd, const char *path)
{
    struct stat about;
    char text[ES_SERVE_TOKEN_MOST + 3];
    if (fstat(fd, &about) != 0 || !S_ISREG(about.st_mode))
        return es_fail(ES_EUSAGE, "%s: not a file", path);
    if (about.st_uid != geteuid() || about.st_mode & (S_IRWXG | S_IRWXO))
        return es_fail(ES_EUSAGE,
                       "%s: other users can read the token: chmod 600 %s", path,
                       path);
    const ssize_t n = read(fd, text, sizeof text - 1);
    if (n < 0)
        return es_fail(ES_EIO, "%s: cannot read: %s", path, strerror(errno));
    text[n] = '\0';
    text[strcspn(text, "\r\n")] = '\0';
    es_status status = check_token(text, path);
    if (status == ES_OK)
        strcpy(out, text);
    return status;
}

es_status es_serve_access_set_token(es_serve_access *access, const char *path)
{
    es_status status = ES_OK;
    const int fd = path ? open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC) : -1;
    if (fd >= 0) {
        status = read_token(access->token, fd, path);
        close(fd);
    } else if (path && errno != ENOENT) {
        status = es_fail(ES_EIO, "%s: cannot read: %s", path, strerror(errno));
    } else if ((status = make_token(access->token)) == ES_OK && path) {
        status = write_token(path, access->token);
    }
    snprintf(access->cookie, sizeof access->cookie, "entropy_scan_%08x",
             es_crc32c(0, access->token, strlen(access->token)));
    return status;
}

bool es_serve_access_is_token(const es_serve_access *access, const char *text,
                              size_t n)
{
    const size_t length = strlen(access->token);
    unsigned char differs = n != length;
    for (size_t i = 0; i < length; i++)
        differs |= (unsigned char)(access->token[i] ^ (i < n ? text[i] : 0));
    return !differs;
}

bool es_serve_access_has_cookie(const es_serve_access *access,
                                const char *header)
{
    const size_t n_name = strlen(access->cookie);
    bool found = false;
    while (header && *header) {
        header += strspn(header, "; \t");
        const size_t n = strcspn(header, ";");
        if (n > n_name && strncmp(header, access->cookie, n_name) == 0 &&
            header[n_name] == '=')
            found |= es_serve_access_is_token(access, header + n_name + 1,
                                              n - n_name - 1);
        header += n;
    }
    return found;
}

bool es_serve_access_has_bearer(const es_serve_access *access,
                                const char *header)
{
    return header && strncasecmp(header, "Bearer ", 7) == 0 &&
           es_serve_access_is_token(access, header + 7, strlen(header + 7));
}

/* --- host -----------------------------------------------------------------*/

/* Copies HOST from a header "HOST" or "HOST:PORT", without the brackets of an
 * IPv6 address. Returns false if the header is malformed. */
static bool split_host(char out[HOST_MOST], const char *header)
{
    const bool bracketed = header[0] == '[';
    const char *start = header + bracketed;
    const size_t n = strcspn(start, bracketed ? "]" : ":");
    const char *rest = start + n;
    if (bracketed && *rest++ != ']')
        return false;
    if (n == 0 || n >= HOST_MOST ||
        (*rest && (*rest != ':' || !rest[1] ||
                   strspn(rest + 1, "0123456789") != strlen(rest + 1))))
        return false;
    memcpy(out, start, n);
    out[n] = '\0';
    return true;
}

static bool is_loopback(const char *host)
{
    struct in_addr four;
    struct in6_addr six;
    const size_t n = strlen(host);
    if (strcasecmp(host, "localhost") == 0 ||
        (n > 10 && strcasecmp(host + n - 10, ".localhost") == 0))
        return true;
    if (inet_pton(AF_INET, host, &four) == 1)
        return ntohl(four.s_addr) >> 24 == 127;
    return inet_pton(AF_INET6, host, &six) == 1 &&
           memcmp(&six, &in6addr_loopback, sizeof six) == 0;
}

static bool is_address(const char *host)
{
    unsigned char address[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, address) == 1 ||
           inet_pton(AF_INET6, host, address) == 1;
}

/* Returns true if the host is the name of this machine, with or without a
 * domain. */
static bool is_this_machine(const char *host)
{
    char name[HOST_NAME_MAX + 1] = "";
    if (gethostname(name, sizeof name - 1) != 0 || !name[0])
        return false;
    if (strcasecmp(host, name) == 0)
        return true;
    name[strcspn(name, ".")] = '\0';
    return strcasecmp(host, name) == 0;
}

/* Returns true if the user named the host on the command line (--host). */
static bool is_given(const es_serve_access *access, const char *host)
{
    for (size_t i = 0; i < access->n_hosts; i++)
        if (strcasecmp(host, access->hosts[i]) == 0)
            return true;
    return false;
}

bool es_serve_access_is_host(const es_serve_access *access, const char *header)
{
    char host[HOST_MOST];
    if (!header || !split_host(host, header))
        return false;
    return is_given(access, host) || is_loopback(host) ||
           (!access->is_local && (is_address(host) || is_this_machine(host)));
}

bool es_serve_access_is_origin(const es_serve_access *access,
                               const char *origin, const char *host)
{
    char name[HOST_MOST];
    if (!origin)
        return true;
    origin = strstr(origin, "://");
    return origin && host &&
           (strcasecmp(origin + 3, host) == 0 ||
            (split_host(name, origin + 3) && is_given(access, name)));
}
