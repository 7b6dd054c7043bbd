/* What a running sweep writes on standard error: a line for each run that
 * begins or ends and, on a terminal, a table of what runs now, in place. */
#include "cli/sweep/progress.h"

#include "analyzer/base/value.h"
#include "cli/output/display.h"
#include "cli/output/print.h"
#include "cli/sweep/folder.h"
#include "cli/terminal/terminal.h"

#include <fcntl.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

static void measure(es_sweep_progress *progress)
{
    struct winsize size = {.ws_col = 0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0;
    progress->width = known && size.ws_col > 1 ? size.ws_col : 80;
    progress->height = known && size.ws_row ? size.ws_row : 24;
}

void es_sweep_progress_begin(es_sweep_progress *progress)
{
    *progress = (es_sweep_progress){.live = isatty(STDERR_FILENO) &&
                                            es_terminal_has_cursor()};
    measure(progress);
}

void es_sweep_progress_wipe(es_sweep_progress *progress)
{
    if (progress->n_drawn)
        fprintf(stderr, "\033[%zuA\033[J", progress->n_drawn);
    progress->n_drawn = 0;
}

void es_sweep_progress_line(es_sweep_progress *progress, const char *fmt, ...)
{
    va_list list;
    es_sweep_progress_wipe(progress);
    va_start(list, fmt);
    vfprintf(stderr, fmt, list);
    va_end(list);
    putc('\n', stderr);
}

/* The sign of a NaN means nothing. `out` has 32 bytes. */
static const char *loss_text(char *out, const es_sweep_view *view)
{
    if (es_is_missing(view->loss))
        return "-";
    if (isnan(view->loss))
        return "NaN";
    snprintf(out, 32, "%.4g", (double)view->loss);
    return out;
}

/* --- ends -----------------------------------------------------------------*/

/* Where the last lines of a text begin. */
static char *last_lines(char *text, int most)
{
    char *start = text + strlen(text);
    for (int i = 0; start > text && (start[-1] != '\n' || ++i < most);)
        start--;
    return start;
}

static bool print_last_lines(FILE *stream, int fd)
{
    enum { LINES = 3 };
    char text[2048], *rest = text;
    off_t end = lseek(fd, 0, SEEK_END);
    off_t from =
        end > (off_t)sizeof text - 1 ? end - (off_t)sizeof text + 1 : 0;
    ssize_t n = pread(fd, text, sizeof text - 1, from);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    text[n > 0 ? n : 0] = '\0';
    if (!*text)
        return false;
    rest = last_lines(text, LINES);
    for (char *line; (line = strsep(&rest, "\n"));) {
        fputs("    ", stream);
        es_print_escaped(stream, line, ES_ESCAPE_TERMINAL);
        putc('\n', stream);
    }
    return true;
}

bool es_sweep_print_log(FILE *stream, const char *folder, const char *name,
                        const char *ending)
{
    char *path = es_sweep_path(folder, name, ending);
    int fd =
        path ? open(path, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC) : -1;
    bool printed = fd >= 0 && print_last_lines(stream, fd);
    if (fd >= 0)
        close(fd);
    free(path);
    return printed;
}

void es_sweep_progress_end(es_sweep_progress *progress, const char *folder,
                           const char *name, const es_sweep_view *view)
{
    char step[64] = "", loss[64] = "", number[32];
    if (view->step >= 0)
        snprintf(step, sizeof step, " at step %lld of %lld",
                 (long long)view->step, (long long)view->planned);
    if (!es_is_missing(view->loss))
        snprintf(loss, sizeof loss, ", loss %s", loss_text(number, view));
    es_sweep_progress_line(progress, "%s: %s%s%s%s%s", name,
                           es_sweep_stage_name(view->stage), step, loss,
                           view->flags[0] ? ", " : "", view->flags);
    if (view->stage == ES_SWEEP_BROKEN)
        es_sweep_print_log(stderr, folder, name, ".log");
}

/* --- in place -------------------------------------------------------------*/

#define LIVE_LINE "%-*s  %-23s  %9s  %-11s  %s" /* as of --status */

/* One column is left free: some terminals would begin a new line. */
static void put_line(const es_sweep_progress *progress, const char *line)
{
    fprintf(stderr, "%.*s\n", progress->width - 1, line);
}

/* What is too wide is cut: first the name, then the flags. */
static void draw_line(const es_sweep_progress *progress, size_t name_width,
                      const char *name, const es_sweep_view *view)
{
    char bar[64], loss[32], line[1024], shown[256];
    es_sweep_view_bar(bar, sizeof bar, view);
    snprintf(shown, sizeof shown, "%s", name);
    es_display_shorten(shown, name_width);
    snprintf(line, sizeof line, LIVE_LINE, (int)name_width, shown, bar,
             loss_text(loss, view), view->bands, view->flags);
    put_line(progress, line);
}

static void draw_titles(const es_sweep_progress *progress, size_t name_width)
{
    char line[512];
    snprintf(line, sizeof line, LIVE_LINE, (int)name_width, "run", "progress",
             "loss", "bands", "flags");
    put_line(progress, line);
}

static size_t width_of(const es_sweep_progress *progress,
                       const char *const *names, size_t n)
{
    size_t width = 5, most = (size_t)progress->width / 3;
    for (size_t i = 0; i < n; i++)
        if (strlen(names[i]) > width)
            width = strlen(names[i]);
    return width <= most || most < 5 ? width : most;
}

void es_sweep_progress_draw(es_sweep_progress *progress,
                            const char *const *names,
                            const es_sweep_view *const *views, size_t n,
                            const char *headline)
{
    if (!progress->live)
        return;
    es_sweep_progress_wipe(progress);
    measure(progress);
    size_t height = progress->height > 5 ? (size_t)progress->height - 4 : 1;
    size_t name_width = width_of(progress, names, n);
    draw_titles(progress, name_width);
    for (size_t i = 0; i < n && i < height; i++)
        draw_line(progress, name_width, names[i], views[i]);
    fprintf(stderr, "%s\n", headline);
    progress->n_drawn = (n < height ? n : height) + 2;
    fflush(stderr);
}
