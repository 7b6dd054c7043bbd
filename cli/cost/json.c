/* Writes the output of entropy-scan cost --json, whose members cli/cost/cost.h
 * lists. */
#include "cli/cost/cost.h"

#include "analyzer/base/json_write.h"

static void put_modelled(es_json_writer *json, es_modelled modelled)
{
    es_json_write_stated(json, "modelled", modelled.value, "missing");
    es_json_write_stated(json, "low", modelled.low, "missing");
    es_json_write_stated(json, "high", modelled.high, "missing");
}

static void put_items(es_json_writer *json, const char *name,
                      const double items[ES_N_COST_ITEMS])
{
    es_json_write_object(json, name);
    for (int i = 0; i < ES_N_COST_ITEMS; i++)
        es_json_write_stated(json, es_cost_item_name((es_cost_item)i), items[i],
                             "missing");
    es_json_write_end(json, "}");
}

static void put_cost(es_json_writer *json, const char *name, es_cost_kind kind,
                     const es_cost_model *model)
{
    double parts[ES_N_COST_ITEMS];
    es_cost_parts(parts, kind, model);
    es_json_write_object(json, name);
    put_modelled(json, es_cost_predict(kind, model));
    put_items(json, "parts", parts);
    es_json_write_end(json, "}");
}

static void put_saving(es_json_writer *json, const char *name,
                       es_modelled saving)
{
    es_json_write_object(json, name);
    put_modelled(json, saving);
    es_json_write_end(json, "}");
}

static void put_model(es_json_writer *json, const es_cost_model *model)
{
    char arch[ES_ARCH_TEXT_MAX];
    es_arch_print(arch, sizeof arch, &model->shape.arch);
    es_json_write_text(json, "arch", arch);
    es_json_write_integer(json, "n_layer", model->shape.n_layer);
    es_json_write_integer(json, "n_head", model->shape.n_head);
    es_json_write_integer(json, "d_model", model->shape.d_model);
    es_json_write_integer(json, "ctx", model->ctx);
    es_json_write_known(json, "vocab",
                        model->vocab < 1 ? INT64_MIN : model->vocab);
    es_json_write_integer(json, "mlp_mult", model->shape.mlp_mult);
    es_json_write_bool(json, "first_norm", model->first_norm);
    es_json_write_bool(json, "final_norm", es_cost_counts_final_norm(model));
    es_json_write_bool(json, "simplified", model->shape.simplified);
}

static void put_inventory(es_json_writer *json, const es_cost_model *model)
{
    es_cost_line lines[ES_COST_LINES_MAX];
    const size_t n = es_cost_inventory(lines, model);
    es_json_write_array(json, "inventory");
    for (size_t i = 0; i < n; i++) {
        es_json_write_object(json, NULL);
        es_json_write_text(json, "kind", lines[i].kind);
        es_json_write_double(json, "n", lines[i].n);
        es_json_write_double(json, "rows", lines[i].rows);
        if (lines[i].product)
            es_json_write_double(json, "inner", lines[i].inner);
        es_json_write_double(json, "columns", lines[i].columns);
        es_json_write_end(json, "}");
    }
    es_json_write_end(json, "]");
}

static void put_measured(es_json_writer *json, const es_cost_entry *entry)
{
    es_json_write_array(json, "measured");
    for (size_t i = 0; i < entry->n_measured; i++) {
        const es_cost_measured *one = &entry->measured[i];
        const es_cost_beside beside =
            es_cost_measured_beside(&entry->model, one);
        es_json_write_object(json, NULL);
        es_json_write_text(json, "operation", one->operation);
        es_json_write_stated(json, "numbers", beside.numbers, "missing");
        es_json_write_stated(json, "bytes", one->bytes, "missing");
        es_json_write_stated(json, "rounds", one->rounds, "missing");
        es_json_write_stated(json, "seconds", one->seconds, "missing");
        es_json_write_object(json, "modelled_bytes");
        put_modelled(json, beside.modelled);
        es_json_write_end(json, "}}");
    }
    es_json_write_end(json, "]");
}

static void put_entry(es_json_writer *json, const es_cost_entry *entry,
                      const es_cost_entry *first)
{
    const es_cost_model *model = &entry->model;
    const es_flops flops = es_flops_forward(&model->shape, model->ctx);
    double counts[ES_N_COST_ITEMS];
    es_json_write_line(json);
    es_json_write_object(json, NULL);
    es_json_write_text(json, "title", entry->title);
    es_json_write_text(json, "path", entry->path);
    if (entry->path)
        es_json_write_size(json, "run", entry->number);
    put_model(json, model);
    es_json_write_measured(json, "eval_ppl", entry->eval_ppl);
    es_json_write_object(json, "flops");
    es_json_write_double(json, "ffn", flops.ffn);
    es_json_write_double(json, "attention", flops.attention);
    es_json_write_end(json, "}");
    put_inventory(json, model);
    es_cost_count(counts, model);
    put_items(json, "counts", counts);
    es_json_write_bool(json, "fitted", es_cost_is_fitted(model));
    es_json_write_text(json, "unmodelled", es_cost_unmodelled(model));
    put_cost(json, "communication_bytes", ES_COST_BYTES, model);
    put_cost(json, "latency_seconds", ES_COST_SECONDS, model);
    es_json_write_object(json, "saving");
    put_saving(json, "communication",
               es_cost_saving(ES_COST_BYTES, &first->model, model));
    put_saving(json, "latency",
               es_cost_saving(ES_COST_SECONDS, &first->model, model));
    es_json_write_end(json, "}");
    put_measured(json, entry);
    es_json_write_end(json, "}");
}

void es_cost_print_json(FILE *stream, const es_cost_entry *entries, size_t n)
{
    es_json_writer json = {.stream = stream};
    es_json_write_object(&json, NULL);
    es_json_write_integer(&json, "schema", 1);
    es_json_write_text(&json, "source",
                       "modelled from AERO (arXiv 2410.13060), tables 4 to 7");
    es_json_write_array(&json, "models");
    for (size_t i = 0; i < n; i++)
        put_entry(&json, &entries[i], &entries[0]);
    es_json_write_end(&json, "]}\n");
}
