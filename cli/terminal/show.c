#include "cli/terminal/show.h"

#include "cli/output/print.h"
#include "cli/runs/damage.h"
#include "cli/terminal/show_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

es_status es_show_check(bool follow)
{
    if (!isatty(STDOUT_FILENO))
        return es_fail(ES_EUSAGE, "--tui draws on a terminal, and standard "
                                  "output is none: try --heatmap=FILE");
    if (follow && !es_terminal_has_cursor())
        return es_fail(ES_EUSAGE, "--follow needs a terminal whose cursor it "
                                  "can move, and TERM is unset or dumb");
    return ES_OK;
}

es_status es_watch_list_add(es_watch_list *to, const char *path, size_t index)
{
    es_watched *list = es_resize(to->list, to->n + 1, sizeof *list);
    if (!list)
        return es_fail(ES_ENOMEM, "out of memory for %zu runs", to->n + 1);
    list[to->n++] = (es_watched){.path = path, .index = index};
    to->list = list;
    return ES_OK;
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
    es_tui_run *views = es_resize(NULL, runs->n, sizeof *views);
    if (!views)
        return es_fail(ES_ENOMEM, "out of memory for %zu runs", runs->n);
    for (size_t i = 0; i < runs->n; i++)
        views[i] = es_watched_view(&runs->list[i]);
    tui.runs = views;
    tui.n_runs = runs->n;
    es_status status = es_tui_draw(out, n_shown, &tui);
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

/* --- drawing once ---------------------------------------------------------*/

static void tell(es_show_result *result)
{
    es_print_note("%s", es_message());
    result->n_failed++;
}

/* All runs of a file; those that fail are told of and left out. */
static es_status add_file(es_watch_list *to, es_show_result *result,
                          const char *path, const es_summary_options *options)
{
    es_reader *reader = NULL;
    es_status status = es_reader_open(&reader, path);
    size_t n = status == ES_OK ? es_reader_n_runs(reader) : 0;
    if (status == ES_OK && n == 0)
        status = es_fail(ES_ENOTFOUND, "%s: has no run", path);
    if (status != ES_OK)
        tell(result);
    status = ES_OK;
    for (size_t run = 0; run < n && status == ES_OK; run++) {
        status = es_watch_list_add(to, path, run);
        if (status != ES_OK ||
            es_watched_read(&to->list[to->n - 1], reader, options) == ES_OK)
            continue;
        tell(result);
        es_watched_forget(&to->list[--to->n]);
    }
    es_damage_close(reader);
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

static es_status show_once(es_show_result *out, const es_show_options *options)
{
    es_watch_list runs = {0};
    es_status status = ES_OK;
    for (size_t i = 0; i < options->n_inputs && status == ES_OK; i++)
        status = add_file(&runs, out, options->inputs[i], &options->summary);
    if (status == ES_OK) {
        es_watched_set_max(runs.list, runs.n);
        es_watch_list_judge(out, &runs);
        status = es_watch_list_print(&runs, options->colormap);
    }
    es_watch_list_free(&runs);
    return status;
}

es_status es_show(es_show_result *out, const es_show_options *options)
{
    *out = (es_show_result){0};
    es_status status = es_show_check(options->follow);
    if (status != ES_OK)
        return status;
    return options->follow ? es_show_live(out, options)
                           : show_once(out, options);
}
