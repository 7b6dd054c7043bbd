#include "cli/scan/csv.h"

#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "cli/output/display.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

void es_csv_header(FILE *stream)
{
    fputs("path,run,name,arch,status,n_layer,n_head,ctx,series,phase,step,"
          "loss,ppl,eval_loss,eval_ppl,ceiling,max_policy,max,"
          "band_1,band_2,band_3,band_4,nonfinite,heads,balanced,flags\n",
          stream);
}

static es_status put_text(FILE *stream, const char *text)
{
    char *escaped = es_display_escape(text, ES_ESCAPE_CSV);
    if (!escaped)
        return ES_ENOMEM;
    fprintf(stream, "%s,", escaped);
    free(escaped);
    return ES_OK;
}

static void put_integer(FILE *stream, int64_t value)
{
    if (value != ES_UNKNOWN)
        fprintf(stream, "%" PRId64, value);
    fputc(',', stream);
}

static void put_float(FILE *stream, float value)
{
    char text[ES_FLOAT_TEXT_MAX];
    if (isnan(value) && !es_is_missing(value))
        value = NAN; /* its payload is for export, not for a summary */
    fprintf(stream, "%s,", es_float_print(text, value));
}

/* A computed number: NaN means that there was nothing to compute it from. */
static void put_computed(FILE *stream, double value)
{
    char text[ES_FLOAT_TEXT_MAX];
    if (!isnan(value))
        fputs(es_display_number(text, value), stream);
    fputc(',', stream);
}

static void put_bands(FILE *stream, const es_bands *bands)
{
    for (int band = 0; band < ES_N_BANDS; band++)
        fprintf(stream, "%zu,", bands->counts[band]);
    fprintf(stream, "%zu,%zu,", bands->nonfinite, bands->n_heads);
    put_computed(stream, es_bands_balanced(bands));
}

static es_status put_identity(FILE *stream, const es_run_summary *summary)
{
    es_status status = put_text(stream, summary->path);
    put_integer(stream, (int64_t)summary->number);
    if (!status)
        status = put_text(stream, summary->name);
    if (!status)
        status = put_text(stream, summary->arch);
    fprintf(stream, "%s,", summary->status);
    put_integer(stream, summary->n_layer);
    put_integer(stream, summary->n_head);
    put_integer(stream, summary->ctx);
    if (!status)
        status = put_text(stream, summary->series);
    fprintf(stream, "%s,", es_phase_name(summary->phase));
    put_integer(stream, summary->step);
    return status;
}

static es_status put_flags(FILE *stream, const es_run_summary *summary)
{
    size_t length = es_summary_print_flags(NULL, 0, summary);
    char *flags = malloc(length + 1);
    if (!flags)
        return es_fail(ES_ENOMEM, "out of memory for flags");
    es_summary_print_flags(flags, length + 1, summary);
    char *escaped = es_display_escape(flags, ES_ESCAPE_CSV);
    if (escaped)
        fprintf(stream, "%s\n", escaped);
    free(flags);
    free(escaped);
    return escaped ? ES_OK : ES_ENOMEM;
}

es_status es_csv_run(FILE *stream, const es_run_summary *summary)
{
    es_status status = put_identity(stream, summary);
    if (status)
        return status;
    put_float(stream, summary->loss);
    put_float(stream, summary->ppl);
    put_float(stream, summary->eval_loss);
    put_float(stream, summary->eval_ppl);
    put_computed(stream, summary->ceiling);
    fprintf(stream, "%s,", es_max_name(summary->max.policy));
    put_computed(stream, summary->m);
    put_bands(stream, &summary->bands);
    return put_flags(stream, summary);
}
