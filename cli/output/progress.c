/* Implements the progress line. A process has at most one progress line. */
#include "cli/output/progress.h"

#include "analyzer/base/kernel.h"
#include "analyzer/base/text.h"

#include <string.h>

static es_progress line;
static char name[256];
static uint64_t n_done;

void es_progress_line_begin(bool quiet, const char *verb, const char *object,
                            const char *unit, uint64_t total)
{
    char text[40] = ""; /* truncated to leave screen columns for the counts */
    const char *slash = object ? strrchr(object, '/') : NULL;
    es_progress_line_end();
    n_done = 0;
    if (object)
        es_text_escape(text, sizeof text, slash ? slash + 1 : object,
                       ES_ESCAPE_TERMINAL);
    snprintf(name, sizeof name, "%s%s%s", verb, object ? " " : "", text);
    es_progress_begin(&line, quiet ? NULL : stderr, name, unit, total);
}

void es_progress_line_set(uint64_t done)
{
    if (done < n_done)
        line.started = es_now_ms();
    n_done = done;
    es_progress_show(&line, done);
}

void es_progress_line_add(uint64_t more)
{
    es_progress_line_set(n_done + more);
}

void es_progress_line_wipe(void)
{
    es_progress_wipe(&line);
}

void es_progress_line_end(void)
{
    es_progress_end(&line);
}
