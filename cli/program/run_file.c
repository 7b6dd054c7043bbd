/* Implements entropy-scan help run-file, which prints the description of the
 * run file. The description is generated from the tables of the store, of
 * series and of flags. With --man, it is printed as the manual page
 * entropy-scan-run(5). */
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
#define SUMMARY "run file of entropy-scan: an SQLite database of training runs"

/* State while the description is printed: as roff if `man` is true, otherwise
 * as plain text. */
typedef struct page {
    FILE *out;
    bool man;
} page;

static void put_text(const page *p, const char *text)
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
    put_text(p, text);
    fputc('\n', p->out);
}

/* Prints lines with their line breaks, which roff would otherwise not
   preserve. */
static void put_lines(const page *p, const char *text)
{
    fputs(p->man ? ".PP\n.RS 4\n.nf\n" : "\n", p->out);
    put_text(p, text);
    fputs(p->man ? "\n.fi\n.RE\n" : "\n", p->out);
}

static void put_entry(const page *p, const char *word, const char *sentence)
{
    fputs(p->man ? ".TP\n.B " : "  ", p->out);
    put_text(p, word);
    fputs(p->man ? "\n" : ": ", p->out);
    put_text(p, sentence);
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
             "application_id is 0x%X (\"ENTR\"); user_version is the schema: "
             "%d.",
             (unsigned)ES_APPLICATION_ID, ES_SCHEMA_VERSION);
    put_paragraph(p, ids);
    put_paragraph(
        p, "One file usually holds one run; entropy-scan merge writes files "
           "that hold many, and adds the table summary, which is not part of "
           "the schema. Other tables and views are ignored; a file with a "
           "trigger or an additional index on these tables is refused.");
    for (size_t i = 0; es_schema_sql(i); i++)
        put_lines(p, es_schema_sql(i));
    put_lines(p, es_run_row_sql);
    put_paragraph(p,
                  "Attention maps are in an additional table. A map holds the "
                  "mean weight of each block of queries on each block of "
                  "keys.");
    put_lines(p, es_map_sql);
}

static void put_series(const page *p)
{
    es_series_line line;
    char sentence[160];
    put_title(p, "SERIES");
    put_paragraph(
        p, "At each step a series has one value for the run (shape run), one "
           "for each layer (layer), or one for each head (head; all heads of "
           "layer 0 come first). Values measured on held-out data form a "
           "separate series with the phase eval. The following names have a "
           "defined meaning; other names are stored unchanged.");
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
    put_paragraph(
        p, "Flags are not stored: every reader detects them by its own "
           "rules (entropy-scan rules prints them). entropy-scan explain KIND "
           "prints the causes of a flag and its remedies.");
    for (size_t i = 0; i < ES_N_FLAG_KINDS; i++)
        put_entry(p, es_flag_info_at(i)->name, es_flag_info_at(i)->meaning);
    for (int i = ES_SEVERITY_NONE; i <= ES_SEVERITY_CRITICAL; i++)
        es_text_append(&text, "%s%d %s", i ? ", " : "Severities: ", i,
                       es_severity_name((es_severity)i));
    put_paragraph(p, severities);
}

static const es_named_text events[] = {
    {"nan", "the loss became NaN or infinite"},
    {"stop", "a stop of training was requested"},
    {"dropped",
     "steps that were not recorded, because the recorder's queue was full"},
    {"log", "another program removed or truncated the file or its log; at "
            "severity 3 the data has \"lost\", the number of recorded frames "
            "that were lost: programs report it and exit with code 3"},
    {"trainer_died", "the training process died before it ended the run"},
    {"damaged", "merge found a sample or row whose checksum is wrong"},
    {"gap, unjoined", "values that some ranks of a distributed run lack, or "
                      "that no rule can combine"},
    {NULL, NULL}};

static void put_policies(const page *p)
{
    char text[320];
    put_title(p, "VALUES");
    snprintf(text, sizeof text,
             "A value is a packed little-endian float32. NaN and infinities "
             "are what the training produced; the NaN 0x%x means that nothing "
             "was measured. Values are BLOBs, because SQLite would store any "
             "NaN as NULL.",
             ES_MISSING_BITS);
    put_paragraph(p, text);
    put_title(p, "CHECKSUMS");
    put_paragraph(p, "crc is the CRC-32C of the uuid, the phase and name of "
                     "the series, the step and the value, so it also detects a "
                     "sample that was moved. Readers treat a damaged sample as "
                     "missing values, report it, and exit with code 3.");
    put_paragraph(
        p, "row_checksum covers the rows of run, series and event. Readers use "
           "a row that was changed after it was recorded, but report it and "
           "exit with code 3: a checksum does not distinguish an edit by hand "
           "from damage. After you edit a row, DELETE FROM row_checksum "
           "accepts the file as it is. Files of earlier versions have no such "
           "table, and their rows are not checked.");
    put_title(p, "VERSIONS");
    put_paragraph(
        p, "Every change of a table is a new schema version. Files of all "
           "older versions remain readable, and keep their version when they "
           "are continued; a file newer than the program is refused. Schema 1 "
           "had no crc.");
    put_title(p, "OTHER FILES");
    put_paragraph(p,
                  "While a run is written, RUN.db-wal and RUN.db-shm are part "
                  "of it, and RUN.db-lock is its lock. A closed run file needs "
                  "no other file. A file with a rollback journal is refused.");
}

static void print_run_file(FILE *out, bool man)
{
    const page p = {out, man};
    if (man)
        fputs(".TH ENTROPY\\-SCAN\\-RUN 5 \"\" \"entropy\\-scan " ES_VERSION
              "\"\n.SH NAME\n",
              out);
    put_text(&p, NAME);
    fputs(man ? " \\- " : " - ", out);
    put_text(&p, SUMMARY "\n");
    put_tables(&p);
    put_series(&p);
    put_title(&p, "EVENTS");
    put_paragraph(
        &p,
        "Kinds are free text. This program writes and reads the following:");
    put_entries(&p, events);
    put_flags(&p);
    put_policies(&p);
    put_title(&p, "EXAMPLES");
    put_paragraph(&p, "The series of a file, printed by any SQLite:");
    put_lines(&p, "SELECT run.name, series.name, phase, shape, unit, "
                  "count(*), max(step)\n"
                  "FROM run JOIN series USING (run_id) JOIN sample USING "
                  "(series_id)\n"
                  "GROUP BY series_id;");
    put_paragraph(
        &p, "Numbers are stored in BLOBs; entropy-scan sql decodes them:");
    put_lines(&p,
              "entropy-scan sql sm.db \"SELECT step, layer, avg(value) FROM "
              "es_values('entropy') WHERE step >= 2000 GROUP BY 1, 2\"");
    if (man)
        fputs(".SH SEE ALSO\n.BR entropy\\-scan (1),\n"
              ".BR entropy\\-scan\\-sql (1),\n.BR sqlite3 (1)\n",
              out);
}

const es_topic es_run_file_topic = {"run-file", print_run_file};
