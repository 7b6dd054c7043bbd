#include "hooks/trainer/settings/settings_internal.h"

#include "analyzer/base/json_write.h"
#include "analyzer/base/text.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

void es_setting_print(char *out, size_t size, const es_settings *settings,
                      const es_setting *setting)
{
    const void *at = (const char *)settings + setting->offset;
    char number[ES_FLOAT_TEXT_MAX];
    switch (setting->kind) {
    case ES_SETTING_FLAG:
        snprintf(out, size, *(const bool *)at ? "true" : "false");
        break;
    case ES_SETTING_INT:
        snprintf(out, size, "%d", *(const int *)at);
        break;
    case ES_SETTING_LONG:
        snprintf(out, size, "%" PRId64, *(const int64_t *)at);
        break;
    case ES_SETTING_REAL:
        snprintf(out, size, "%s", es_double_print(number, *(const double *)at));
        break;
    case ES_SETTING_TEXT:
        snprintf(out, size, "%s", (const char *)at);
        break;
    case ES_SETTING_CHOICE:
        snprintf(out, size, "%s", setting->choices[*(const int *)at]);
        break;
    case ES_SETTING_ARCH:
        es_arch_print(out, size, at);
        break;
    case ES_SETTING_FILE:
        snprintf(out, size, "%s", "");
        break;
    }
}

static bool is_of_model(const es_setting *setting)
{
    return setting->offset < offsetof(es_settings, train);
}

/** Says what is trained and how. */
static bool is_kept(const es_setting *setting, const es_settings *settings)
{
    if (settings->verb == ES_VERB_PROBE)
        return setting->kept &&
               (is_of_model(setting) || (setting->verbs & ES_VERB_PROBE));
    return setting->kept && (setting->verbs & ES_VERB_TRAIN);
}

/* --- JSON ---------------------------------------------------------------- */

static bool is_text(es_setting_kind kind)
{
    return kind == ES_SETTING_TEXT || kind == ES_SETTING_CHOICE ||
           kind == ES_SETTING_ARCH;
}

static void put_member(es_json_writer *json, const es_settings *settings,
                       const es_setting *setting)
{
    char name[64], value[ES_SETTING_TEXT_MAX];
    es_setting_print(value, sizeof value, settings, setting);
    if (!*value)
        return; /* a text that was not given */
    snprintf(name, sizeof name, "%s", setting->name);
    for (char *c = name; *c; c++)
        if (*c == '-')
            *c = '_';
    if (is_text(setting->kind))
        es_json_write_text(json, name, value);
    else
        es_json_write_json(json, name, value);
}

static char *print_json(const es_settings *settings, uint64_t tokens_checksum,
                        const char *slurm_job)
{
    char *text = NULL;
    size_t size = 0;
    es_json_writer json = {.stream = open_memstream(&text, &size)};
    if (!json.stream)
        return NULL;
    es_json_write_object(&json, NULL);
    if (settings->verb == ES_VERB_PROBE)
        es_json_write_text(&json, "verb", "probe");
    for (size_t i = 0; i < es_setting_count; i++)
        if (is_kept(&es_setting_table[i], settings))
            put_member(&json, settings, &es_setting_table[i]);
    if (*slurm_job)
        es_json_write_text(&json, "slurm_job", slurm_job);
    es_json_write_format(&json, "tokens_checksum", "%016" PRIx64,
                         tokens_checksum);
    es_json_write_end(&json, "}");
    if (fclose(json.stream) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

char *es_settings_json(const es_settings *settings, uint64_t tokens_checksum)
{
    return print_json(settings, tokens_checksum, "");
}

/** A variable that holds digits and nothing else; NULL otherwise. */
static const char *number_in(const char *variable)
{
    const char *text = getenv(variable);
    bool is_number = text && *text && !text[strspn(text, "0123456789")];
    return is_number ? text : NULL;
}

char *es_settings_json_of_run(const es_settings *settings,
                              uint64_t tokens_checksum)
{
    char slurm_job[64] = "";
    const char *job = number_in("SLURM_JOB_ID");
    const char *array = number_in("SLURM_ARRAY_JOB_ID");
    const char *task = number_in("SLURM_ARRAY_TASK_ID");
    if (array && task)
        snprintf(slurm_job, sizeof slurm_job, "%.30s_%.30s", array, task);
    else if (job)
        snprintf(slurm_job, sizeof slurm_job, "%.30s", job);
    return print_json(settings, tokens_checksum, slurm_job);
}

/* --- a configuration file ------------------------------------------------ */

void es_settings_write(FILE *out, const es_settings *settings)
{
    for (size_t i = 0; i < es_setting_count; i++) {
        const es_setting *setting = &es_setting_table[i];
        char value[ES_SETTING_TEXT_MAX];
        es_setting_print(value, sizeof value, settings, setting);
        if (is_kept(setting, settings) && *value)
            fprintf(out, "%s = %s\n", setting->name, value);
    }
}

/* --- help ---------------------------------------------------------------- */

#define HELP_SIZE 160

/** A verb's options with their defaults, built when first asked for. */
typedef struct verb_table {
    es_command command;
    es_option options[ES_MAX_SETTINGS];
    char help[ES_MAX_SETTINGS][HELP_SIZE];
} verb_table;

/* Of every verb that has the option. */
#define EMULATION                                                              \
    "--emulate fp16 rounds what the forward pass of half precision keeps,\n"   \
    "to the nearest and from 65520 on to infinity: the sum of embeddings,\n"   \
    "the outputs of LayerNorm, q, k and v (before and after Pythia's\n"        \
    "rotation), q.k before it is scaled, the heads' outputs, the residual\n"   \
    "stream after every sub-block, what goes into and comes out of an FFN's\n" \
    "activation, a scaled FFN's output, and the logits of the loss.\n"         \
    "Products are summed in fp32; softmax, the loss, parameters, gradients\n"  \
    "and the optimiser stay fp32; a gradient passes a rounding unchanged.\n\n"

static const char train_details[] =
    "Progress shows the heads as a bar, from the lowest entropy to the\n"
    "highest: '_' below a quarter of the ceiling ln(T!)/T, '-' below half,\n"
    "'=' below three quarters, '#' above, '!' not finite.\n\n" EMULATION
    "A file RUN.db.stop beside the run file asks the training to stop.\n\n"
    "--checkpoint DIR keeps the last checkpoints of the run there, as\n"
    "NAME-STEP.safetensors: every --checkpoint-every steps, at the end and\n"
    "at a stop, but none once a loss or a gradient is not finite. --resume\n"
    "goes on with one: its settings, and what the options beside it change,\n"
    "in the run file that --out names. What the model is cannot change, nor\n"
    "can the data. Under another --name it becomes a run of its own.\n\n"
    "--backend cuda needs libentropytrain_cuda.so beside the program, or the\n"
    "file that ENTROPY_TRAIN_CUDA names, and a device. Parameters, optimiser,\n"
    "statistics and sums are fp32 or better in every --precision; the loss of\n"
    "fp16 is scaled: loss_scale is recorded, and a step that overflows is "
    "left\n"
    "out.\n\n"
    "Exit codes: 0 all steps done, or stopped by such a file; 1 the loss was\n"
    "no longer finite; 2 usage; 3 an input or output failed; 128+N ended by\n"
    "signal N, the run closed as stopped. A checkpoint that is missing is a 3.";

static const char verify_details[] =
    "Each DIR holds one case: parameters, one micro-batch, and the expected\n"
    "logits, losses, entropies and gradients. Prints a line for each case, "
    "and\n"
    "one for each array that is off: by more than 1e-4 of its norm in fp32,\n"
    "0.03 in tf32 and fp16, 0.25 in bf16, and a little more where that is 0.\n"
    "\n"
    "Exit codes: 0 all cases pass, 1 one does not or cannot be built yet,\n"
    "2 usage, 3 an input failed.";

static const char bench_details[] =
    "Trains on random tokens and takes single steps by turns, with recording\n"
    "at every step and without measuring or recording. Prints tokens/s and\n"
    "the share of a step that recording takes: the median of the differences\n"
    "within pairs over the median of the steps without, and the interval that\n"
    "holds that median with 95 % confidence.";

static const char probe_details[] =
    "Runs the held-out part of the data forward through a model that exists:\n"
    "a checkpoint of entropy-train, or GPT-2 or GPT-NeoX (Pythia) weights as\n"
    "Hugging Face's library saves them. Records loss, heads and layers as one\n"
    "evaluation, and prints loss, perplexity and each layer's entropy, with\n"
    "their standard deviation over the micro-batches.\n\n"
    "The token file has to be made with the model's own tokenizer:\n"
    "entropy-corpus --ids packs ids from elsewhere. What is not given is as\n"
    "the file of weights says, --ctx the longest it has positions for.\n"
    "\n" EMULATION
    "Exit codes: 0 fine, 1 the loss was not finite, 2 usage, 3 an input or\n"
    "output failed, 128+N ended by signal N.";

/* What a verb is called and takes, but for its options; in the order of
 * es_verb. */
static const es_command described[] = {
    {.name = "entropy-train",
     .synopsis = "[train] --arch ARCH --data FILE --out FILE [OPTION...]\n"
                 "       entropy-train VERB [OPTION...]",
     .summary = "train a transformer, record its attention entropy",
     .details = train_details},
    {.name = "entropy-train verify",
     .synopsis = "[OPTION...] DIR...",
     .summary = "compare a back-end with reference cases",
     .details = verify_details},
    {.name = "entropy-train bench",
     .synopsis = "[OPTION...]",
     .summary = "speed of training, and what recording costs",
     .details = bench_details},
    {.name = "entropy-train probe",
     .synopsis = "CHECKPOINT --data FILE --out FILE [OPTION...]",
     .summary = "record the heads of an existing model",
     .details = probe_details},
};
#define N_COMMANDS (sizeof described / sizeof *described)

static void describe_option(verb_table *table, const es_setting *setting,
                            const es_settings *defaults)
{
    size_t i = table->command.n_options++;
    char value[ES_SETTING_TEXT_MAX];
    es_setting_print(value, sizeof value, defaults, setting);
    /* A probe's model is what its file of weights says. */
    bool open = defaults->verb == ES_VERB_PROBE && is_of_model(setting);
    bool shown = *value && setting->kind != ES_SETTING_FLAG && !open;
    snprintf(table->help[i], HELP_SIZE, shown ? "%s (%.60s)" : "%s",
             setting->help, value);
    table->options[i] = (es_option){setting->name, setting->letter,
                                    setting->argument, table->help[i]};
}

const es_command *es_settings_command(es_verb verb)
{
    static verb_table tables[N_COMMANDS];
    size_t place = 0;
    while ((unsigned)verb >> place > 1)
        place++;
    verb_table *table = &tables[place];
    if (table->command.name)
        return &table->command;
    es_settings defaults;
    es_settings_default(&defaults, verb);
    table->command = described[place];
    for (size_t i = 0; i < es_setting_count; i++)
        if (es_setting_table[i].verbs & verb)
            describe_option(table, &es_setting_table[i], &defaults);
    table->command.options = table->options;
    return &table->command;
}

const es_command es_settings_help_command = {
    .name = "entropy-train help",
    .synopsis = ES_HELP_SYNOPSIS,
    .summary = ES_HELP_SUMMARY,
    .options = es_help_options,
    .n_options = ES_N_HELP_OPTIONS,
};

const es_program *es_settings_program(void)
{
    static const es_command *commands[N_COMMANDS + 1];
    static const es_program program = {commands, N_COMMANDS + 1};
    for (size_t i = 0; i < N_COMMANDS; i++)
        commands[i] = es_settings_command((es_verb)(1 << i));
    commands[N_COMMANDS] = &es_settings_help_command;
    return &program;
}
