/**
 * Declares every option of entropy-train. One table defines the options for the
 * command line, the configuration file, --help and the configuration that is
 * stored with a run.
 */
#ifndef ES_SETTINGS_H
#define ES_SETTINGS_H

#include "analyzer/base/help.h"
#include "hooks/entropyscan.h"
#include "hooks/trainer/cpu/engine.h"
#include "hooks/trainer/cpu/products.h"
#include "hooks/trainer/model/config.h"
#include "hooks/trainer/model/ops.h"
#include "hooks/trainer/settings/presets.h"
#include <stdio.h>

#define ES_PATH_SIZE 4096
#define ES_RUN_NAME_SIZE 256
/* maximum size of a configuration file in bytes */
#define ES_SETTINGS_FILE_MAX (1 << 20)

typedef enum es_verb {
    ES_VERB_TRAIN = 1,
    ES_VERB_VERIFY = 2,
    ES_VERB_BENCH = 4,
    ES_VERB_PROBE = 8,
    ES_VERB_FUSE = 16
} es_verb;

typedef struct es_settings {
    /* sizes of the model; a vocab of 0 means the vocabulary size of the token
     * file */
    es_model_config model;
    es_train_config train;
    char data[ES_PATH_SIZE], out[ES_PATH_SIZE]; /* "" if not given */
    char name[ES_RUN_NAME_SIZE];                /* "" if not given */
    char checkpoint[ES_PATH_SIZE]; /* folder for checkpoints; "": none are
                                      written */
    char resume[ES_PATH_SIZE]; /* checkpoint file or folder to resume from; "":
                                  start a new run */
    /* steps between checkpoints; 0: only at the end */
    int64_t checkpoint_every;
    int64_t keep;     /* number of latest checkpoints to keep; 0: all */
    char backend[16]; /* "cpu", "cuda" or "auto" */
    es_precision precision;
    es_products_choice products; /* library of matrix products on the CPU;
                                    es_products_use resolves "auto" */
    /* as given by the user, then as resolved by es_launch_settle */
    int world, rank;
    char rendezvous[ES_PATH_SIZE]; /* file through which ranks find each other,
                                      as given or as resolved */
    double rank_timeout;           /* seconds */
    bool fixed_order; /* always add up the ranks' gradients in the order of the
                         data */
    int threads;      /* number of threads; 0: the number of available
                         processors */
    es_series_set record;
    es_store store;
    int64_t record_every;
    int64_t eval_every; /* steps between evaluations; 0: no evaluations */
    int64_t eval_batches;
    int64_t after_nan;
    int64_t log_every; /* steps between progress lines; 0: about twenty lines in
                          total */
    int64_t pairs;     /* number of pairs of steps that bench compares */
    int maps;          /* cells per side of attention maps; 0: no maps */
    bool map_heads;    /* also record an attention map of each head */
    int64_t map_count; /* number of evaluations that record maps */
    /* inference in evaluations: exact, or with polynomials */
    es_inference inference;
    /* parameters that --inference polynomial uses to choose polynomials */
    es_approximation_choice polynomial;
    int64_t poly_batches; /* number of micro-batches that calibrate the
                             polynomials */
    double ceiling; /* maximum entropy in nats of heads that are not causal; 0:
                       the causal ceiling */
    /* probe: use batches from random positions, which the seed determines */
    bool random;
    bool no_record, dry_run, quiet, help, version;
    char init[ES_PATH_SIZE];  /* file of initial weights; "": draw them from the
                                 seed */
    char fused[ES_PATH_SIZE]; /* fuse: checkpoint to write; "" if not given */
    es_layer_set drop;        /* fuse: layers that lose their FFN */
    char preset[ES_PRESET_NAME_SIZE]; /* name of a preset; "": none; "list":
                                         print all names */
    es_verb verb;                     /* the verb that these settings belong
                                         to */
    char **cases;                     /* the n_cases arguments of verify; owned
                                         by this struct */
    size_t n_cases;
    bool given[ES_MAX_OPTIONS]; /* indexed by row of es_settings_table: true if
                                   an option or a configuration file has set it
                                 */
} es_settings;

/** Sets the defaults: the settings of the papers, for a small model. The
 *  defaults of the verb bench are 6 layers, 8 heads, width 256, batch 8 and
 *  context 128. */
void es_settings_default(es_settings *out, es_verb verb);

/** Tags of an option in the table of options, in addition to its verbs. KEPT:
 *  the setting is stored in the configuration of a run. OF_WEIGHTS: probe and
 *  fuse read the setting from the weights file unless the user gives it. */
#define ES_SETTING_KEPT (1u << 8)
#define ES_SETTING_OF_WEIGHTS (1u << 9)

/** The table of all options of all verbs. An entry without an option name is a
 *  positional argument, or is unused (at the end of the table). */
#define ES_N_SETTINGS ES_MAX_OPTIONS
extern const es_option es_settings_table[ES_N_SETTINGS];

/** Returns the default settings of the command's verb in static memory; not
 *  thread-safe. */
const void *es_settings_defaults(const es_command *command);

/** Initialises the members of a verb's es_command that concern options. */
#define ES_SETTINGS_OPTIONS(verb)                                              \
    .options = es_settings_table, .n_options = ES_N_SETTINGS, .takes = verb,   \
    .hides =                                                                   \
        (verb) & (ES_VERB_PROBE | ES_VERB_FUSE) ? ES_SETTING_OF_WEIGHTS : 0,   \
    .defaults = es_settings_defaults

/**
 * Reads argv[1..argc) into `settings`, according to the verb. Later options
 * override earlier ones. The options of a --config file take effect at the
 * position of --config. The options of a --preset only apply where no other
 * source sets them, and not at all if a training run is resumed.
 *
 * Returns ES_OK; ES_EUSAGE (the message names the option, or file and line);
 * ES_EIO (the configuration file cannot be read); ES_ENOMEM.
 */
es_status es_settings_parse(es_settings *settings, int argc,
                            char **argv) ES_MUST_USE;

/**
 * Reads a configuration file: each line is `name = value` with the name of an
 * option ('_' may stand for '-'); the value of a flag is true or false. Blank
 * lines and text after a '#' are skipped. The file is read by es_infile_load.
 *
 * Returns ES_OK; ES_EUSAGE (the message names file and line; also if the file
 * is larger than ES_SETTINGS_FILE_MAX); ES_EIO; ES_ENOMEM.
 */
es_status es_settings_read(es_settings *settings, const char *path) ES_MUST_USE;

/** Writes the run's name: the value of --name, else the run file's name without
 *  folder and ".db", else "run". */
void es_settings_run_name(char out[ES_RUN_NAME_SIZE],
                          const es_settings *settings);

/** Checks that the verb train has all required options and that no two options
 *  are mutually exclusive. A dry run needs neither data nor output. Returns
 *  ES_OK or ES_EUSAGE. */
es_status es_settings_check(const es_settings *settings) ES_MUST_USE;

/**
 * Returns the resolved configuration as one JSON object, which the caller
 * frees: every setting that determines what is trained and how, with '_' for
 * '-' in its name. String options that were not given are left out. "steps" is
 * the number of planned steps and is absent in a probe ("verb": "probe");
 * "tokens_checksum" (16 hexadecimal digits) identifies the data. NULL if out of
 * memory.
 */
char *es_settings_json(const es_settings *settings, uint64_t tokens_checksum);

/**
 * Like es_settings_json, with a description of the machine. "slurm_job" is
 * present if this process belongs to a Slurm job. Its value, "4711" or for a
 * job array "4711_3", has the form that scancel and squeue accept. If `engine`
 * is not NULL, "products" names the library of matrix products with its
 * kernels, and "kernels" names the kernels of this program (cpu/engine.h).
 */
char *es_settings_json_of_run(const es_settings *settings,
                              uint64_t tokens_checksum,
                              const es_cpu_engine *engine);

/**
 * Reads the output of es_settings_json into `settings`.
 *
 *   tokens_checksum  output
 *   where            beginning of error messages: the file's path
 *
 * Returns ES_OK; ES_EFORMAT; ES_EVERSION (this program does not know a
 * setting).
 */
es_status es_settings_read_json(es_settings *settings,
                                uint64_t *tokens_checksum, const char *json,
                                const char *where) ES_MUST_USE;

/** Writes the settings as lines that es_settings_read can read back, except for
 *  a data path that contains '#'. */
void es_settings_write(FILE *out, const es_settings *settings);

/* --- single rows of the table -------------------------------------------- */

#define ES_SETTING_TEXT_MAX (ES_PATH_SIZE + 1)

/** Returns the row of the option with this name, or NULL. */
const es_option *es_setting_find(const char *name);

/** Returns true if the setting is part of the configuration that is stored with
 *  every run, or at least with runs of this verb. */
bool es_setting_is_kept(const es_option *setting, const es_settings *settings);

/** Returns true if the setting describes the model. */
bool es_setting_is_of_model(const es_option *setting);

/** Same as es_option_set, but also marks the setting in settings->given. */
es_status es_setting_set(es_settings *settings, const es_option *setting,
                         const char *value, const char *where) ES_MUST_USE;

/**
 * Sets the stored setting whose JSON name is `name`, with '_' for '-'.
 *
 *  value  read with JSON_DECODE_INT_AS_REAL; NULL: the setting is missing
 *  where  beginning of error messages: the file's path
 *
 * Returns ES_OK; ES_EFORMAT; ES_EVERSION if there is no such setting.
 */
struct json_t;
es_status es_setting_read_member(es_settings *settings, const char *name,
                                 const struct json_t *value,
                                 const char *where) ES_MUST_USE;

#endif
