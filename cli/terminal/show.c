/* --tui: draws the runs once, or leaves them to the live view. */
#include "cli/terminal/show.h"

#include "cli/output/print.h"
#include "cli/runs/damage.h"
#include "cli/terminal/live.h"

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

/* --- drawing once ---------------------------------------------------------*/

static void report_failure(es_show_result *result)
{
    es_print_note("%s", es_message());
    result->n_failed++;
}

/* All runs of a file; those that fail are reported and left out. */
static es_status add_file(es_watch_list *to, es_show_result *result,
                          const char *path, const es_summary_options *options)
{
    es_reader *reader = NULL;
    es_status status = es_reader_open(&reader, path);
    size_t n = status == ES_OK ? es_reader_n_runs(reader) : 0;
    if (status == ES_OK && n == 0)
        status = es_fail(ES_ENOTFOUND, "%s: has no run", path);
    if (status < 0)
        report_failure(result);
    for (size_t run = 0; run < n; run++) {
        if ((status = es_watch_list_add(to, path, run)) < 0)
            break;
        if (es_watched_read(&to->list[to->n - 1], reader, options) < 0) {
            report_failure(result);
            es_watched_forget(&to->list[--to->n]);
        }
    }
    es_damage_close(reader);
    return status == ES_ENOMEM ? status : ES_OK;
}

static es_status show_once(es_show_result *out, const es_show_options *options)
{
    es_watch_list runs = {0};
    es_status status = ES_OK;
    for (size_t i = 0; i < options->n_inputs; i++)
        if ((status = add_file(&runs, out, options->inputs[i],
                               &options->summary)) < 0)
            goto done;
    es_watched_set_max(runs.list, runs.n);
    es_watch_list_judge(out, &runs);
    status = es_watch_list_print(&runs, options->colormap);
done:
    es_watch_list_free(&runs);
    return status;
}

es_status es_show(es_show_result *out, const es_show_options *options)
{
    *out = (es_show_result){0};
    es_status status = es_show_check(options->follow);
    if (status < 0)
        return status;
    return options->follow ? es_show_live(out, options)
                           : show_once(out, options);
}
