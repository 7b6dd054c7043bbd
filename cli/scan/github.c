/* Prints annotations for GitHub Actions. An annotation is a line in the log of
   a workflow. Terminals also display such logs, so control bytes are escaped as
   for a terminal. In addition, "%" is escaped in the message, and "%", ":" and
   "," in the properties. */
#include "cli/scan/github.h"

#include "cli/output/print.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

static es_status print_escaped(FILE *out, const char *text, const char *special)
{
    char *escaped = es_display_escape(text, ES_ESCAPE_TERMINAL);
    for (const char *c = escaped; c && *c; c++) {
        if (strchr(special, *c))
            fprintf(out, "%%%02X", (unsigned)*c);
        else
            fputc(*c, out);
    }
    free(escaped);
    return escaped ? ES_OK : ES_ENOMEM;
}

static const char *command_of(es_severity severity)
{
    return severity >= ES_SEVERITY_ERROR     ? "error"
           : severity == ES_SEVERITY_WARNING ? "warning"
                                             : "notice";
}

es_status es_github_run(FILE *out, const es_run_summary *run, es_severity least)
{
    const es_severity severity = es_summary_severity(run);
    char *flags;
    if (severity == ES_SEVERITY_NONE || severity < least)
        return ES_OK;
    es_status status = es_summary_copy_flags(&flags, run);
    if (status < 0)
        return status;
    fprintf(out, "::%s file=", command_of(severity));
    status = print_escaped(out, run->path, "%:,");
    fputs(",title=", out);
    if (status == ES_OK)
        status = print_escaped(out, run->name ? run->name : "run", "%:,");
    fputs("::", out);
    if (status == ES_OK)
        status = print_escaped(out, flags, "%");
    fprintf(out, ", at step %" PRId64 "\n", run->step);
    free(flags);
    return status;
}
