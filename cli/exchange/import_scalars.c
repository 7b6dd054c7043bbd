/* Collects named numbers into samples. A hash table contains the names, and
   each series has an array of samples sorted by step. Most numbers arrive
   sorted by step, so they are appended. */
#include "cli/exchange/import_scalars.h"
#include "cli/exchange/tag_guess.h"

#include "analyzer/base/checked.h"
#include "analyzer/base/value.h"

#include <string.h>

enum { NO_SERIES = -1 };

/* A name in the file, and the series, layer and head that its numbers belong
   to. */
typedef struct name {
    char *tag;
    int series; /* index of the series; NO_SERIES if numbers of this name are
                   skipped */
    int64_t layer, head;
    es_layer_kind kind; /* kind of the layer's attention */
    bool is_mtp;        /* true for a multi-token prediction layer, whose number
                           place_mtp may shift */
} name;

typedef struct sample {
    int64_t step;
    float *values; /* (series.n_values) */
} sample;

typedef struct series {
    es_text_series text;
    sample *samples; /* (n) samples, sorted by step */
    size_t n, capacity;
    size_t n_values;
    size_t next; /* index of the next sample to pass to the sink */
} series;

struct es_scalars {
    es_import *import;
    const es_tag_rules *rules;
    name *names; /* (capacity) hash table; an entry is free if its tag is
                    NULL */
    size_t n_names, capacity;
    series *list; /* (n_series) */
    size_t n_series;
    int64_t n_layer, n_head;    /* numbers of layers and heads of the decoder */
    int64_t first_mtp, end_mtp; /* range [first_mtp, end_mtp) of multi-token
                                   prediction layers */
};

es_status es_scalars_new(es_scalars **out, es_import *import,
                         const es_tag_rules *rules)
{
    es_status status = es_alloc(out, 1, sizeof **out, "numbers");
    if (status == ES_OK) {
        (*out)->import = import;
        (*out)->rules = rules;
    }
    return status;
}

static void drop_samples(series *from, size_t first)
{
    while (from->n > first)
        free(from->samples[--from->n].values);
}

void es_scalars_free(es_scalars *scalars)
{
    if (!scalars)
        return;
    for (size_t i = 0; i < scalars->capacity; i++)
        free(scalars->names[i].tag);
    for (size_t i = 0; i < scalars->n_series; i++) {
        drop_samples(&scalars->list[i], 0);
        free(scalars->list[i].samples);
        free(scalars->list[i].text.name);
        free(scalars->list[i].text.unit);
    }
    free(scalars->names);
    free(scalars->list);
    free(scalars);
}

/* --- names -----------------------------------------------------------------*/

/* FNV-1a. */
static uint64_t hash_name(const char *text)
{
    uint64_t h = UINT64_C(14695981039346656037);
    for (; *text; text++)
        h = (h ^ (unsigned char)*text) * UINT64_C(1099511628211);
    return h;
}

/* Returns the entry of a name, or the free entry in which to store the name.
   capacity is a power of two. */
static name *find_name(name *names, size_t capacity, const char *tag)
{
    size_t i = hash_name(tag) & (capacity - 1);
    while (names[i].tag && strcmp(names[i].tag, tag) != 0)
        i = (i + 1) & (capacity - 1);
    return &names[i];
}

static es_status make_space(es_scalars *scalars)
{
    if (2 * scalars->n_names < scalars->capacity)
        return ES_OK;
    name *larger;
    size_t capacity = scalars->capacity ? 2 * scalars->capacity : 64;
    es_status status = es_alloc(&larger, capacity, sizeof *larger, "names");
    if (status < 0)
        return status;
    for (size_t i = 0; i < scalars->capacity; i++)
        if (scalars->names[i].tag)
            *find_name(larger, capacity, scalars->names[i].tag) =
                scalars->names[i];
    free(scalars->names);
    scalars->names = larger;
    scalars->capacity = capacity;
    return ES_OK;
}

/* If no series has values of heads, guesses a --tags pattern for names that
   look like entropies of heads. */
static es_status guess_tags(const es_scalars *scalars)
{
    es_import_report *report = scalars->import->report;
    const char **tags, *tag;
    for (size_t i = 0; i < scalars->n_series; i++) {
        const es_text_series *one = &scalars->list[i].text;
        if (one->shape == ES_SHAPE_HEAD ||
            (one->shape == ES_SHAPE_LAYER && strcmp(one->name, "entropy") == 0))
            return ES_OK;
    }
    es_status status =
        es_alloc((void *)&tags, scalars->capacity, sizeof *tags, "names");
    if (status < 0)
        return status;
    for (size_t i = 0; i < scalars->capacity; i++) {
        const name *one = &scalars->names[i];
        if (one->tag && one->series != NO_SERIES &&
            (scalars->list[one->series].text.shape == ES_SHAPE_RUN ||
             strcasestr(one->tag, "head"))) /* for example x/layer_0/head3_y */
            tags[i] = one->tag;
    }
    if (es_tag_guess(report->tags, &tag, tags, scalars->capacity))
        snprintf(report->tag, sizeof report->tag, "%s", tag);
    else
        *report->tags = '\0';
    free(tags);
    return ES_OK;
}

static es_status fail_many(const es_scalars *scalars)
{
    const es_import_report *report = scalars->import->report;
    const char *file = es_line_reader_name(scalars->import->lines);
    es_status status = guess_tags(scalars);
    if (status < 0)
        return status;
    return *report->tags
               ? es_fail(ES_EFORMAT,
                         "%s: more than %d series: names such as '%s' need "
                         "--tags '%s'",
                         file, ES_MAX_TEXT_SERIES, report->tag, report->tags)
               : es_fail(ES_EFORMAT, "%s: more than %d series", file,
                         ES_MAX_TEXT_SERIES);
}

static es_status find_series(int *out, es_scalars *scalars, const es_tag *tag)
{
    for (size_t i = 0; i < scalars->n_series; i++) {
        const es_text_series *one = &scalars->list[i].text;
        if (one->phase == tag->phase && one->shape == tag->shape &&
            strcmp(one->name, tag->series) == 0) {
            *out = (int)i;
            return ES_OK;
        }
    }
    if (scalars->n_series == ES_MAX_TEXT_SERIES)
        return fail_many(scalars);
    es_status status = es_grow(&scalars->list, scalars->n_series + 1,
                               sizeof *scalars->list, "the series");
    if (status < 0)
        return status;
    series *added = &scalars->list[scalars->n_series];
    *added = (series){.text = {.phase = tag->phase, .shape = tag->shape}};
    if ((status = es_copy_text(&added->text.name, tag->series)) < 0)
        return status;
    *out = (int)scalars->n_series++;
    return ES_OK;
}

/* Returns true if the tag cannot be parsed, so its numbers are lost. Returns
   false for means over heads that export wrote: these are skipped as well, but
   can be computed from the heads. */
static bool is_lost(const es_scalars *scalars, const char *tag)
{
    es_tag_rules rules = *scalars->rules;
    es_tag of;
    rules.is_ours = false;
    return !es_tag_parse(&of, tag, &rules);
}

static void count_places(es_scalars *scalars, const es_tag *of, size_t place)
{
    int64_t *end = of->is_mtp ? &scalars->end_mtp : &scalars->n_layer;
    if (of->is_mtp && (!scalars->end_mtp || of->layer < scalars->first_mtp))
        scalars->first_mtp = of->layer;
    if (of->layer >= *end || of->head >= scalars->n_head)
        scalars->import->largest_line = place;
    if (of->layer >= *end)
        *end = of->layer + 1;
    if (of->head >= scalars->n_head)
        scalars->n_head = of->head + 1;
}

es_status es_scalars_name(es_scalars *scalars, const char *tag, size_t place)
{
    es_tag of;
    es_status status = make_space(scalars);
    if (status < 0)
        return status;
    name *found = find_name(scalars->names, scalars->capacity, tag);
    if (found->tag)
        return ES_OK;
    name made = {.series = NO_SERIES};
    if (es_tag_parse(&of, tag, scalars->rules)) {
        if ((status = find_series(&made.series, scalars, &of)) < 0)
            return status;
        made.layer = of.layer;
        made.head = of.head;
        made.kind = of.kind;
        made.is_mtp = of.is_mtp;
        count_places(scalars, &of, place);
    } else if (is_lost(scalars, tag)) {
        scalars->import->report->n_names++;
    }
    if ((status = es_copy_text(&made.tag, tag)) < 0)
        return status;
    *found = made;
    scalars->n_names++;
    return ES_OK;
}

/* Sets the unit of a series if the description in the file contains the
   unit. */
static es_status describe_series(es_scalars *scalars, es_text_series *target)
{
    const es_about *about = &scalars->import->about;
    es_status status = ES_OK;
    for (size_t i = 0; i < about->n_series && status == ES_OK; i++)
        if (!target->unit && about->series[i].phase == target->phase &&
            about->series[i].shape == target->shape &&
            strcmp(about->series[i].name, target->name) == 0)
            status = es_copy_text(&target->unit, about->series[i].unit);
    return status;
}

/* Appends the shape to the name of a series, as in "entropy (run)", if a series
   with more values per step (of layers or heads) has the same name. */
static es_status set_apart(const es_scalars *scalars, es_text_series *target)
{
    char text[ES_MAX_NAME + 1];
    bool clash = false;
    for (size_t i = 0; i < scalars->n_series; i++) {
        const es_text_series *other = &scalars->list[i].text;
        clash = clash || (other->phase == target->phase &&
                          other->shape > target->shape &&
                          strcmp(other->name, target->name) == 0);
    }
    if (!clash)
        return ES_OK;
    snprintf(text, sizeof text, "%.200s (%s)", target->name,
             es_shape_name(target->shape));
    free(target->name);
    return es_copy_text(&target->name, text);
}

/* Numbers the multi-token prediction (MTP) layers. If the lowest of their
   numbers is also the number of a decoder layer, all MTP layers are renumbered
   to follow the decoder. Otherwise, they keep their numbers. */
static es_status place_mtp(es_scalars *scalars)
{
    if (!scalars->end_mtp)
        return ES_OK;
    const int64_t moved = scalars->first_mtp < scalars->n_layer
                              ? scalars->n_layer - scalars->first_mtp
                              : 0;
    if (scalars->end_mtp + moved > ES_MAX_LAYERS)
        return es_fail(ES_EFORMAT, "%s: more than %d layers",
                       es_line_reader_name(scalars->import->lines),
                       ES_MAX_LAYERS);
    for (size_t i = 0; i < scalars->capacity; i++)
        if (scalars->names[i].tag && scalars->names[i].is_mtp)
            scalars->names[i].layer += moved;
    scalars->first_mtp += moved;
    scalars->n_layer = scalars->end_mtp + moved;
    return ES_OK;
}

/* If the names of the numbers contain kinds of layers or MTP layers, stores
   these in the list "layers" of the run's configuration, unless the file
   contains a configuration. */
static es_status describe_layers(es_scalars *scalars)
{
    es_about *about = &scalars->import->about;
    es_layer_kind kinds[ES_MAX_LAYERS] = {ES_LAYER_UNKNOWN};
    bool any = scalars->end_mtp > 0;
    for (size_t i = 0; i < scalars->capacity; i++) {
        const name *one = &scalars->names[i];
        if (one->tag && one->kind != ES_LAYER_UNKNOWN) {
            kinds[one->layer] = one->kind;
            any = true;
        }
    }
    if (!any || about->info.config)
        return ES_OK;
    int64_t n = scalars->n_layer;
    if (about->info.n_layer > n)
        n = about->info.n_layer;
    char *text = NULL;
    size_t size;
    FILE *stream = open_memstream(&text, &size);
    if (!stream)
        return es_fail(ES_ENOMEM, "out of memory for layers");
    es_json_writer json = {.stream = stream};
    es_json_write_object(&json, NULL);
    es_json_write_array(&json, "layers");
    for (int64_t l = 0; l < n; l++) {
        char mtp[32];
        snprintf(mtp, sizeof mtp, "layer_%lld_mtp", (long long)l);
        es_json_write_object(&json, NULL);
        if (scalars->end_mtp && l >= scalars->first_mtp)
            es_json_write_text(&json, "name", mtp);
        if (kinds[l] != ES_LAYER_UNKNOWN)
            es_json_write_text(&json, "kind", es_layer_kind_name(kinds[l]));
        es_json_write_end(&json, "}");
    }
    es_json_write_end(&json, "]}");
    const es_status status =
        fclose(stream) == 0 ? es_about_set(about, "config", text)
                            : es_fail(ES_ENOMEM, "out of memory for layers");
    free(text);
    return status;
}

es_status es_scalars_begin(es_scalars *scalars)
{
    es_import *import = scalars->import;
    es_text_series list[ES_MAX_TEXT_SERIES];
    es_status status = ES_OK;
    if (!scalars->n_series)
        return import->report->n_names
                   ? es_fail(ES_EFORMAT,
                             "%s: no number could be imported: layers and "
                             "heads must not exceed %d",
                             es_line_reader_name(import->lines),
                             ES_MAX_LAYERS - 1)
                   : es_fail(ES_EFORMAT, "%s: no number could be imported",
                             es_line_reader_name(import->lines));
    for (size_t i = 0; i < scalars->n_series && status == ES_OK; i++) {
        status = describe_series(scalars, &scalars->list[i].text);
        if (status == ES_OK)
            status = set_apart(scalars, &scalars->list[i].text);
        list[i] = scalars->list[i].text;
    }
    if (status == ES_OK && !scalars->rules->is_ours)
        status = guess_tags(scalars);
    if (status == ES_OK)
        status = place_mtp(scalars);
    if (status == ES_OK)
        status = describe_layers(scalars);
    if (status == ES_OK)
        status = es_import_begin(import, scalars->n_layer, scalars->n_head,
                                 list, scalars->n_series);
    const es_run_info *info = &import->about.info;
    for (size_t i = 0; i < scalars->n_series && status == ES_OK; i++)
        scalars->list[i].n_values = es_shape_values(
            scalars->list[i].text.shape, info->n_layer, info->n_head);
    return status;
}

/* --- numbers ---------------------------------------------------------------*/

/* Returns the index of the first sample at `step` or later. */
static size_t find_step(const series *in, int64_t step)
{
    size_t low = 0, high = in->n;
    if (in->n && in->samples[in->n - 1].step < step)
        return in->n;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (in->samples[middle].step < step)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static es_status insert_sample(es_scalars *scalars, series *in, size_t place,
                               int64_t step)
{
    float *values;
    es_status status = es_import_check_growth(scalars->import, in->n_values);
    if (status == ES_OK && in->n == in->capacity) {
        size_t capacity = in->capacity ? 2 * in->capacity : 16;
        status =
            es_grow(&in->samples, capacity, sizeof *in->samples, "samples");
        if (status == ES_OK)
            in->capacity = capacity;
    }
    if (status == ES_OK)
        status = es_alloc(&values, in->n_values, sizeof *values, "a sample");
    if (status < 0)
        return status;
    for (size_t i = 0; i < in->n_values; i++)
        values[i] = es_missing();
    memmove(in->samples + place + 1, in->samples + place,
            (in->n - place) * sizeof *in->samples);
    in->samples[place] = (sample){step, values};
    in->n++;
    return ES_OK;
}

es_status es_scalars_put(es_scalars *scalars, const char *tag, int64_t step,
                         float value)
{
    const es_import *import = scalars->import;
    const es_run_info *info = &import->about.info;
    const name *found = scalars->capacity
                            ? find_name(scalars->names, scalars->capacity, tag)
                            : NULL;
    if (!found || !found->tag)
        return es_fail(ES_EIO, "%s: was changed while it was read",
                       es_line_reader_name(import->lines));
    if (found->series == NO_SERIES)
        return ES_OK;
    series *in = &scalars->list[found->series];
    size_t place = find_step(in, step);
    es_status status = ES_OK;
    if (place == in->n || in->samples[place].step != step)
        status = insert_sample(scalars, in, place, step);
    if (status < 0)
        return status;
    size_t index = 0;
    if (in->text.shape == ES_SHAPE_HEAD)
        index = (size_t)(found->layer * info->n_head + found->head);
    else if (in->text.shape == ES_SHAPE_LAYER)
        index = (size_t)found->layer;
    float *values = in->samples[place].values;
    import->report->n_replaced += !es_is_missing(values[index]);
    values[index] = value;
    return ES_OK;
}

void es_scalars_void(es_scalars *scalars, int64_t step)
{
    for (size_t i = 0; i < scalars->n_series; i++)
        drop_samples(&scalars->list[i], find_step(&scalars->list[i], step));
}

/* Finds the lowest step of the samples that have not been passed to the sink
   yet. Returns false if no such samples remain. */
static bool find_next(const es_scalars *scalars, int64_t *step)
{
    bool any = false;
    for (size_t i = 0; i < scalars->n_series; i++) {
        const series *one = &scalars->list[i];
        if (one->next == one->n)
            continue;
        if (!any || one->samples[one->next].step < *step)
            *step = one->samples[one->next].step;
        any = true;
    }
    return any;
}

es_status es_scalars_finish(es_scalars *scalars)
{
    int64_t step = 0;
    while (find_next(scalars, &step))
        for (size_t i = 0; i < scalars->n_series; i++) {
            series *one = &scalars->list[i];
            if (one->next == one->n || one->samples[one->next].step != step)
                continue;
            es_status status = es_import_hand_on(
                scalars->import, i, step, one->samples[one->next++].values,
                one->n_values);
            if (status != ES_OK)
                return status;
        }
    return ES_OK;
}
