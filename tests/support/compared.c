/* Builds run files for the tests of --compare, loads them and compares them,
   and keeps the printed output. */
#include "tests/support/compared.h"
#include "cli/runs/json.h"
#include "cli/runs/settings.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

void es_compare_record_heads(es_recorded *to, int64_t step, float low)
{
    float x[64];
    size_t n = to->n_layers * to->n_heads;
    assert_true(n <= 64);
    for (size_t i = 0; i < n; i++)
        x[i] = low + (float)((i * 7) % n) / (float)n;
    es_record_sample(to, "entropy", ES_PHASE_TRAIN, step, x, n);
}

void es_compare_record_eval(es_recorded *to, const char *name, int64_t step,
                            float value)
{
    es_record_sample(to, name, ES_PHASE_EVAL, step, &value, 1);
}

void es_compare_write(void **state, const es_compared_written *of)
{
    const char *path = es_folder_file(state, of->file);
    es_run_info info = es_run_of(of->n_layer, of->n_head);
    info.name = of->name;
    info.arch = of->arch;
    info.config = of->config;
    info.seed = of->seed;
    info.ctx = 128;
    remove(path);
    es_recorded to = es_record(path, &info);
    for (int64_t step = 0; step <= 30; step += 10) {
        float ce = of->evals[step / 10];
        if (isnan(of->low))
            es_record_all(&to, "entropy", step, NAN);
        else
            es_compare_record_heads(&to, step,
                                    of->low + 0.125F * (float)step / 10);
        if (!es_is_missing(ce))
            es_compare_record_eval(&to, "loss", step, ce);
        if (step > 0 && !es_is_missing(of->logit))
            es_record_all(&to, "max_logit", step, of->logit);
    }
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
}

static void add_file(es_compared_files *to, void **state, const char *file,
                     bool baseline, const es_summary_options *options)
{
    AUTO(es_reader) reader;
    es_assert_ok(es_reader_open(&reader, es_folder_file(state, file)));
    for (size_t run = 0; run < es_reader_n_runs(reader); run++) {
        es_run_summary *summary;
        assert_true(to->n < ES_COMPARED_MOST);
        es_assert_ok(es_summary_load(&summary, reader, run, options));
        es_assert_ok(es_run_settings_read(summary, reader, run));
        free(summary->path); /* the path must not depend on the folder, whose
                                name differs in each run of the tests */
        summary->path = strdup(file);
        to->runs[to->n++] = summary;
        to->observed = es_peak_of(to->observed, summary->peak);
        es_assert_ok(
            es_comparison_add(to->comparison, reader, run, summary, baseline));
    }
}

void es_compare_files(es_compared_files *out, void **state,
                      const char *const *files, size_t n, const char *baseline,
                      int64_t step)
{
    es_summary_options options;
    es_summary_options_default(&options);
    options.step = step;
    *out = (es_compared_files){.observed = NAN};
    es_assert_ok(es_comparison_new(&out->comparison, &options));
    for (size_t i = 0; i < n; i++)
        add_file(out, state, files[i],
                 baseline && strcmp(baseline, files[i]) == 0, &options);
    for (size_t i = 0; i < out->n; i++)
        es_summary_set_max(out->runs[i], out->observed);
    es_assert_ok(es_comparison_finish(
        out->comparison, (const es_run_summary *const *)out->runs, baseline));
}

void es_compared_free(es_compared_files *compared)
{
    es_comparison_free(compared->comparison);
    for (size_t i = 0; i < compared->n; i++)
        es_summary_free(compared->runs[i]);
}

char *es_compared_text(const es_compared_files *compared,
                       es_table_options options)
{
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    assert_non_null(stream);
    es_assert_ok(es_comparison_print(compared->comparison, stream, &options));
    assert_int_equal(fclose(stream), 0);
    return text;
}

char *es_compared_json(const es_compared_files *compared)
{
    char *text = NULL;
    size_t length;
    FILE *stream = open_memstream(&text, &length);
    assert_non_null(stream);
    es_json_writer json = {.stream = stream};
    es_json_write_object(&json, NULL);
    es_json_write_integer(&json, "schema", ES_JSON_SCHEMA);
    es_comparison_json(compared->comparison, &json);
    es_json_write_end(&json, "}");
    fputc('\n', stream);
    assert_int_equal(fclose(stream), 0);
    return text;
}

json_t *es_compared_parsed(const es_compared_files *compared)
{
    json_error_t error;
    char *text = es_compared_json(compared);
    json_t *root = json_loads(text, JSON_REJECT_DUPLICATES, &error);
    if (!root)
        print_error("%d:%d: %s\n%s", error.line, error.column, error.text,
                    text);
    assert_non_null(root);
    json_t *comparison = json_incref(json_object_get(root, "comparison"));
    json_decref(root);
    free(text);
    return comparison;
}

json_t *es_json_at(json_t *root, const char *path)
{
    char name[64];
    json_t *at = root;
    for (const char *from = path; *from && at;) {
        size_t n = strcspn(from, ".");
        assert_true(n < sizeof name);
        snprintf(name, sizeof name, "%.*s", (int)n, from);
        at = json_is_array(at) ? json_array_get(at, strtoul(name, NULL, 10))
                               : json_object_get(at, name);
        from += n + (from[n] == '.');
    }
    if (!at)
        print_error("no %s\n", path);
    assert_non_null(at);
    return at;
}

static double number_at(json_t *root, const char *path)
{
    return json_number_value(es_json_at(root, path));
}

const char *es_json_text_at(json_t *root, const char *path)
{
    const char *text = json_string_value(es_json_at(root, path));
    return text ? text : "";
}

void es_json_assert_near(json_t *root, const char *path, double expected)
{
    double tolerance = 1e-6 * fabs(expected);
    bool is_near = fabs(number_at(root, path) - expected) <= tolerance;
    if (!is_near)
        print_error("%s: %.9g, not %.9g\n", path, number_at(root, path),
                    expected);
    assert_true(is_near);
}

const char *es_json_list_at(json_t *root, const char *path)
{
    static char list[512];
    size_t index;
    json_t *element;
    list[0] = 0;
    json_array_foreach(es_json_at(root, path), index, element)
    {
        size_t n = strlen(list);
        snprintf(list + n, sizeof list - n, "%s%s", n ? " " : "",
                 json_string_value(element));
    }
    return list;
}
