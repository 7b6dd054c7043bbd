/* Implements the names, sizes and standard series of runs, and creates uuids
   and time stamps in the form that run files use. Does not use SQLite. */
#include "store/run.h"

#include "analyzer/heads/details.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>

const char *es_run_status_name(es_run_status status)
{
    static const char *const names[] = {"running", "finished", "failed",
                                        "stopped"};
    return (unsigned)status < 4 ? names[status] : "unknown";
}

const char *es_shape_name(es_shape shape)
{
    static const char *const names[] = {"run", "layer", "head"};
    return (unsigned)shape < 3 ? names[shape] : "unknown";
}

const char *es_phase_name(es_phase phase)
{
    static const char *const names[] = {"train", "eval"};
    return (unsigned)phase < 2 ? names[phase] : "unknown";
}

size_t es_shape_values(es_shape shape, int64_t n_layer, int64_t n_head)
{
    switch (shape) {
    case ES_SHAPE_RUN:
        return 1;
    case ES_SHAPE_LAYER:
        return (size_t)n_layer;
    case ES_SHAPE_HEAD:
        return (size_t)n_layer * (size_t)n_head;
    }
    return 0;
}

/* The standard series in addition to those of analyzer/heads. */
static const es_series_line others[] = {
    {"finite_rows", "rows", "number of attention rows without NaN or Inf",
     ES_SHAPE_HEAD},
    {"theta", "",
     "learnt threshold of a head in the entropy regularisation (EReg)",
     ES_SHAPE_HEAD},
    {"t_mean", "", "mean temperature of a head", ES_SHAPE_HEAD},
    {"t_min", "", "lowest temperature", ES_SHAPE_HEAD},
    {"t_max", "", "highest temperature", ES_SHAPE_HEAD},
    {"qk_clip", "", "factor by which QK-Clip scales the logits", ES_SHAPE_HEAD},
    {"alpha", "", "divisor of the FFN's output", ES_SHAPE_LAYER},
    {"beta", "", "factor of the residual connection", ES_SHAPE_LAYER},
    {"slope", "", "learnt slope of the activation", ES_SHAPE_LAYER},
    {"nan_activations", "activations",
     "number of activations that are not finite", ES_SHAPE_LAYER},
    {"act_rms", "", "root mean square of activations", ES_SHAPE_LAYER},
    {"router_entropy", "nats",
     "entropy of a router's probabilities, mean over "
     "tokens",
     ES_SHAPE_LAYER},
    {"load_balancing_loss", "",
     "number of experts times the sum, over the experts, of their share of "
     "choices times their mean probability; 1 if balanced",
     ES_SHAPE_LAYER},
    {"dropped_tokens", "", "share of choices beyond an expert's capacity",
     ES_SHAPE_LAYER},
    {"loss", "nats", "loss", ES_SHAPE_RUN},
    {"ce", "nats", "cross entropy, the loss without regularisation",
     ES_SHAPE_RUN},
    {"ereg", "nats^2", "entropy regularisation (part of the loss)",
     ES_SHAPE_RUN},
    {"range", "nats", "range losses (part of the loss)", ES_SHAPE_RUN},
    {"ce_exact", "nats", "cross entropy of exact inference", ES_SHAPE_RUN},
    {"accuracy", "", "share of images classified correctly", ES_SHAPE_RUN},
    {"lr", "", "learning rate", ES_SHAPE_RUN},
    {"grad_norm", "", "norm of the gradient", ES_SHAPE_RUN},
    {"tokens_per_s", "1/s", "speed", ES_SHAPE_RUN},
    {"loss_scale", "", "scale of the loss in float16", ES_SHAPE_RUN},
};

bool es_series_standard_at(es_series_line *out, size_t i)
{
    if (i < ES_N_HEAD_SERIES) {
        const es_head_statistic *head = &es_head_statistics[i];
        *out = (es_series_line){head->name, head->unit, head->title,
                                ES_SHAPE_HEAD};
        return true;
    }
    i -= ES_N_HEAD_SERIES;
    if (i < ES_N_DETAILS) {
        const es_detail_line *detail = &es_details[i];
        *out = (es_series_line){detail->name, detail->unit, detail->title,
                                es_detail_is_of_heads((es_detail)i)
                                    ? ES_SHAPE_HEAD
                                    : ES_SHAPE_LAYER};
        return true;
    }
    i -= ES_N_DETAILS;
    if (i >= sizeof others / sizeof *others)
        return false;
    *out = others[i];
    return true;
}

int es_series_standard(es_shape *shape, const char **unit, const char *name)
{
    es_series_line line;
    for (size_t i = 0; es_series_standard_at(&line, i); i++)
        if (strcmp(name, line.name) == 0) {
            *shape = line.shape;
            *unit = line.unit;
            return 1;
        }
    *shape = ES_SHAPE_RUN;
    *unit = "";
    return 0;
}

bool es_series_is_member(const char *name)
{
    const char *dot = strrchr(name, '.');
    return dot && dot > name && dot[1] &&
           strspn(dot + 1, "0123456789") == strlen(dot + 1);
}

bool es_uuid_is(const char *text)
{
    return strlen(text) == ES_UUID_SIZE - 1 &&
           strspn(text, "0123456789abcdefABCDEF-") == ES_UUID_SIZE - 1;
}

es_status es_uuid_make(char out[ES_UUID_SIZE])
{
    unsigned char b[16];
    ssize_t n;
    do
        n = getrandom(b, sizeof b, 0); /* getrandom returns such a small number
                                          of bytes completely or not at all */
    while (n < 0 && errno == EINTR);
    if (n != (ssize_t)sizeof b)
        return es_fail(ES_EIO, "cannot get random numbers: %s",
                       strerror(errno));
    b[6] = (unsigned char)(0x40 | (b[6] & 0x0f)); /* version 4 */
    b[8] = (unsigned char)(0x80 | (b[8] & 0x3f)); /* RFC 4122's variant */
    char *at = out;
    for (int i = 0; i < 16; i++) {
        if (i == 4 || i == 6 || i == 8 || i == 10)
            *at++ = '-';
        at += snprintf(at, 3, "%02x", b[i]);
    }
    return ES_OK;
}

void es_time_now(char out[ES_TIME_SIZE])
{
    struct timespec now;
    struct tm utc;
    char date[ES_TIME_SIZE - 8] = "1970-01-01T00:00:00";
    clock_gettime(CLOCK_REALTIME, &now);
    if (gmtime_r(&now.tv_sec, &utc))
        strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%S", &utc);
    snprintf(out, ES_TIME_SIZE, "%s.%03dZ", date,
             (int)(now.tv_nsec / 1000000 % 1000));
}
