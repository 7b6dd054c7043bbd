/* Taking the terminal and giving it back, also when a signal ends or stops the
   process: handlers call nothing but what is safe in them. */
#include "cli/terminal/tty.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

static const int fatal[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM};
enum { N_FATAL = sizeof fatal / sizeof *fatal };

static struct termios before; /* of standard input, if it has_keys */
static bool has_keys;
static volatile sig_atomic_t taken, changed;
static struct sigaction old_fatal[N_FATAL], old_stop, old_continue, old_size;

/* What follows up to es_tty_take is called by signal handlers, too. */

static void send(const char *text)
{
    ssize_t n = write(STDOUT_FILENO, text, strlen(text));
    (void)n; /* there is nobody left to report it to */
}

static void enter(void)
{
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_iflag &= ~(tcflag_t)IXON; /* ^S would block our last words */
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    send("\033[?1049h\033[?25l\033[0m\033[2J");
    changed = 1;
}

static void leave(void)
{
    send("\033[0m\033[?25h\033[?1049l");
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void die(int number)
{
    if (taken)
        leave();
    taken = 0;
    raise(number); /* its default action, once this handler has returned */
}

static void stop(int number)
{
    int error = errno;
    struct sigaction ours, standard = {.sa_handler = SIG_DFL};
    sigset_t this;
    leave();
    sigaction(number, &standard, &ours);
    sigemptyset(&this);
    sigaddset(&this, number);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &this, NULL); /* here it stops */
    sigaction(number, &ours, NULL);
    errno = error;
}

static void go_on(int number)
{
    int error = errno;
    (void)number;
    if (taken)
        enter();
    errno = error;
}

static void note_change(int number)
{
    (void)number;
    changed = 1;
}

/* Signals that are ignored, as under nohup, stay so. */
static void catch_signal(int number, void (*handler)(int), int flags,
                         struct sigaction *old)
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigfillset(&action.sa_mask);
    sigaction(number, NULL, old);
    if (old->sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

void es_tty_take(void)
{
    has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    for (int i = 0; i < N_FATAL; i++)
        catch_signal(fatal[i], die, (int)SA_RESETHAND, &old_fatal[i]);
    catch_signal(SIGTSTP, stop, SA_RESTART, &old_stop);
    catch_signal(SIGCONT, go_on, SA_RESTART, &old_continue);
    catch_signal(SIGWINCH, note_change, SA_RESTART, &old_size);
    taken = 1;
    enter();
}

void es_tty_give_back(void)
{
    if (!taken)
        return;
    leave();
    taken = 0;
    for (int i = 0; i < N_FATAL; i++)
        sigaction(fatal[i], &old_fatal[i], NULL);
    sigaction(SIGTSTP, &old_stop, NULL);
    sigaction(SIGCONT, &old_continue, NULL);
    sigaction(SIGWINCH, &old_size, NULL);
}

bool es_tty_was_changed(void)
{
    bool was = changed;
    changed = 0;
    return was;
}

int es_tty_wait(unsigned char *out, size_t size, int milliseconds)
{
    struct pollfd keys = {.fd = has_keys ? STDIN_FILENO : -1, .events = POLLIN};
    if (changed || poll(&keys, 1, milliseconds) <= 0)
        return 0;
    ssize_t n = read(STDIN_FILENO, out, size);
    if (n > 0)
        return (int)n;
    return n < 0 && (errno == EINTR || errno == EAGAIN) ? 0 : -1;
}

es_status es_tty_write(const char *bytes, size_t n)
{
    while (n > 0) {
        ssize_t written = write(STDOUT_FILENO, bytes, n);
        if (written < 0 && errno != EINTR)
            return es_fail(ES_EIO, "standard output: cannot write: %s",
                           strerror(errno));
        if (written > 0) {
            bytes += written;
            n -= (size_t)written;
        }
    }
    return ES_OK;
}
