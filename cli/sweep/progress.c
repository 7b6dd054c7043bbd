/* Prints the output of a running sweep on standard error: a line for each run
 * that starts or ends and, on a terminal, a table of the current runs that is
 * updated in place. */
#include "cli/sweep/progress.h"

#include "analyzer/base/display.h"
#include "analyzer/base/progress.h"
#include "analyzer/base/value.h"
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

static void measure_terminal(es_sweep_progress *progress)
{
    struct winsize size = {.ws_col = 0};
    bool known = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0;
    progress->width = known && size.ws_col > 1 ? size.ws_col : 80;
    progress->height = known && size.ws_row ? size.ws_row : 24;
}

void es_sweep_progress_begin(es_sweep_progress *progress)
{
    *progress = (es_sweep_progress){.live = es_progress_suits(stderr)};
    measure_terminal(progress);
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

/* Formats the loss. `out` has ES_FLOAT_TEXT_MAX bytes. */
static const char *loss_text(char *out, const es_sweep_view *view)
{
    return es_is_missing(view->loss)
               ? "-"
               : es_number_print(out, (double)view->loss, 4);
}

/* --- ends of runs --------------------------------------------------------- */

bool es_sweep_print_log(FILE *stream, const char *folder, const char *name,
                        const char *ending)
{
    enum { LINES = 3 };
    char text[2048];
    int fd = open(es_sweep_path(folder, name, ending).path,
                  O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (fd < 0)
        return false;
    off_t end = lseek(fd, 0, SEEK_END), most = sizeof text - 1;
    ssize_t n = pread(fd, text, sizeof text - 1, end > most ? end - most : 0);
    close(fd);
    while (n > 0 && text[n - 1] == '\n')
        n--;
    if (n <= 0 || !*text)
        return false;
    text[n] = '\0';
    char *rest = text + strlen(text);
    for (int i = 0; rest > text && (rest[-1] != '\n' || ++i < LINES);)
        rest--;
    for (char *line; (line = strsep(&rest, "\n"));) {
        fputs("    ", stream);
        es_print_escaped(stream, line, ES_ESCAPE_TERMINAL);
        putc('\n', stream);
    }
    return true;
}

void es_sweep_progress_end(es_sweep_progress *progress, const char *folder,
                           const es_sweep_view *view)
{
    char step[64] = "", of[32] = "", loss[64] = "", number[32];
    if (view->planned >= 0)
        snprintf(of, sizeof of, " of %lld", (long long)view->planned);
    if (view->step >= 0)
        snprintf(step, sizeof step, " at step %lld%s", (long long)view->step,
                 of);
    if (!es_is_missing(view->loss))
        snprintf(loss, sizeof loss, ", loss %s", loss_text(number, view));
    es_sweep_progress_line(progress, "%s: %s%s%s%s%s", view->name,
                           es_sweep_stage_name(view->stage), step, loss,
                           view->flags[0] ? ", " : "", view->flags);
    if (view->stage == ES_SWEEP_BROKEN)
        es_sweep_print_log(stderr, folder, view->name, ".log");
}

/* --- table in place ------------------------------------------------------- */

/* Draws one line of the table of current runs, which has the columns of
 * --status. If the line is too wide, the run's name is shortened first, then
 * the list of flags. The last screen column stays empty, because some terminals
 * would otherwise start a new line. */
static void draw_line(const es_sweep_progress *progress, size_t name_width,
                      const char *const cells[5])
{
    char line[1024], shown[256];
    snprintf(shown, sizeof shown, "%s", cells[0]);
    es_display_shorten(shown, name_width);
    snprintf(line, sizeof line, "%-*s  %-23s  %9s  %-11s  %s", (int)name_width,
             shown, cells[1], cells[2], cells[3], cells[4]);
    fprintf(stderr, "%.*s\n", progress->width - 1, line);
}

void es_sweep_progress_draw(es_sweep_progress *progress,
                            const es_sweep_view *views, size_t n,
                            const char *headline)
{
    static const char *const titles[] = {"run", "progress", "loss", "bands",
                                         "flags"};
    if (!progress->live)
        return;
    es_sweep_progress_wipe(progress);
    measure_terminal(progress);
    size_t height = progress->height > 5 ? (size_t)progress->height - 4 : 1;
    size_t name_width = 5, most = (size_t)progress->width / 3;
    for (size_t i = 0; i < n; i++)
        if (views[i].name && strlen(views[i].name) > name_width)
            name_width = strlen(views[i].name);
    if (name_width > most && most >= 5)
        name_width = most;
    draw_line(progress, name_width, titles);
    for (size_t i = 0; i < n && progress->n_drawn < height; i++) {
        const es_sweep_view *view = &views[i];
        char bar[64], loss[32];
        if (!view->name)
            continue;
        es_sweep_view_bar(bar, sizeof bar, view);
        draw_line(progress, name_width,
                  (const char *const[]){view->name, bar, loss_text(loss, view),
                                        view->bands, view->flags});
        progress->n_drawn++;
    }
    fprintf(stderr, "%s\n", headline);
    progress->n_drawn += 2;
    fflush(stderr);
}
