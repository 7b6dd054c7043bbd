/**
 * Tests reading the description of layers in a configuration, both valid and
 * malformed.
 */
#include "store/layers.h"
#include "tests/support/recorded.h"
#include "tests/support/test.h"

/* Records a run of three layers with two heads each and the given
 * configuration, and reads its layers. */
static es_layers *layers_of(const char *config)
{
    es_run_info info = es_run_of(3, 2);
    es_layers *layers = NULL;
    info.config = config;
    info.ctx = 128;
    remove(run_db);
    es_recorded to = es_record(run_db, &info);
    es_record_end(&to, ES_RUN_FINISHED);
    es_record_close(&to);
    AUTO(es_reader) r = es_open_reader(run_db);
    es_assert_status(ES_EARGUMENT, "no run", es_reader_layers(&layers, r, 1));
    es_assert_ok(es_reader_layers(&layers, r, 0));
    return layers;
}

TEST(names_kinds_and_ceilings_are_read)
{
    es_layers *layers = layers_of(
        "{\"lr\": 1, \"layers\": ["
        "{\"name\": \"model.layers.0.self_attn\", \"kind\": \"window\","
        " \"ceiling\": 1.5}, null,"
        "{\"ceiling\": [2, null], \"kind\": \"linear\", \"later\": []}]}");
    static const double ceilings[] = {1.5, 1.5, NAN, NAN, 2, NAN};
    assert_non_null(layers);
    assert_string_equal(layers->list[0].name, "model.layers.0.self_attn");
    assert_int_equal(layers->list[0].kind, ES_LAYER_WINDOW);
    assert_null(layers->list[1].name);
    assert_int_equal(layers->list[1].kind, ES_LAYER_UNKNOWN);
    assert_int_equal(layers->list[2].kind, ES_LAYER_LINEAR);
    assert_true(layers->has_kinds);
    for (int i = 0; i < 6; i++)
        assert_true(near(layers->ceilings[i], ceilings[i], 0));
    assert_int_equal(layers->n_malformed, 0);
    es_layers_free(layers);
}

TEST(every_kind_has_a_name)
{
    for (int kind = 1; kind < ES_N_LAYER_KINDS; kind++) {
        char config[128];
        snprintf(config, sizeof config,
                 "{\"layers\":[null,null,{\"kind\":\"%s\"}]}",
                 es_layer_kind_name((es_layer_kind)kind));
        es_layers *layers = layers_of(config);
        assert_int_equal((int)layers->list[2].kind, kind);
        assert_null(layers->ceilings);
        es_layers_free(layers);
    }
}

/* Another program may use the name "layers" in its configuration for something
 * else. */
TEST(configurations_without_layer_objects_are_ignored)
{
    static const char *const configs[] = {
        NULL,
        "{}",
        "{\"layers\": 12}",
        "{\"layers\": \"12\"}",
        "{\"layers\": {\"name\": \"x\"}}",
        "{\"layers\": [64, 64, 64]}",
        "{\"layers\": []}",
        "{\"layers\": [null, null, null]}",
        "{\"a\": {\"layers\": [{\"kind\": \"full\"}, null, null]}}",
    };
    for (size_t i = 0; i < sizeof configs / sizeof *configs; i++)
        assert_null(layers_of(configs[i]));
}

TEST(malformed_members_are_counted_and_ignored)
{
    static const struct {
        const char *layers;
        size_t n_malformed;
        bool has_ceilings;
    } cases[] = {
        {"{\"kind\":\"full\"}", 1, false}, /* only one element, although the run
                                              has three layers */
        {"{\"kind\":\"full\"},null,null,null", 4, false},
        {"{},7,null", 1, false},
        {"{\"name\":1},{\"kind\":2},null", 2, false},
        {"{\"kind\":\"of tomorrow\"},null,null", 0, false},
        {"{\"ceiling\":\"2\"},{\"ceiling\":true},{\"ceiling\":{}}", 3, false},
        {"{\"ceiling\":-1},{\"ceiling\":1e999},null", 2, false},
        {"{\"ceiling\":[]},{\"ceiling\":[1]},{\"ceiling\":[1,2,3]}", 3, false},
        {"{\"ceiling\":[1,\"2\"]},{\"ceiling\":[[1],-2]},null", 3, true},
        {"{\"ceiling\":0},{\"ceiling\":null},{\"name\":null}", 0, true},
        {"{\"name\":\"\"},{\"kind\":\"\"},null", 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char config[256];
        snprintf(config, sizeof config, "{\"layers\":[%s]}", cases[i].layers);
        es_layers *layers = layers_of(config);
        assert_non_null(layers);
        assert_int_equal(layers->n_malformed, cases[i].n_malformed);
        assert_int_equal(layers->ceilings != NULL, cases[i].has_ceilings);
        assert_false(layers->has_kinds);
        for (int l = 0; l < 3; l++)
            assert_null(layers->list[l].name);
        es_layers_free(layers);
    }
}

TEST(runs_of_unknown_length_are_open_ended_unless_imported)
{
    static const struct {
        const char *config, *program;
        es_run_status status;
        bool is_open_ended;
    } cases[] = {
        {NULL, NULL, ES_RUN_FINISHED, true},
        {NULL, "entropyscan 1 (torch 2)", ES_RUN_FINISHED, true},
        {"{\"steps\": 20}", "entropyscan 1", ES_RUN_FINISHED, false},
        {NULL, "entropy-scan import 1", ES_RUN_FINISHED, false},
        {NULL, "entropy-scan import 1", ES_RUN_STOPPED, true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        es_run_info info = es_run_of(3, 2);
        info.config = cases[i].config;
        info.program = cases[i].program;
        remove(run_db);
        es_recorded to = es_record(run_db, &info);
        es_record_end(&to, cases[i].status);
        es_record_close(&to);
        AUTO(es_reader) r = es_open_reader(run_db);
        es_judge_run judged;
        es_assert_ok(es_reader_judged(&judged, r, 0, NULL));
        assert_int_equal(judged.is_open_ended, cases[i].is_open_ended);
        assert_int_equal(judged.n_layers, 3);
        assert_int_equal(judged.ctx, 0);
        assert_true(isnan(judged.ceiling));
    }
}

TEST_EACH(es_folder_make, es_folder_remove)
