/* Collects damaged samples and rows, by file. A program may open a file several
   times, and read different samples each time. The collected notes outlive the
   readers, so that the program reports each file in one line and counts each
   sample once. */
#include "cli/runs/damage.h"

#include "analyzer/base/checked.h"
#include "cli/output/print.h"
#include "store/merge.h"

#include <stdlib.h>
#include <string.h>

typedef struct damaged_file {
    char *path;
    es_damaged *samples; /* (n) damaged samples, sorted by run, then by step;
                            owns the names of their series */
    size_t n, n_printed;
    bool is_behind, behind_printed; /* is_behind: a part of the file could not
                                       be read; behind_printed: this has been
                                       printed */
} damaged_file;

static struct {
    damaged_file *files; /* (n) */
    size_t n;
    bool accepted, incomplete; /* true if --salvage was given; true if notes are
                                  missing because memory ran out */
} notes;

/* --- noting -------------------------------------------------------------- */

static damaged_file *file_of(const char *path)
{
    for (size_t i = notes.n; i-- > 0;) /* search from the end, because the
                                          last file usually matches */
        if (strcmp(notes.files[i].path, path) == 0)
            return &notes.files[i];
    damaged_file new = {.n = 0};
    if (es_grow(&notes.files, notes.n + 1, sizeof *notes.files,
                "damaged files") < 0 ||
        es_copy_text(&new.path, path) < 0)
        return NULL;
    notes.files[notes.n] = new;
    return &notes.files[notes.n++];
}

static int compare_samples(const es_damaged *a, const es_damaged *b)
{
    if (a->run != b->run)
        return a->run < b->run ? -1 : 1;
    if (a->step != b->step)
        return a->step < b->step ? -1 : 1;
    if (a->table != b->table)
        return a->table < b->table ? -1 : 1;
    if (a->is_lost != b->is_lost)
        return a->is_lost ? 1 : -1;
    if (a->row != b->row)
        return a->row < b->row ? -1 : 1;
    if (a->phase != b->phase)
        return a->phase < b->phase ? -1 : 1;
    return strcmp(a->series, b->series);
}

static bool add_sample(damaged_file *file, const es_damaged *sample)
{
    size_t at = file->n;
    char *name;
    while (at > 0 && compare_samples(&file->samples[at - 1], sample) > 0)
        at--;
    if (at > 0 && compare_samples(&file->samples[at - 1], sample) == 0) {
        file->samples[at - 1].n_frames = sample->n_frames;
        return true;
    }
    if (file->n == ES_MAX_DAMAGED)
        return true;
    if (es_grow(&file->samples, file->n + 1, sizeof *file->samples,
                "damaged samples") < 0 ||
        es_copy_text(&name, sample->series) < 0)
        return false;
    es_damaged *place = file->samples + at;
    memmove(place + 1, place, (file->n - at) * sizeof *place);
    *place = *sample;
    place->series = name;
    file->n++;
    return true;
}

void es_damage_note(const char *path, const es_damaged *sample)
{
    damaged_file *file = file_of(path);
    if (file && !sample)
        file->is_behind = true;
    else
        notes.incomplete =
            notes.incomplete || !file || !add_sample(file, sample);
}

void es_damage_close(es_reader *reader)
{
    const es_event *events;
    size_t n_events;
    if (reader && es_reader_n_runs(reader)) /* es_reader_events also makes the
                                               reader list lost frames as
                                               damage */
        (void)!es_reader_events(reader, 0, &events, &n_events);
    size_t n = reader ? es_reader_n_damaged(reader) : 0;
    for (size_t i = 0; i < n; i++) {
        es_damaged sample;
        if (es_reader_damaged(reader, i, &sample) == ES_OK)
            es_damage_note(es_reader_path(reader), &sample);
        else
            notes.incomplete = true;
    }
    if (reader && es_merge_is_behind(reader))
        es_damage_note(es_reader_path(reader), NULL);
    es_reader_close(reader);
}

/* --- reporting ----------------------------------------------------------- */

void es_damage_accept(void)
{
    notes.accepted = true;
}

static void print_rows(const damaged_file *file, const es_damaged *row,
                       unsigned long long n, const char *remedy)
{
    es_print_note(
        "%s: %llu row%s (%s %lld%s) %s not as recorded: edited by hand, or "
        "damaged%s%s",
        file->path, n, n == 1 ? "" : "s", es_row_table_name(row->table),
        (long long)row->row, n == 1 ? "" : " first", n == 1 ? "is" : "are",
        remedy,
        *remedy ? "; to accept an edit: sqlite3 FILE 'DELETE FROM row_checksum'"
                : "");
}

static void print_file(const damaged_file *file, const char *remedy)
{
    const char *least = file->n == ES_MAX_DAMAGED ? "at least " : "";
    /* the first damage of each kind */
    const es_damaged *sample = NULL, *frame = NULL, *row = NULL, *lost = NULL;
    unsigned long long n_samples = 0, n_frames = 0, n_rows = 0, n_lost = 0;
    for (size_t i = 0; i < file->n; i++) {
        const es_damaged *at = &file->samples[i];
        const es_damaged **first = at->table      ? &row
                                   : at->is_lost  ? &lost
                                   : at->n_frames ? &frame
                                                  : &sample;
        if (!*first || first == &lost) /* of several events about lost frames,
                                          the last one is reported */
            *first = at;
        n_frames += at->is_lost ? 0 : at->n_frames;
        n_lost += at->is_lost ? at->n_frames : 0;
        n_rows += at->table != ES_ROW_NONE;
        n_samples += first == &sample;
    }
    if (lost)
        es_print_note(
            "%s: %llu recorded frame%s up to step %lld %s lost: the file or "
            "its log was removed, replaced or truncated while it was written%s",
            file->path, n_lost, n_lost == 1 ? "" : "s", (long long)lost->step,
            n_lost == 1 ? "is" : "are", remedy);
    if (row)
        print_rows(file, row, n_rows, remedy);
    if (sample)
        es_print_note("%s: %s%llu damaged sample%s (%s (%s), step %lld first): "
                      "shown as missing%s",
                      file->path, least, n_samples, n_samples == 1 ? "" : "s",
                      sample->series, es_phase_name(sample->phase),
                      (long long)sample->step, remedy);
    if (frame)
        es_print_note("%s: %s%llu damaged frame%s (after step %lld first): the "
                      "samples in %s are missing%s",
                      file->path, least, n_frames, n_frames == 1 ? "" : "s",
                      (long long)frame->step, n_frames == 1 ? "it" : "them",
                      remedy);
}

static void print_notes(const char *remedy)
{
    for (size_t i = 0; i < notes.n; i++) {
        damaged_file *file = &notes.files[i];
        if (file->n > file->n_printed)
            print_file(file, remedy);
        file->n_printed = file->n;
        if (file->is_behind && !file->behind_printed)
            es_print_note("%s: cannot be read completely: frames are damaged, "
                          "or not visible to this host yet: read it again in a "
                          "minute",
                          file->path);
        file->behind_printed = file->is_behind;
    }
}

void es_damage_print(void)
{
    print_notes(": restore a copy");
}

int es_damage_exit(int code, size_t n_inputs)
{
    print_notes(notes.accepted ? "" : ": restore a copy, or add --salvage");
    bool damaged = notes.incomplete;
    for (size_t i = 0; i < notes.n; i++)
        damaged = damaged || notes.files[i].n > 0;
    if (!damaged || notes.accepted || code > 1)
        return code;
    return n_inputs > 1 ? ES_EXIT_SOME_FAILED : es_exit_code(ES_EIO);
}
