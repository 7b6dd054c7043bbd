/* Implements `--textfile`: writes gauges of alerts, files and deliveries in
 * OpenMetrics text format. The file is replaced as a whole, so that a collector
 * never reads an incomplete file. */
#include "cli/alerts/watch/watcher.h"

#include "cli/output/output.h"
#include "cli/output/print.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

static void print_head(FILE *out, const char *name, const char *unit,
                       const char *help)
{
    fprintf(out, "# TYPE entropy_scan_%s gauge\n", name);
    if (unit)
        fprintf(out, "# UNIT entropy_scan_%s %s\n", name, unit);
    fprintf(out, "# HELP entropy_scan_%s %s\n", name, help);
}

/* Prints one gauge. The run file's path is a label, which is escaped to one
 * line of valid UTF-8. */
static void print_alerts(FILE *out, const es_watch_file *file, const char *kind,
                         es_severity severity, uint32_t n)
{
    char path[4 * PATH_MAX];
    if (!n)
        return;
    es_text_escape(path, sizeof path, file->path, ES_ESCAPE_TERMINAL);
    fputs("entropy_scan_alerts{file=\"", out);
    for (const char *c = path; *c; c++) {
        if (*c == '"' || *c == '\\')
            fputc('\\', out);
        fputc(*c, out);
    }
    fprintf(out, "\",kind=\"%s\",severity=\"%s\"} %u\n", kind,
            es_severity_name(severity), n);
}

static void print_all(FILE *out, const es_watch_files *files,
                      const es_ledger_counts *counts)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    print_head(out, "alerts", NULL, "Alerts of the runs in a file.");
    for (size_t k = 0; k < files->n_files; k++) {
        const es_watch_file *file = &files->files[k];
        for (int kind = 0; kind < ES_N_FLAG_KINDS; kind++)
            for (int i = 0; i <= ES_SEVERITY_CRITICAL; i++)
                print_alerts(out, file, es_flag_name((es_flag_kind)kind),
                             (es_severity)i, file->counts[kind][i]);
        for (size_t i = 0; file->of_rules && i < files->rules->n; i++)
            print_alerts(out, file, files->rules->rules[i].name,
                         files->rules->rules[i].severity, file->of_rules[i]);
    }
    print_head(out, "files", NULL, "Run files, readable and unreadable.");
    fprintf(out,
            "entropy_scan_files{state=\"read\"} %zu\n"
            "entropy_scan_files{state=\"unreadable\"} %zu\n",
            files->n_read, files->n_failed);
    print_head(out, "deliveries", NULL, "Deliveries of alerts by their state.");
    fprintf(out,
            "entropy_scan_deliveries{state=\"delivered\"} %lld\n"
            "entropy_scan_deliveries{state=\"owed\"} %lld\n"
            "entropy_scan_deliveries{state=\"failed\"} %lld\n",
            (long long)counts->delivered, (long long)counts->owed,
            (long long)counts->failed);
    print_head(out, "last_look_seconds", "seconds",
               "When the files were last checked.");
    fprintf(out, "entropy_scan_last_look_seconds %lld.%03ld\n# EOF\n",
            (long long)now.tv_sec, now.tv_nsec / 1000000);
}

es_status es_metrics_write(const char *path, const es_watch_files *files,
                           const es_ledger_counts *counts)
{
    FILE *stream;
    es_output *output = NULL;
    struct stat about;
    /* Opening a FIFO without a reader would block, and no alert would be
     * delivered. */
    if (stat(path, &about) == 0 && !S_ISREG(about.st_mode))
        return es_fail(ES_EIO,
                       "%s: not a regular file, which metrics need; remove it",
                       path);
    es_status status = es_output_open(&output, &stream, path);
    if (status != ES_OK)
        return status;
    print_all(stream, files, counts);
    return es_output_close(output);
}
