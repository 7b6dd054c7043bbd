/* The runs that the terminal shows, drawn once or in the live view. */
#include "cli/terminal/watch_list.h"

#include "analyzer/base/checked.h"
#include <errno.h>
#include <stdlib.h>
#include <string.h>

es_status es_watch_list_add(es_watch_list *to, const char *path, size_t index)
{
    es_status status = es_grow(&to->list, to->n + 1, sizeof *to->list, "runs");
    if (status == ES_OK)
        to->list[to->n++] = (es_watched){.path = path, .index = index};
    return status;
}

void es_watch_list_free(es_watch_list *runs)
{
    for (size_t i = 0; i < runs->n; i++)
        es_watched_forget(&runs->list[i]);
    free(runs->list);
}

es_status es_watch_list_draw(es_screen **out, size_t *n_shown,
                             const es_watch_list *runs, const es_tui *like)
{
    es_tui tui = *like;
    es_tui_run *views;
    es_status status = es_alloc(&views, runs->n, sizeof *views, "runs");
    if (status < 0)
        return status;
    for (size_t i = 0; i < runs->n; i++)
        views[i] = es_watched_view(&runs->list[i]);
    tui.runs = views;
    tui.n_runs = runs->n;
    status = es_tui_draw(out, n_shown, &tui);
    free(views);
    return status;
}

es_status es_watch_list_print(const es_watch_list *runs, es_colormap colormap)
{
    es_tui tui = {.colormap = colormap};
    es_screen *screen = NULL;
    if (runs->n == 0)
        return ES_OK;
    es_terminal_detect(&tui.terminal);
    es_status status = es_watch_list_draw(&screen, NULL, runs, &tui);
    if (status == ES_OK) {
        es_screen_print(screen, stdout);
        if (fflush(stdout) != 0)
            status = es_fail(ES_EIO, "standard output: cannot write: %s",
                             strerror(errno));
    }
    es_screen_free(screen);
    return status;
}

void es_watch_list_judge(es_show_result *out, const es_watch_list *runs)
{
    out->n_shown = 0;
    for (size_t i = 0; i < runs->n; i++) {
        const es_run_summary *judged = runs->list[i].judged;
        out->n_shown += judged != NULL;
        out->alarms = out->alarms || (judged && es_summary_alarms(judged));
    }
}
