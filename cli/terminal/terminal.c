/* Detects the terminal's capabilities from the environment, and its size.
 * Switches the terminal to the mode of the live view and restores the previous
 * mode, also when a signal ends or stops the process. Signal handlers call only
 * async-signal-safe functions. */
#include "cli/terminal/terminal.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <unistd.h>

static bool is_set(const char *value)
{
    return value && *value;
}

static bool is_utf8(const es_terminal_variables *variables)
{
    const char *name = is_set(variables->lc_all)     ? variables->lc_all
                       : is_set(variables->lc_ctype) ? variables->lc_ctype
                                                     : variables->lang;
    const char *charset = name ? strchr(name, '.') : NULL;
    return charset && (strncasecmp(charset, ".utf-8", 6) == 0 ||
                       strncasecmp(charset, ".utf8", 5) == 0);
}

es_depth es_terminal_depth(const es_terminal_variables *variables)
{
    const char *term = variables->term, *colours = variables->colorterm;
    if (!is_set(term) || strcmp(term, "dumb") == 0 ||
        strncmp(term, "vt", 2) == 0 || is_set(variables->no_color) ||
        !is_utf8(variables))
        return ES_DEPTH_ASCII;
    if (colours &&
        (strcmp(colours, "truecolor") == 0 || strcmp(colours, "24bit") == 0))
        return ES_DEPTH_TRUE;
    return ES_DEPTH_256;
}

void es_terminal_detect(es_terminal *out)
{
    const es_terminal_variables variables = {
        .term = getenv("TERM"),
        .colorterm = getenv("COLORTERM"),
        .no_color = getenv("NO_COLOR"),
        .lc_all = getenv("LC_ALL"),
        .lc_ctype = getenv("LC_CTYPE"),
        .lang = getenv("LANG"),
    };
    struct winsize size;
    bool known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *out = (es_terminal){.depth = es_terminal_depth(&variables),
                         .width = known && size.ws_col ? size.ws_col : 80,
                         .height = known && size.ws_row ? size.ws_row : 24};
}

bool es_terminal_has_cursor(void)
{
    const char *term = getenv("TERM");
    return is_set(term) && strcmp(term, "dumb") != 0;
}

/* --- live view ------------------------------------------------------------*/

/* Mode of standard input before the live view; valid if has_keys is true. */
static struct termios before;
static bool has_keys;
static volatile sig_atomic_t taken, changed;

/* All functions between this comment and es_tty_take may run in signal
 * handlers. */

static void send_text(const char *text)
{
    ssize_t n = write(STDOUT_FILENO, text, strlen(text));
    (void)n; /* a signal handler cannot report a failure */
}

static void enter_screen(void)
{
    struct termios raw = before;
    raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
    raw.c_iflag &= ~(tcflag_t)IXON; /* disable flow control, because Ctrl-S
                                       would block the final output */
    raw.c_cc[VMIN] = 1;
    raw.c_cc[VTIME] = 0;
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    send_text("\033[?1049h\033[?25l\033[0m\033[2J");
    changed = 1;
}

static void leave_screen(void)
{
    send_text("\033[0m\033[?25h\033[?1049l");
    if (has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
}

static void die_of_signal(int number)
{
    if (taken)
        leave_screen();
    taken = 0;
    /* The handler was reset (SA_RESETHAND), so the signal ends the process
     * after this function returns. */
    raise(number);
}

static void stop_process(int number)
{
    int error = errno;
    struct sigaction ours, standard = {.sa_handler = SIG_DFL};
    sigset_t this;
    leave_screen();
    sigaction(number, &standard, &ours);
    sigemptyset(&this);
    sigaddset(&this, number);
    raise(number);
    /* the signal now stops the process */
    sigprocmask(SIG_UNBLOCK, &this, NULL);
    sigaction(number, &ours, NULL);
    errno = error;
}

static void go_on(int number)
{
    int error = errno;
    (void)number;
    if (taken)
        enter_screen();
    errno = error;
}

static void note_change(int number)
{
    (void)number;
    changed = 1;
}

static struct {
    int number;
    void (*handler)(int);
    int flags;
    struct sigaction old;
} caught[] = {
    {.number = SIGHUP, .handler = die_of_signal, .flags = (int)SA_RESETHAND},
    {.number = SIGINT, .handler = die_of_signal, .flags = (int)SA_RESETHAND},
    {.number = SIGQUIT, .handler = die_of_signal, .flags = (int)SA_RESETHAND},
    {.number = SIGTERM, .handler = die_of_signal, .flags = (int)SA_RESETHAND},
    {.number = SIGTSTP, .handler = stop_process, .flags = SA_RESTART},
    {.number = SIGCONT, .handler = go_on, .flags = SA_RESTART},
    {.number = SIGWINCH, .handler = note_change, .flags = SA_RESTART},
};
enum { N_CAUGHT = sizeof caught / sizeof *caught };

void es_tty_take(void)
{
    has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &before) == 0;
    for (int i = 0; i < N_CAUGHT; i++) {
        struct sigaction action = {.sa_handler = caught[i].handler,
                                   .sa_flags = caught[i].flags};
        sigfillset(&action.sa_mask);
        sigaction(caught[i].number, NULL, &caught[i].old);
        /* Signals that were already ignored, for example by nohup, stay
         * ignored. */
        if (caught[i].old.sa_handler != SIG_IGN)
            sigaction(caught[i].number, &action, NULL);
    }
    taken = 1;
    enter_screen();
}

void es_tty_give_back(void)
{
    if (!taken)
        return;
    leave_screen();
    taken = 0;
    for (int i = 0; i < N_CAUGHT; i++)
        sigaction(caught[i].number, &caught[i].old, NULL);
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
