/** The table behind settings.h, shared by its readers and its printers. */
#ifndef ES_SETTINGS_INTERNAL_H
#define ES_SETTINGS_INTERNAL_H

#include "hooks/trainer/settings/settings.h"

typedef enum es_setting_kind {
    ES_SETTING_FLAG,   /* bool */
    ES_SETTING_INT,    /* int */
    ES_SETTING_LONG,   /* int64_t, or uint64_t below 2^53 */
    ES_SETTING_REAL,   /* double */
    ES_SETTING_TEXT,   /* char[size] */
    ES_SETTING_CHOICE, /* an enum, by the name of its value */
    ES_SETTING_ARCH,   /* es_arch */
    ES_SETTING_FILE    /* a configuration file: no value of its own */
} es_setting_kind;

typedef struct es_setting {
    const char *name;
    char letter;
    const char *argument; /* as in es_option */
    const char *help;
    es_setting_kind kind;
    unsigned verbs; /* which commands take it */
    bool kept;      /* part of the configuration that a run keeps */
    size_t offset;  /* in es_settings */
    size_t size;    /* of a text */
    double low, high;
    const char *const *choices; /* in the order of the enum, then NULL */
} es_setting;

extern const es_setting es_setting_table[];
extern const size_t es_setting_count;

#define ES_SETTING_TEXT_MAX (ES_PATH_SIZE + 1)

/** The value as text, as es_setting_set reads it; "" if it has none. */
void es_setting_print(char *out, size_t size, const es_settings *settings,
                      const es_setting *setting);

/**
 * Reads a value.
 *
 *   where  what a message begins with: "--lr", "demo.conf:3: lr"
 *
 * ES_OK or ES_EUSAGE; for ES_SETTING_FILE what es_settings_read returns.
 */
es_status es_setting_set(es_settings *settings, const es_setting *setting,
                         const char *value, const char *where) ES_MUST_USE;

#endif
