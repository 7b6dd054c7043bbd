/* What a run file is, out of the tables that write it: entropy-scan help
 * run-file, and with --man the manual page entropy-scan-run(5). */
#include "analyzer/base/manual.h"
#include "analyzer/base/text.h"
#include "analyzer/base/value.h"
#include "analyzer/flags/flags.h"
#include "cli/program/command.h"
#include "store/map.h"
#include "store/run_row.h"
#include "store/tables.h"

#include <string.h>

#define NAME "entropy-scan-run"
#define SUMMARY "run file of entropy-scan: an SQLite database of a training"

/* A page, as roff or as it is read. */
typedef struct page {
    FILE *out;
    bool man;
} page;

static void put(const page *p, const char *text)
{
    if (p->man)
        es_manual_text(p->out, text);
    else
        fputs(text, p->out);
}

static void put_title(const page *p, const char *title)
{
    fprintf(p->out, p->man ? ".SH %s\n" : "\n%s\n", title);
}

static void put_paragraph(const page *p, const char *text)
{
    fputs(p->man ? ".PP\n" : "\n", p->out);
    put(p, text);
    fputc('\n', p->out);
}

/* Lines as they are. */
static void put_lines(const page *p, const char *text)
{
    fputs(p->man ? ".PP\n.RS 4\n.nf\n" : "\n", p->out);
    put(p, text);
    fputs(p->man ? "\n.fi\n.RE\n" : "\n", p->out);
}

static void put_entry(const page *p, const char *word, const char *sentence)
{
    fputs(p->man ? ".TP\n.B " : "  ", p->out);
    put(p, word);
    fputs(p->man ? "\n" : ": ", p->out);
    put(p, sentence);
    fputc('\n', p->out);
}

static void put_entries(const page *p, const es_named_text *list)
{
    for (; list->name; list++)
        put_entry(p, list->name, list->text);
}

/* --- sections -------------------------------------------------------------*/

static void put_tables(const page *p)
{
    char ids[128];
    put_title(p, "TABLES");
    snprintf(ids, sizeof ids,
             "application_id is 0x%X (\"ENTR\"), user_version the schema: %d.",
             (unsigned)ES_APPLICATION_ID, ES_SCHEMA_VERSION);
    put_paragraph(p, ids);
    put_paragraph(p, "One file usually holds one run; entropy-scan merge makes "
                     "files of many, and adds the table summary, which is no "
                     "part of the schema. Other tables and views are left "
                     "alone; a trigger or an index on these tables is "
                     "refused.");
    for (size_t i = 0; es_schema_sql(i); i++)
        put_lines(p, es_schema_sql(i));
    put_lines(p, es_run_row_sql);
    put_paragraph(p, "Runs that record attention maps have a table of them: "
                     "mean weights of blocks of queries by blocks of keys.");
    put_lines(p, es_map_sql);
}

static void put_series(const page *p)
{
    es_series_line line;
    char sentence[160];
    put_title(p, "SERIES");
    put_paragraph(p,
                  "A series has one value a step for the run (shape run), one "
                  "for each layer (layer), or one for each head (head), first "
                  "all heads of layer 0. What was measured on held-out data is "
                  "a series of its own, of the phase eval. These have a "
                  "meaning; other names are kept as they are.");
    for (size_t i = 0; es_series_standard_at(&line, i); i++) {
        snprintf(sentence, sizeof sentence, "%s%s%s (%s)", line.title,
                 *line.unit ? ", " : "", line.unit, es_shape_name(line.shape));
        put_entry(p, line.name, sentence);
    }
}

static void put_flags(const page *p)
{
    char severities[128] = "";
    es_text text = es_text_begin(severities, sizeof severities);
    put_title(p, "FLAGS");
    put_paragraph(p, "Flags are not stored: every reader judges the samples by "
                     "its rules (entropy-scan rules prints them). What causes "
                     "a flag and what helps: entropy-scan explain KIND.");
    for (size_t i = 0; i < ES_N_FLAG_KINDS; i++)
        put_entry(p, es_flag_info_at(i)->name, es_flag_info_at(i)->meaning);
    for (int i = ES_SEVERITY_NONE; i <= ES_SEVERITY_CRITICAL; i++)
        es_text_append(&text, "%s%d %s", i ? ", " : "Severities: ", i,
                       es_severity_name((es_severity)i));
    put_paragraph(p, severities);
}

static const es_named_text events[] = {
    {"nan", "the loss became NaN or infinite"},
    {"stop", "the training was requested to stop"},
    {"dropped", "steps that the recorder was too late for"},
    {"log", "another program removed or cut the file or its log; of severity 3 "
            "data has \"lost\", how many recorded frames that cost: programs "
            "report it and end with code 3"},
    {"trainer_died", "the training ended without saying so"},
    {"damaged", "merge found a sample or a row whose checksum denies it"},
    {"gap, unjoined", "what ranks of a distributed training lack, or what no "
                      "rule makes one of"},
    {NULL, NULL}};

static void put_policies(const page *p)
{
    char text[320];
    put_title(p, "VALUES");
    snprintf(text, sizeof text,
             "A value is a packed little-endian float32. NaN and infinities "
             "are what the training produced; the NaN 0x%x means that nothing "
             "was measured. SQLite would make NULL of both: that is why values "
             "are BLOBs.",
             ES_MISSING_BITS);
    put_paragraph(p, text);
    put_title(p, "CHECKSUMS");
    put_paragraph(p, "crc is CRC-32C of uuid, phase and name of the series, "
                     "step and value, so a sample that was moved is as wrong "
                     "as one that was changed. Readers take a damaged sample "
                     "for missing values, report it, and end with code 3.");
    put_paragraph(
        p, "row_checksum covers the rows of run, series and event. "
           "What stands in a row that is not as it was recorded is "
           "used, reported, and ends with code 3, too: a checksum "
           "does not distinguish an edit by hand from damage. After an edit "
           "of one's own, DELETE FROM row_checksum accepts the file "
           "as it is. A file without the table, of an earlier "
           "version, has rows that nobody checks.");
    put_title(p, "VERSIONS");
    put_paragraph(p, "Every change of a table is a new schema. Files of every "
                     "older one stay readable, and are continued as they are; "
                     "one that is newer than the program is refused. Schema 1 "
                     "had no crc.");
    put_title(p, "FILES BESIDE IT");
    put_paragraph(p, "While it is written: RUN.db-wal and RUN.db-shm, which "
                     "are part of it, and RUN.db-lock. A file that was closed "
                     "stands alone. A rollback journal is refused.");
}

static void print_run_file(FILE *out, bool man)
{
    const page p = {out, man};
    if (man)
        fputs(".TH ENTROPY\\-SCAN\\-RUN 5 \"\" \"entropy\\-scan " ES_VERSION
              "\"\n.SH NAME\n",
              out);
    put(&p, NAME);
    fputs(man ? " \\- " : " - ", out);
    put(&p, SUMMARY "\n");
    put_tables(&p);
    put_series(&p);
    put_title(&p, "EVENTS");
    put_paragraph(&p, "Kinds are free text. These are ours:");
    put_entries(&p, events);
    put_flags(&p);
    put_policies(&p);
    put_title(&p, "EXAMPLES");
    put_paragraph(&p, "What a file holds, with any SQLite:");
    put_lines(&p, "SELECT run.name, series.name, phase, shape, unit, "
                  "count(*), max(step)\n"
                  "FROM run JOIN series USING (run_id) JOIN sample USING "
                  "(series_id)\n"
                  "GROUP BY series_id;");
    put_paragraph(&p, "Numbers, which are in BLOBs:");
    put_lines(&p,
              "entropy-scan sql sm.db \"SELECT step, layer, avg(value) FROM "
              "es_values('entropy') WHERE step >= 2000 GROUP BY 1, 2\"");
    if (man)
        fputs(".SH SEE ALSO\n.BR entropy\\-scan (1),\n"
              ".BR entropy\\-scan\\-sql (1),\n.BR sqlite3 (1)\n",
              out);
}

const es_topic es_run_file_topic = {"run-file", print_run_file};
