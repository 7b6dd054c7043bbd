/* Contains the loop of `serve`. Its single thread waits for browsers, for the
 * process that reads run files, and for the processes that answer requests. It
 * opens no run file. */
#include "cli/serve/http/server_internal.h"

#include "analyzer/base/kernel.h"
#include "cli/output/print.h"
#include "cli/serve/address.h"
#include "cli/serve/http/clock.h"
#include "cli/serve/watching.h"
#include "store/run_place.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

/* Interval in seconds at which a comment is sent in the streams of events. */
#define BEAT 10
/* Memory of a connection in bytes, which limits the size of a request. */
#define CONNECTION_MEMORY ((size_t)32 << 10)
/* Seconds after which a connection without traffic is closed. */
#define SILENCE_MOST 60u
enum { BACKLOG = 512, FDS = ES_SERVE_RUNNING_MOST + 4 };

/* The process that reads run files. */
typedef struct reading {
    es_process process; /* its pid is 0 while the process is not running */
    int fd;             /* end of the pipe from which the server reads the
                           process's messages */
    es_serve_inbox inbox;
    uint64_t before; /* version of the list of runs when this process was last
                        restarted; 0 if it was never restarted, or once it has
                        sent all runs again */
    double again;    /* time at which the process is started again if it is not
                        running */
    int n_ends;      /* number of times that the process has ended
                        unexpectedly */
} reading;

typedef struct loop {
    es_server server;
    reading reading;
    struct MHD_Daemon *daemon;
    int socket, signals;
    double beat;      /* time at which the next comment is sent to the open
                         event streams */
    es_status status; /* failure that ends the server */
} loop;

/* --- the address ----------------------------------------------------------*/

static es_status listen_at(loop *l)
{
    const es_serve_options *options = l->server.options;
    struct addrinfo *found;
    const int yes = 1;
    es_status status =
        es_serve_resolve(&found, options->address, options->port);
    if (status < 0)
        return status;
    l->socket =
        socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->socket < 0)
        status = es_fail(ES_EIO, "cannot open a socket: %s", strerror(errno));
    else if (setsockopt(l->socket, SOL_SOCKET, SO_REUSEADDR, &yes,
                        sizeof yes) != 0 ||
             bind(l->socket, found->ai_addr, found->ai_addrlen) != 0 ||
             listen(l->socket, BACKLOG) != 0)
        status = es_fail(ES_EIO, "%s:%d: cannot listen: %s%s", options->address,
                         options->port, strerror(errno),
                         errno == EADDRINUSE
                             ? ": give another port, or --port 0 for a free one"
                             : "");
    freeaddrinfo(found);
    return status;
}

static int port_of(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in four;
        struct sockaddr_in6 six;
    } address = {.six = {.sin6_family = AF_UNSPEC}};
    socklen_t n = sizeof address;
    getsockname(fd, &address.any, &n);
    return ntohs(address.any.sa_family == AF_INET ? address.four.sin_port
                                                  : address.six.sin6_port);
}

/* Writes the address that opens the page. */
static void print_address(char *out, size_t size, const loop *l)
{
    const es_serve_options *options = l->server.options;
    char name[256] = "";
    const char *host = options->address;
    if (strcmp(host, "0.0.0.0") == 0 || strcmp(host, "::") == 0) {
        if (gethostname(name, sizeof name - 1) == 0 && name[0])
            host = name;
    }
    const bool six = strchr(host, ':') != NULL;
    snprintf(out, size, "http://%s%s%s:%d%s/?token=%s", six ? "[" : "", host,
             six ? "]" : "", port_of(l->socket), options->base,
             options->access.token);
}

static void open_browser(const char *address)
{
    char *const argv[] = {"xdg-open", (char *)(uintptr_t)address, NULL};
    es_process process = {.pid = 0};
    const int error = es_process_start(
        &process,
        &(es_process_options){
            .argv = argv,
            .streams = {ES_STREAM_NULL, ES_STREAM_NULL, ES_STREAM_NULL},
            .place = ES_PLACE_SESSION});
    if (error)
        es_print_note("--open: xdg-open: %s", strerror(error));
    else
        es_process_free(&process);
}

/* --- the process that reads run files -------------------------------------*/

static es_status start_reading(loop *l)
{
    const es_serve_options *options = l->server.options;
    reading *r = &l->reading;
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0)
        return es_fail(ES_EIO, "no pipe: %s", strerror(errno));
    es_serve_watching watching = {.roots = options->roots,
                                  .n_roots = options->n_roots,
                                  .rules = options->rules,
                                  .fd = ends[1]};
    const int error = es_process_fork(&r->process, es_serve_watch, &watching);
    close(ends[1]);
    if (error) {
        close(ends[0]);
        return es_fail(ES_EIO, "cannot start a process: %s", strerror(error));
    }
    r->fd = ends[0];
    r->inbox.n = 0;
    r->before = r->n_ends ? l->server.listing.version : 0;
    return ES_OK;
}

/* Ends the current version of the list of runs, and sends the changes since the
 * previous version to the open pages. */
static void end_version(es_server *server)
{
    char version[40];
    if (!es_serve_listing_close(&server->listing))
        return;
    char *data = es_serve_listing_event(&server->listing, true);
    es_serve_listing_version(version, &server->listing);
    if (data)
        es_serve_stream_add(&server->stream, "runs", version, data);
    free(data);
}

static es_status take_message(void *user, es_serve_kind kind, const char *bytes,
                              size_t n)
{
    loop *l = user;
    es_server *server = &l->server;
    char version[40];
    if (kind == ES_SERVE_FATAL)
        return es_fail(ES_EIO, "%.*s", (int)n, bytes);
    if (kind == ES_SERVE_ROUND) {
        if (l->reading.before && n && bytes[0]) {
            es_serve_listing_forget(&server->listing, l->reading.before);
            l->reading.before = 0;
        }
        end_version(server);
        return ES_OK;
    }
    if (kind != ES_SERVE_ALERT)
        return es_serve_listing_take(&server->listing, kind, bytes, n);
    char *data = strndup(bytes, n);
    es_serve_listing_version(version, &server->listing);
    if (data)
        es_serve_stream_add(&server->stream, "alert", version, data);
    free(data);
    return ES_OK;
}

/* Reads messages from the process that reads run files. If that process has
 * ended without a message about a failure, because a file crashed it or the
 * system killed it, schedules its restart. */
static es_status read_messages(loop *l)
{
    reading *r = &l->reading;
    es_process_end end;
    char text[64];
    es_status status = es_serve_receive(&r->inbox, r->fd, take_message, l);
    if (status != ES_DONE)
        return status;
    es_process_wait_or_kill(&end, &r->process, 1000);
    es_process_end_text(text, sizeof text, &end);
    es_print_note("the process that reads run files ended (%s): it is started "
                  "again",
                  text);
    es_process_free(&r->process);
    close(r->fd);
    r->process.pid = 0;
    r->fd = -1;
    r->again = es_serve_now() + ldexp(1, r->n_ends < 6 ? r->n_ends : 6);
    r->n_ends++;
    return ES_OK;
}

/* --- the loop -------------------------------------------------------------*/

static es_status start_daemon(loop *l)
{
    es_server *server = &l->server;
    es_serve_peers_begin(&server->peers);
    l->daemon = es_mhd.start_daemon(
        MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME, 0, NULL, NULL,
        es_serve_routes_answer, server, MHD_OPTION_LISTEN_SOCKET, l->socket,
        MHD_OPTION_CONNECTION_LIMIT, (unsigned)server->peers.most,
        MHD_OPTION_CONNECTION_TIMEOUT, SILENCE_MOST,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, CONNECTION_MEMORY,
        MHD_OPTION_NOTIFY_CONNECTION, es_serve_peers_notify, &server->peers,
        MHD_OPTION_NOTIFY_COMPLETED, es_serve_routes_complete, server,
        MHD_OPTION_END);
    return l->daemon ? ES_OK
                     : es_fail(ES_EIO, "libmicrohttpd does not start: %s",
                               strerror(errno));
}

/* Handles all work whose time has come. Returns the time in seconds until the
 * next deadline, or INFINITY if there is no deadline. */
static double do_due(loop *l)
{
    es_server *server = &l->server;
    MHD_UNSIGNED_LONG_LONG milliseconds;
    es_serve_jobs_step(&server->jobs);
    double left = es_serve_peers_step(&server->peers);
    if (server->stream.n_clients && es_serve_now() >= l->beat) {
        es_serve_stream_add(&server->stream, NULL, NULL, NULL);
        l->beat = es_serve_now() + BEAT;
    }
    es_mhd.run(l->daemon); /* must follow the processing of jobs and streams,
                              which resumes connections */
    if (server->stream.n_clients)
        left = fmin(left, l->beat - es_serve_now());
    if (!l->reading.process.pid)
        left = fmin(left, l->reading.again - es_serve_now());
    if (es_mhd.get_timeout(l->daemon, &milliseconds) == MHD_YES)
        left = fmin(left, (double)milliseconds / 1000);
    return fmin(left, es_serve_jobs_wait(&server->jobs));
}

/* Reads and discards standard input. Returns true at its end. */
static bool has_input_ended(void)
{
    char bytes[256];
    const ssize_t n = read(STDIN_FILENO, bytes, sizeof bytes);
    return n == 0 || (n < 0 && errno != EINTR && errno != EAGAIN);
}

/* Waits for the next event or deadline and handles it. Sets *over after a
   signal, or at the end of standard input if options->until_eof is true. */
static es_status step(loop *l, bool *over)
{
    const union MHD_DaemonInfo *info =
        es_mhd.get_daemon_info(l->daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct pollfd fds[FDS];
    const double left = do_due(l);
    fds[0] = (struct pollfd){.fd = l->signals, .events = POLLIN};
    fds[1] = (struct pollfd){.fd = l->reading.fd, .events = POLLIN};
    fds[2] = (struct pollfd){.fd = info->epoll_fd, .events = POLLIN};
    fds[3] =
        (struct pollfd){.fd = l->server.options->until_eof ? STDIN_FILENO : -1,
                        .events = POLLIN};
    const size_t n = 4 + es_serve_jobs_poll(&l->server.jobs, fds + 4);
    poll(fds, n,
         isinf(left) ? -1
         : left > 0  ? (int)fmin(ceil(1000 * left), 3600e3)
                     : 0);
    *over = fds[0].revents || (fds[3].revents && has_input_ended());
    if (fds[1].revents)
        return read_messages(l);
    if (!l->reading.process.pid && es_serve_now() >= l->reading.again)
        return start_reading(l);
    return ES_OK;
}

/* Blocks the signals that end the server; they are read from *fd. */
static es_status catch_signals(int *fd)
{
    sigset_t ending;
    sigemptyset(&ending);
    sigaddset(&ending, SIGINT);
    sigaddset(&ending, SIGTERM);
    sigaddset(&ending, SIGHUP);
    sigprocmask(SIG_BLOCK, &ending, NULL);
    signal(SIGPIPE, SIG_IGN);
    *fd = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
    return *fd >= 0 ? ES_OK
                    : es_fail(ES_EIO, "no signalfd: %s", strerror(errno));
}

/* Fails if a given file or folder does not exist: the name is probably wrong,
   although the folder could be created later. */
static es_status check_roots(const es_serve_options *options)
{
    for (size_t i = 0; i < options->n_roots; i++)
        if (!es_path_is_url(options->roots[i]) &&
            access(options->roots[i], R_OK) != 0)
            return es_fail(ES_EIO, "%s: %s", options->roots[i],
                           strerror(errno));
    return ES_OK;
}

static es_status serve(loop *l)
{
    char address[1024];
    bool over = false;
    es_status status;
    if ((status = check_roots(l->server.options)) < 0 ||
        (status = es_mhd_load()) < 0 || (status = listen_at(l)) < 0 ||
        (status = catch_signals(&l->signals)) < 0 ||
        (status = es_serve_routes_begin(&l->server)) < 0 ||
        (status = start_reading(l)) < 0 || (status = start_daemon(l)) < 0)
        return status;
    print_address(address, sizeof address, l);
    puts(address);
    if (fflush(stdout) != 0)
        return es_fail(ES_EIO, "standard output: cannot write: %s",
                       strerror(errno));
    if (l->server.options->opens)
        open_browser(address);
    while (status == ES_OK && !over)
        status = step(l, &over);
    return status;
}

static void end(loop *l)
{
    es_process_end how;
    if (l->daemon) {
        es_serve_stream_end(&l->server.stream);
        es_serve_jobs_end(&l->server.jobs);
        es_mhd.run(l->daemon);
        es_mhd.stop_daemon(l->daemon);
    } else if (l->socket >= 0) {
        close(l->socket);
    }
    if (l->reading.process.pid) {
        es_process_signal(&l->reading.process, SIGKILL);
        es_process_wait(&how, &l->reading.process, -1);
        es_process_free(&l->reading.process);
    }
    if (l->reading.fd >= 0)
        close(l->reading.fd);
    if (l->signals >= 0)
        close(l->signals);
    free(l->reading.inbox.bytes);
    es_serve_routes_free(&l->server);
    es_serve_stream_free(&l->server.stream);
    es_serve_listing_free(&l->server.listing);
}

es_status es_serve_run(es_serve_options *options)
{
    static loop l;
    l = (loop){.server = {.options = options, .jobs.rules = options->rules},
               .reading.fd = -1,
               .socket = -1,
               .signals = -1};
    es_serve_listing_begin(&l.server.listing);
    es_status status = serve(&l);
    end(&l);
    return status;
}
