/* Writes, reads and removes the rendezvous file. Rank 0 writes the file. The
 * other ranks read it; at that path they may also find the rendezvous file of
 * an earlier training run, or an unrelated file. */
#include "hooks/trainer/ranks/address.h"

#include "analyzer/base/infile.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#define FIRST_LINE "entropy-train ranks 1"

/* --- reading -------------------------------------------------------------- */

static bool take_line(es_address *place, const char *line)
{
    char address[16] = "";
    struct in_addr known;
    int end = 0;
    if (sscanf(line, "key %32[0-9a-f]%n", place->key, &end) == 1)
        return strlen(place->key) == 32 && !line[end];
    if (sscanf(line, "host %63[!-~]%n", place->host, &end) == 1)
        return !line[end];
    if (sscanf(line, "port %5d%n", &place->port, &end) == 1)
        return place->port > 0 && place->port < 65536 && !line[end];
    if (sscanf(line, "address %15[0-9.]%n", address, &end) != 1 || line[end] ||
        inet_pton(AF_INET, address, &known) != 1 ||
        place->n_addresses >= ES_MAX_ADDRESSES)
        return false;
    memcpy(place->addresses[place->n_addresses++], address, sizeof address);
    return true;
}

es_status es_address_read(es_address *out, const char *path)
{
    static const es_infile_limit limit = {4096, "a rendezvous", ES_EUSAGE};
    char *text = NULL, *rest = NULL;
    size_t n;
    *out = (es_address){.port = 0};
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return es_fail(ES_ENOTFOUND,
                       "%s: the rendezvous file is not written yet", path);
    es_status status = es_infile_load(&text, &n, path, &limit);
    if (status != ES_OK)
        return status;
    char *line = strtok_r(text, "\n", &rest);
    bool is_ours = strlen(text) <= n && line && strcmp(line, FIRST_LINE) == 0;
    while (is_ours && (line = strtok_r(NULL, "\n", &rest)))
        is_ours = take_line(out, line);
    if (!is_ours || !out->key[0] || !out->host[0] || out->port == 0)
        status = es_fail(ES_EUSAGE,
                         "%s: not a rendezvous file of entropy-train: give "
                         "--rendezvous another name, or remove the file",
                         path);
    free(text);
    return status;
}

/* --- writing -------------------------------------------------------------- */

static bool print_address(FILE *stream, const es_address *place)
{
    fprintf(stream, "%s\nkey %s\nhost %s\nport %d\n", FIRST_LINE, place->key,
            place->host, place->port);
    for (int i = 0; i < place->n_addresses; i++)
        fprintf(stream, "address %s\n", place->addresses[i]);
    return fclose(stream) == 0;
}

es_status es_address_write(const es_address *place, const char *path)
{
    char new[4096 + 32];
    const int n = snprintf(new, sizeof new, "%s.%d", path, (int)getpid());
    const int fd =
        n < (int)sizeof new
            ? open(new, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600)
            : -1;
    FILE *stream = fd >= 0 ? fdopen(fd, "w") : NULL;
    if (stream && print_address(stream, place) && rename(new, path) == 0)
        return ES_OK;
    const int error = errno;
    if (fd >= 0) {
        if (!stream)
            close(fd);
        unlink(new);
    }
    return es_fail(ES_EIO,
                   "%s: %s: let --rendezvous name a file in a folder that all "
                   "ranks share and can write to",
                   path, strerror(error));
}

/* --- this host ------------------------------------------------------------ */

static void list_addresses(es_address *out)
{
    struct ifaddrs *all = NULL;
    if (getifaddrs(&all) != 0)
        return;
    for (const struct ifaddrs *i = all; i; i = i->ifa_next) {
        struct sockaddr_in address;
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET ||
            (i->ifa_flags & IFF_LOOPBACK) || !(i->ifa_flags & IFF_UP) ||
            out->n_addresses >= ES_MAX_ADDRESSES)
            continue;
        memcpy(&address, i->ifa_addr, sizeof address);
        inet_ntop(AF_INET, &address.sin_addr,
                  out->addresses[out->n_addresses++], sizeof out->addresses[0]);
    }
    freeifaddrs(all);
}

es_status es_address_find(es_address *out)
{
    unsigned char key[16];
    *out = (es_address){.port = 0};
    if (gethostname(out->host, sizeof out->host - 1) != 0 || !out->host[0])
        snprintf(out->host, sizeof out->host, "localhost");
    if (getrandom(key, sizeof key, 0) != (ssize_t)sizeof key)
        return es_fail(ES_EIO, "cannot obtain random numbers: %s",
                       strerror(errno));
    for (size_t i = 0; i < sizeof key; i++)
        snprintf(out->key + 2 * i, 3, "%02x", key[i]);
    list_addresses(out);
    return ES_OK;
}
