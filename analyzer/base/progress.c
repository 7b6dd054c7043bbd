/* Draws a progress line on a terminal, at most ten times a second, and erases
 * it at the end. */
#include "analyzer/base/progress.h"

#include "analyzer/base/kernel.h"
#include "analyzer/base/text.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

enum { REFRESH = 100, LINE = 512 }; /* milliseconds, bytes */

bool es_progress_suits(FILE *out)
{
    const char *term = getenv("TERM");
    return isatty(fileno(out)) && term && *term && strcmp(term, "dumb") != 0;
}

void es_progress_begin(es_progress *progress, FILE *out, const char *name,
                       const char *unit, uint64_t total)
{
    *progress = (es_progress){.out = out && es_progress_suits(out) ? out : NULL,
                              .name = name,
                              .unit = unit,
                              .total = total,
                              .started = es_now_ms(),
                              .shown = -1};
}

bool es_progress_is_due(const es_progress *progress)
{
    return progress->out &&
           (progress->shown < 0 || es_now_ms() - progress->shown >= REFRESH);
}

/* Returns the number of usable columns. The last column stays free, because
   some terminals begin a new line when it is filled. */
static int columns(FILE *out)
{
    struct winsize size;
    return ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col
               ? size.ws_col - 1
               : 79;
}

/* Returns the number of bytes of `text` that fit in `width` columns, counting
   one column per character. */
static int bytes_within(const char *text, int width)
{
    int n = 0, used = 0;
    while (text[n] && (used < width || ((unsigned char)text[n] & 0xc0) == 0x80))
        used += ((unsigned char)text[n++] & 0xc0) != 0x80;
    return n;
}

void es_progress_draw(es_progress *progress, const char *line)
{
    if (!progress->out)
        return;
    fprintf(progress->out, "\r%.*s\033[K",
            bytes_within(line, columns(progress->out)), line);
    fflush(progress->out);
    progress->shown = es_now_ms();
    progress->is_drawn = true;
}

void es_progress_wipe(es_progress *progress)
{
    if (!progress->is_drawn)
        return;
    fputs("\r\033[K", progress->out);
    fflush(progress->out);
    progress->is_drawn = false;
}

void es_progress_end(es_progress *progress)
{
    es_progress_wipe(progress);
    progress->out = NULL;
}

void es_progress_show(es_progress *progress, uint64_t done)
{
    char line[LINE];
    if (!es_progress_is_due(progress))
        return;
    double seconds = 1e-3 * (double)(es_now_ms() - progress->started);
    es_progress_draw(progress, es_progress_print(line, sizeof line, progress,
                                                 done, seconds));
}

char *es_progress_print(char *out, size_t size, const es_progress *progress,
                        uint64_t done, double seconds)
{
    const bool bytes = strcmp(progress->unit, ES_PROGRESS_BYTES) == 0;
    const double scale = bytes ? 1e-6 : 1;
    const double all = (double)progress->total, rate = (double)done / seconds;
    char number[ES_FLOAT_TEXT_MAX], left[ES_DURATION_MAX];
    es_text text = es_text_begin(out, size);
    es_text_append(&text, "%s: %.*f", progress->name, bytes ? 1 : 0,
                   scale * (double)done);
    if (progress->total)
        es_text_append(&text, " of %.*f", bytes ? 1 : 0, scale * all);
    es_text_append(&text, " %s", progress->unit);
    if (!done || !(seconds > 0))
        return out;
    es_text_append(&text, ", %s %s/s", es_number_print(number, scale * rate, 3),
                   progress->unit);
    if (progress->total >= done)
        es_text_append(&text, ", %s left",
                       es_duration_print(left, (all - (double)done) / rate));
    return out;
}

char *es_duration_print(char out[ES_DURATION_MAX], double seconds)
{
    if (!(seconds >= 0 && seconds < 1e9))
        return memcpy(out, "-", 2);
    const long s = lround(seconds), m = s / 60, h = m / 60;
    if (s < 60)
        snprintf(out, ES_DURATION_MAX, "%lds", s);
    else if (m < 60)
        snprintf(out, ES_DURATION_MAX, "%ldm%02lds", m, s % 60);
    else if (h < 24)
        snprintf(out, ES_DURATION_MAX, "%ldh%02ldm", h, m % 60);
    else
        snprintf(out, ES_DURATION_MAX, "%ldd%02ldh", h / 24, h % 24);
    return out;
}
