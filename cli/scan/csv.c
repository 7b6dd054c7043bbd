/* `--csv`: the fields of cli/runs/fields.c that are shown in CSV, in their
   order. */
#include "cli/scan/csv.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/output/display.h"
#include "cli/runs/fields.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

void es_csv_header(FILE *stream)
{
    const char *before = "";
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_CSV)); before = ",")
        fprintf(stream, "%s%s", before, field->name);
    fputc('\n', stream);
}

static es_status put_text(FILE *stream, const char *text)
{
    char *escaped = es_display_escape(text, ES_ESCAPE_CSV);
    if (!escaped)
        return ES_ENOMEM;
    fputs(escaped, stream);
    free(escaped);
    return ES_OK;
}

static es_status put_flags(FILE *stream, const es_run_summary *summary)
{
    char *flags = NULL;
    es_status status = es_summary_copy_flags(&flags, summary);
    if (status == ES_OK)
        status = put_text(stream, flags);
    free(flags);
    return status;
}

static void put_measured(FILE *stream, float value)
{
    char text[ES_FLOAT_TEXT_MAX];
    if (isnan(value) && !es_is_missing(value))
        value = NAN; /* its payload is for export, not for a summary */
    fputs(es_float_print(text, value), stream);
}

static es_status put_field(FILE *stream, const es_field *field,
                           const es_run_summary *summary)
{
    char text[ES_FLOAT_TEXT_MAX];
    if (field->kind == ES_FIELD_FLAGS)
        return put_flags(stream, summary);
    if (field->type == ES_FIELD_TEXT)
        return put_text(stream, es_field_text(field, summary));
    if (field->type == ES_FIELD_MEASURED) {
        put_measured(stream, es_field_measured(field, summary));
    } else if (field->type == ES_FIELD_INTEGER) {
        const int64_t value = es_field_integer(field, summary);
        if (value != ES_UNKNOWN)
            fprintf(stream, "%" PRId64, value);
    } else {
        const double value = es_field_number(field, summary);
        if (!isnan(value))
            fputs(es_display_number(text, value), stream);
    }
    return ES_OK;
}

es_status es_csv_run(FILE *stream, const es_run_summary *summary)
{
    const char *before = "";
    for (const es_field *field = NULL;
         (field = es_field_next(field, ES_FIELD_IN_CSV)); before = ",") {
        fputs(before, stream);
        es_status status = put_field(stream, field, summary);
        if (status < 0)
            return status;
    }
    fputc('\n', stream);
    return ES_OK;
}
