/* Reads the progress of a run of a sweep: its stage (from the run file and
 * NAME.end), its last sample, and its flags. */
#include "cli/sweep/view.h"

#include "analyzer/base/value.h"
#include "cli/output/print.h"
#include "cli/runs/damage.h"
#include "cli/runs/summary.h"
#include "cli/sweep/folder.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

const char *es_sweep_stage_name(es_sweep_stage stage)
{
    static const char *const names[] = {[ES_SWEEP_WAITING] = "waiting",
                                        [ES_SWEEP_QUEUED] = "queued",
                                        [ES_SWEEP_INTERRUPTED] = "interrupted",
                                        [ES_SWEEP_BROKEN] = "broken",
                                        [ES_SWEEP_RUNNING] = "running",
                                        [ES_SWEEP_FINISHED] = "finished",
                                        [ES_SWEEP_FAILED] = "failed",
                                        [ES_SWEEP_STOPPED] = "stopped"};
    return names[stage];
}

bool es_sweep_is_done(es_sweep_stage stage)
{
    return stage >= ES_SWEEP_FINISHED;
}

/* Sets *found to true if the run has an event of the given kind at step `from`
 * or later. */
static es_status find_event(bool *found, es_reader *reader, const char *kind,
                            int64_t from)
{
    const es_event *events = NULL;
    size_t n = 0;
    es_status status = es_reader_events(reader, 0, &events, &n);
    *found = false;
    for (size_t i = 0; status == ES_OK && i < n; i++)
        *found = *found ||
                 (strcmp(events[i].kind, kind) == 0 && events[i].step >= from);
    return status;
}

/* Determines the stage of a run. A run has to be resumed if its training
 * process was killed or ended by a signal, unless a stop had been requested
 * before or the run has been continued since. */
static es_status find_stage(es_sweep_stage *out, es_reader *reader,
                            const es_run_info *info)
{
    bool is_so = true;
    es_status status = ES_OK;
    switch (info->status) {
    case ES_RUN_FINISHED:
        *out = ES_SWEEP_FINISHED;
        break;
    case ES_RUN_FAILED:
        *out = ES_SWEEP_FAILED;
        status = find_event(&is_so, reader, "trainer_died", info->last_step);
        if (!is_so || status < 0)
            break;
        status = find_event(&is_so, reader, "stop", INT64_MIN);
        *out = is_so ? ES_SWEEP_STOPPED : ES_SWEEP_INTERRUPTED;
        break;
    case ES_RUN_STOPPED:
        status = find_event(&is_so, reader, "stop", INT64_MIN);
        *out = is_so ? ES_SWEEP_STOPPED : ES_SWEEP_INTERRUPTED;
        break;
    default:
        status = es_reader_is_written(reader, &is_so);
        *out = is_so ? ES_SWEEP_RUNNING : ES_SWEEP_INTERRUPTED;
    }
    return status;
}

/* Sets the bands, loss and flags in *out. They stay empty for a run without
 * samples. */
static es_status judge_run(es_sweep_view *out, es_reader *reader,
                           const es_rules_file *rules)
{
    es_run_summary *summary = NULL;
    es_summary_options options;
    es_summary_options_default(&options);
    options.max.policy = ES_MAX_CEILING;
    options.rules = rules;
    es_status status = es_summary_load(&summary, reader, 0, &options);
    if (status != ES_OK)
        return status == ES_ENOTFOUND ? ES_OK : status;
    const es_bands *bands = &summary->bands;
    es_text text = es_text_begin(out->bands, sizeof out->bands);
    es_text_append(&text, "%zu/%zu/%zu/%zu", (size_t)bands->counts[0],
                   (size_t)bands->counts[1], (size_t)bands->counts[2],
                   (size_t)bands->counts[3]);
    if (bands->nonfinite)
        es_text_append(&text, " NaN %zu", (size_t)bands->nonfinite);
    out->loss = summary->loss;
    es_summary_print_flags(out->flags, sizeof out->flags, summary);
    for (size_t i = 0; i < summary->n_flags; i++) {
        const es_flag *flag = &summary->flags[i];
        if (flag->stands &&
            (flag->severity >= ES_SEVERITY_CRITICAL ||
             (flag->rule && flag->rule->action == ES_RULE_STOP)))
            out->doomed = true;
    }
    es_summary_free(summary);
    return ES_OK;
}

static es_status read_file(es_sweep_view *out, const char *path,
                           const es_rules_file *rules)
{
    es_reader *reader = NULL;
    es_run_info info;
    es_status status;
    if (access(path, F_OK) != 0 && errno == ENOENT)
        return ES_OK; /* not started */
    if ((status = es_reader_open(&reader, path)) < 0 ||
        es_reader_n_runs(reader) == 0 ||
        (status = es_reader_run(reader, 0, &info)) < 0 ||
        (status = find_stage(&out->stage, reader, &info)) < 0 ||
        (status = es_reader_planned_steps(reader, 0, &out->planned)) < 0)
        goto done;
    out->step = info.last_step;
    status = judge_run(out, reader, rules);
done:
    es_damage_close(reader);
    return status;
}

/* Returns true if the file NAME.end, which describes a failure of the training
 * process, makes a run count as broken. This is the case for a run that is not
 * done; for a finished run, which may lack samples that the recorder could not
 * write; and for a failed run of a `command`, unless its flags explain the
 * failure. It is not the case for a run of entropy-train whose loss is not
 * finite, because training it again would give the same result. */
static bool may_have_broken(const es_sweep_view *view, const char *folder)
{
    bool undone = !es_sweep_is_done(view->stage);
    bool failed = view->stage == ES_SWEEP_FAILED && !view->doomed;
    return undone || view->stage == ES_SWEEP_FINISHED ||
           (failed && es_sweep_folder_is_command(folder, view->name));
}

es_status es_sweep_view_read(es_sweep_view *out, const char *folder,
                             const char *name, const es_rules_file *rules)
{
    const es_sweep_view empty = {.name = name,
                                 .step = ES_UNKNOWN,
                                 .planned = ES_UNKNOWN,
                                 .loss = es_missing()};
    const es_sweep_file file = es_sweep_run_file(folder, name);
    char why[128];
    es_status status;
    /* A run that ends while it is being read looks interrupted, because the
     * status that was read is "running" but no process writes the file any
     * more. The run is therefore read a second time. */
    for (int i = 0; i == 0 || (i == 1 && status == ES_OK &&
                               out->stage == ES_SWEEP_INTERRUPTED);
         i++) {
        *out = empty;
        status = read_file(out, file.path, rules);
    }
    if (may_have_broken(out, folder) &&
        es_sweep_read(why, sizeof why, folder, name, ".end")) {
        out->stage = ES_SWEEP_BROKEN;
        es_text_escape(out->flags, sizeof out->flags, why, ES_ESCAPE_TERMINAL);
    }
    return status;
}

es_status es_sweep_view_read_any(es_sweep_view *out, const char *folder,
                                 const char *name, const es_rules_file *rules)
{
    es_status status = es_sweep_view_read(out, folder, name, rules);
    return status == ES_EFORMAT ? ES_OK : status;
}

double es_sweep_view_share(const es_sweep_view *view)
{
    if (view->step < 0 || view->planned <= 0)
        return 0;
    const double share = (double)view->step / (double)view->planned;
    return share < 1 ? share : 1;
}

void es_sweep_view_bar(char *out, size_t size, const es_sweep_view *view)
{
    enum { WIDTH = 16 };
    char bar[WIDTH + 1];
    bool known = view->step >= 0 && view->planned > 0;
    const double share = es_sweep_view_share(view);
    for (int i = 0; i < WIDTH; i++)
        bar[i] = i < (int)(share * WIDTH + 0.5) ? '#' : '-';
    bar[WIDTH] = '\0';
    if (known)
        snprintf(out, size, "[%s] %3d%%", bar, (int)(share * 100));
    else
        snprintf(out, size, "[%s]", bar);
}
