/* Tests checkpoint files: a checkpoint restores a model with every bit, and
   damaged checkpoints are detected. */
#include "hooks/trainer/files/checkpoint.h"
#include "tests/support/scratch.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

/**
 * Architectures that together contain every kind of parameter of the trainer's
 * models.
 */
static const char *const archs[] = {"SM+LN+G",
                                    "EReg(SM(t)+LR(layer,0.2))",
                                    "EReg(SM(t)+ScFuFFNi1)",
                                    "SM+LR(global,0.3)",
                                    "SM+ScFFN",
                                    "SM(gate)+LN",
                                    "PSM(4)+WNorm(QKVO)+SNorm(FFN)"};
#define N_ARCHS (sizeof archs / sizeof *archs)

static es_settings settings_of(const char *arch)
{
    es_settings settings;
    es_settings_default(&settings, ES_VERB_TRAIN);
    settings.model = es_small_config(arch);
    settings.model.lambda = 0.1;
    settings.train.steps = 777;
    settings.train.lr = 0.0123456789;
    return settings;
}

/**
 * Performs one training step on the tokens of `s` and returns the step's loss.
 */
static double step(es_small_model *s, const es_settings *settings)
{
    es_small_gradients(s);
    es_small_update(s, &settings->train, 1e-2);
    return s->losses.loss;
}

static es_checkpoint_state state_after(int64_t n)
{
    return (es_checkpoint_state){
        .step = n,
        .uuid = "01234567-89ab-4def-8123-456789abcdef",
        .name = "a \"name\" \xc3\xa9",
        .tokens_checksum = UINT64_C(0xfedcba9876543210),
        .last = {.loss = 0.1, .ce = 1 / 3.0, .ereg = 1e-300, .range = 0.25},
        .eval = {.loss = (double)NAN, .ce = (double)NAN, .ereg = (double)NAN}};
}

static void save(es_small_model *s, const es_settings *settings)
{
    es_checkpoint_state state = state_after(3);
    es_assert_ok(
        es_checkpoint_write(es_scratch_file, s->model, settings, &state));
}

static es_checkpoint *open_file(void)
{
    es_checkpoint *opened;
    es_assert_ok(es_checkpoint_open(&opened, es_scratch_file));
    return opened;
}

/**
 * Writes a checkpoint of a model that was trained for three steps, and returns
 * the model.
 */
static es_small_model write_trained(const es_settings *settings)
{
    es_small_model s = es_small_open(&settings->model);
    for (int i = 0; i < 3; i++)
        step(&s, settings);
    save(&s, settings);
    return s;
}

/** Asserts that the parameters and moments of two models are equal. */
static void assert_same_numbers(es_model *a, es_model *b)
{
    float *x = malloc(1 << 20), *y = malloc(1 << 20);
    bool moved = false;
    assert_true(x && y);
    for (size_t i = 0; i < es_model_n_arrays(a); i++) {
        es_parameter p = es_model_parameter(a, i);
        assert_true(p.n * sizeof *x <= 1 << 20);
        es_assert_ok(es_model_get(a, i, x, p.n));
        es_assert_ok(es_model_get(b, i, y, p.n));
        assert_memory_equal(x, y, p.n * sizeof *x);
        for (int m = 0; m < 2; m++) {
            es_moment moment = (es_moment)m;
            es_assert_ok(es_model_get_moment(a, moment, i, x, p.n));
            es_assert_ok(es_model_get_moment(b, moment, i, y, p.n));
            assert_memory_equal(x, y, p.n * sizeof *x);
            moved = moved || x[0] != 0;
        }
    }
    assert_true(moved);
    free(x);
    free(y);
}

/* --- write and read
   -------------------------------------------------------- */

TEST(a_restored_model_continues_with_the_same_bits)
{
    for (size_t k = 0; k < N_ARCHS; k++) {
        es_settings settings = settings_of(archs[k]);
        AUTO_BY(es_small_close) es_small_model s = write_trained(&settings);
        AUTO_BY(es_small_close)
        es_small_model other = es_small_open(&settings.model);
        es_checkpoint *opened = open_file();
        es_assert_ok(es_checkpoint_load(other.model, opened));
        es_checkpoint_close(opened);
        assert_same_numbers(s.model, other.model);
        assert_int_equal(es_model_n_updates(other.model), 3);
        for (int i = 0; i < 3; i++)
            assert_true(step(&s, &settings) == step(&other, &settings));
        assert_same_numbers(s.model, other.model);
    }
}

/* Tests the conversion of temperatures.safetensors, a checkpoint that
   entropy-train 0.1.0 wrote after three steps with --t-init 0.0015. That
   version trained the temperature t itself instead of its logarithm, and
   treated values below 1e-4 as 1e-4; a temperature below this bound had no
   gradient. */
static void check_converted(es_model *model, const es_checkpoint *file,
                            size_t array, const char *old, int order)
{
    const char *const parts[] = {"", "optimizer.m.", "optimizer.v."};
    float t[12], was[12], is[12];
    char name[64];
    const es_tensor *tensor = es_safetensors_find(file->file, old);
    assert_non_null(tensor);
    es_assert_ok(es_safetensors_read(file->file, tensor, t, 0, 12));
    snprintf(name, sizeof name, "%s%s", parts[order], old);
    tensor = es_safetensors_find(file->file, name);
    es_assert_ok(es_safetensors_read(file->file, tensor, was, 0, 12));
    es_assert_ok(order == 0 ? es_model_get(model, array, is, 12)
                            : es_model_get_moment(model, (es_moment)(order - 1),
                                                  array, is, 12));
    for (int i = 0; i < 12; i++) {
        const double used = fmax((double)t[i], (double)1e-4f);
        const double want =
            order == 0 ? log(used) : (double)was[i] * pow(used, order);
        assert_true(fabs((double)is[i] - want) <= 1e-6 * fabs(want));
        assert_true(order == 0 || i % 6 == 0 || is[i] != 0);
    }
}

TEST(temperatures_of_an_older_file_become_logarithms)
{
    es_checkpoint *file = NULL;
    es_model *model = NULL;
    es_assert_ok(
        es_checkpoint_open(&file, "tests/files/temperatures.safetensors"));
    es_assert_ok(es_model_new(&model, &file->settings.model, &es_cpu_ops, 1));
    es_assert_ok(es_checkpoint_load(model, file));
    int n = 0;
    for (size_t i = 0; i < es_model_n_arrays(model); i++) {
        const char *name = es_model_parameter(model, i).name;
        if (!strstr(name, "log_t"))
            continue;
        for (int order = 0; order < 3; order++)
            check_converted(model, file, i,
                            name[2] == '0' ? "h.0.attn.t" : "h.1.attn.t",
                            order);
        n++;
    }
    assert_int_equal(n, 2);
    es_model_free(model);
    es_checkpoint_close(file);
}

TEST(the_settings_and_state_are_restored)
{
    es_settings settings = settings_of(archs[1]);
    settings.train.slope_decay = true;
    settings.model.seed = UINT64_C(9007199254740992);
    snprintf(settings.data, sizeof settings.data, "/a/\"b\"/c.tok");
    AUTO_BY(es_small_close) es_small_model s = write_trained(&settings);
    es_checkpoint *opened = open_file();
    es_checkpoint_state want = state_after(3);
    const es_checkpoint_state *got = &opened->state;
    assert_string_equal(opened->file->path, es_scratch_file);
    assert_int_equal(got->step, 3);
    assert_string_equal(got->uuid, want.uuid);
    assert_string_equal(got->name, want.name);
    assert_int_equal(got->tokens_checksum, want.tokens_checksum);
    assert_int_equal(got->threads, es_model_n_threads(s.model));
    assert_memory_equal(&got->last, &want.last, sizeof want.last);
    assert_true(isnan(got->eval.loss) && isnan(got->eval.ereg));
    AUTO_FREE char *written = es_settings_json(&settings, 1);
    AUTO_FREE char *read = es_settings_json(&opened->settings, 1);
    assert_string_equal(written, read);
    assert_string_equal(opened->settings.name, want.name);
    es_checkpoint_close(opened);
}

TEST(tensors_have_the_documented_names)
{
    es_settings settings = settings_of(archs[0]);
    AUTO_BY(es_small_close) es_small_model s = write_trained(&settings);
    es_safetensors *opened;
    es_assert_ok(es_safetensors_open(&opened, es_scratch_file));
    assert_true(es_checkpoint_is_ours(opened));
    assert_string_equal(es_safetensors_metadata(opened, "step"), "3");
    const es_tensor *weight =
        es_safetensors_find(opened, "h.1.attn.c_attn.weight");
    assert_non_null(weight);
    assert_int_equal(weight->dims[0], 12);
    assert_int_equal(weight->dims[1], 36);
    assert_non_null(
        es_safetensors_find(opened, "optimizer.m.h.1.attn.c_attn.weight"));
    assert_non_null(es_safetensors_find(opened, "optimizer.v.wte"));
    assert_null(es_safetensors_find(opened, "optimizer.m.h.0.mlp.alpha"));
    es_safetensors_close(opened);
}

/* --- damage -------------------------------------------------------------- */

static void expect_refusal(es_status code, const char *word)
{
    es_checkpoint *opened = (void *)es_scratch_file;
    assert_int_equal(es_checkpoint_open(&opened, es_scratch_file), code);
    assert_null(opened);
    assert_ptr_equal(strstr(es_message(), es_scratch_file), es_message());
    if (!strstr(es_message(), word))
        fail_msg("\"%s\" does not contain \"%s\"", es_message(), word);
}

static void flip(long at, int bits)
{
    FILE *changed = fopen(es_scratch_file, "r+b");
    assert_non_null(changed);
    assert_int_equal(fseek(changed, at, SEEK_SET), 0);
    int byte = fgetc(changed);
    assert_int_equal(fseek(changed, at, SEEK_SET), 0);
    assert_int_equal(fputc(byte ^ bits, changed), byte ^ bits);
    assert_int_equal(fclose(changed), 0);
}

TEST(a_flipped_bit_anywhere_is_found)
{
    struct stat info;
    es_settings settings = settings_of(archs[2]);
    AUTO_BY(es_small_close) es_small_model s = write_trained(&settings);
    assert_int_equal(stat(es_scratch_file, &info), 0);
    int n = 0;
    for (long at = 0; at < info.st_size; at += at < 2000 ? 1 : 97, n++) {
        es_checkpoint *opened;
        flip(at, 1 << at % 8);
        if (es_checkpoint_open(&opened, es_scratch_file) == ES_OK)
            fail_msg("flip not detected: bit %ld of byte %ld", at % 8, at);
        flip(at, 1 << at % 8);
    }
    assert_true(n > 2000);
    es_checkpoint_close(open_file());
}

TEST(a_truncated_file_is_refused)
{
    struct stat info;
    es_settings settings = settings_of(archs[0]);
    AUTO_BY(es_small_close) es_small_model s = write_trained(&settings);
    assert_int_equal(stat(es_scratch_file, &info), 0);
    assert_int_equal(truncate(es_scratch_file, info.st_size - 1), 0);
    expect_refusal(ES_EFORMAT, "cut short");
    assert_int_equal(truncate(es_scratch_file, 100), 0);
    expect_refusal(ES_EFORMAT, "cut short");
}

TEST(files_of_other_programs_are_refused)
{
    const es_tensor_note newer = {"entropy_train_checkpoint", "2"};
    const es_tensor_note odd = {"entropy_train_checkpoint", "1"};
    es_assert_ok(es_safetensors_write(es_scratch_file, NULL, 0, NULL, 0));
    expect_refusal(ES_EFORMAT, "not a checkpoint of entropy-train");
    es_assert_ok(es_safetensors_write(es_scratch_file, NULL, 0, &newer, 1));
    expect_refusal(ES_EVERSION,
                   "version 2: this program reads versions up to 1");
    es_assert_ok(es_safetensors_write(es_scratch_file, NULL, 0, &odd, 1));
    expect_refusal(ES_EFORMAT, "damaged");
}

TEST(a_checkpoint_of_another_shape_is_refused)
{
    es_settings settings = settings_of(archs[0]);
    AUTO_BY(es_small_close) es_small_model s = write_trained(&settings);
    static const struct {
        const char *arch, *word;
    } others[] = {{"SM+G", "the model has"},
                  {"SM(t)+LN+G", "tensor h.0.attn.log_t is missing"},
                  {"SM+LN+ScFuFFN", "tensor h.0.mlp.w.weight is missing"}};
    es_checkpoint *opened = open_file();
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        es_model_config config = es_small_config(others[i].arch);
        AUTO_BY(es_small_close) es_small_model other = es_small_open(&config);
        assert_int_equal(es_checkpoint_load(other.model, opened), ES_EFORMAT);
        if (!strstr(es_message(), others[i].word))
            fail_msg("%s", es_message());
    }
    es_model_config longer = settings.model;
    longer.ctx++;
    AUTO_BY(es_small_close) es_small_model other = es_small_open(&longer);
    es_assert_status(ES_EFORMAT, "wpe does not have the model's shape",
                     es_checkpoint_load(other.model, opened));
    es_checkpoint_close(opened);
}

TEST(a_model_with_nan_does_not_replace_a_good_checkpoint)
{
    es_settings settings = settings_of(archs[0]);
    AUTO_BY(es_small_close) es_small_model s = write_trained(&settings);
    es_checkpoint_state now = state_after(4);
    es_parameter wte = es_model_parameter(s.model, 0);
    AUTO_FREE float *values = calloc(wte.n, sizeof *values);
    values[17] = NAN;
    es_assert_ok(
        es_model_set_moment(s.model, ES_MOMENT_SECOND, 0, values, wte.n));
    es_assert_status(
        ES_EFORMAT, "number 17 of wte is not finite",
        es_checkpoint_write(es_scratch_file, s.model, &settings, &now));
    es_checkpoint *opened = open_file();
    assert_int_equal(opened->state.step, 3);
    es_checkpoint_close(opened);
}

TEST_GROUP(es_scratch_open, es_scratch_close)
