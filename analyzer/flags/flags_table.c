/* Contains the facts about each kind of flag in one table: its name, meaning,
   causes and remedies, with sources. A second table holds the thresholds of all
   kinds, with their defaults. Used by code that prints, explains or reads flags
   and thresholds. */
#include "analyzer/flags/flags.h"

#include "analyzer/base/text.h"

#include <string.h>

#define OPT                                                                    \
    "OPT: Zhang et al. 2022, Open Pre-trained Transformer Language "           \
    "Models, arXiv:2205.01068"
#define AERO                                                                   \
    "AERO: Jha and Reagen 2024, Softmax-Only LLMs for Efficient Private "      \
    "Inference, arXiv:2410.13060"
#define WORTSMAN                                                               \
    "Wortsman 2023: Wortsman et al., Small-scale proxies for large-scale "     \
    "Transformer training instabilities, arXiv:2309.14322"
#define DEHGHANI                                                               \
    "Dehghani 2023: Dehghani et al., Scaling Vision Transformers to 22 "       \
    "Billion Parameters, arXiv:2302.05442"
#define REPLICATION                                                            \
    "samples/results/replication-cpu.md: 12 layers at three learning rates, "  \
    "measured with this program"
#define TRUTH                                                                  \
    "samples/results/truth.md: the papers' claims at small scale, measured "   \
    "with this program"

/* The fields are positional, so that a row without a meaning, causes, remedies
   or sources does not compile. A source begins with the name by which the
   causes and remedies cite it. */
static const es_flag_info infos[] = {
    {"nan",
     ES_SEVERITY_CRITICAL,
     ES_SEVERITY_CRITICAL,
     "a loss, an activation or a row of attention is NaN or infinite",
     "A value exceeded the range of its type, which is narrow in fp16 "
     "(Micikevicius 2018); often attention collapsed before "
     "(samples/results/replication-cpu.md); in models without LayerNorm and "
     "activation, the last layers collapse first (AERO).",
     "Continue from a checkpoint before the onset with a lower learning rate "
     "(OPT); train in bf16, which has the range of fp32 (Kalamkar 2019), or in "
     "fp16 with a loss scale, and skip updates whose gradients overflow "
     "(Micikevicius 2018).",
     {"Micikevicius 2018: Micikevicius et al., Mixed Precision Training, "
      "arXiv:1710.03740",
      "Kalamkar 2019: Kalamkar et al., A Study of BFLOAT16 for Deep Learning "
      "Training, arXiv:1905.12322",
      OPT, AERO, REPLICATION}},
    {"collapse",
     ES_SEVERITY_CRITICAL,
     ES_SEVERITY_CRITICAL,
     "in some layer most heads have almost no entropy left, or far less than "
     "before",
     "Attention logits grow until each query attends to almost one key (Zhai "
     "2023, Dehghani 2023), especially at high learning rates (Wortsman 2023, "
     "samples/results/replication-cpu.md); in models without LayerNorm and "
     "activation, the last layers collapse first (AERO).",
     "Lower the learning rate, or lengthen its warm-up (Wortsman 2023); "
     "normalise queries and keys (Dehghani 2023), or divide weights by their "
     "spectral norms (Zhai 2023); in models without LayerNorm, normalise the "
     "weights of the FFN (AERO, samples/results/replication-cpu.md).",
     {"Zhai 2023: Zhai et al., Stabilizing Transformer Training by Preventing "
      "Attention Entropy Collapse, arXiv:2303.06296",
      DEHGHANI, WORTSMAN, AERO, REPLICATION}},
    {"overload",
     ES_SEVERITY_WARNING,
     ES_SEVERITY_ERROR,
     "many heads stay near the ceiling: they attend to all keys almost equally",
     "All heads start near the ceiling, and early in training most are still "
     "there (analyzer/flags/README.md). In models without LayerNorm, many "
     "heads of the first layers stay there, more with GELU than with ReLU "
     "(ReLU's Revival, samples/results/truth.md).",
     "Early in training, wait (analyzer/flags/README.md); without LayerNorm "
     "choose ReLU instead of GELU (ReLU's Revival, samples/results/truth.md), "
     "or regularise entropies with EReg (AERO), which in small models changes "
     "perplexity by -3 to +2 % (samples/results/truth.md).",
     {"ReLU's Revival: Jha and Reagen 2024, On the Entropic Overload in "
      "Normalization-Free Large Language Models, arXiv:2410.09637",
      AERO, TRUTH,
      "analyzer/flags/README.md: six small models after 300 and after 4,000 "
      "steps, measured with this program"}},
    {"logits",
     ES_SEVERITY_WARNING,
     ES_SEVERITY_ERROR,
     "attention logits are so large that softmax rows approach one-hot vectors",
     "Attention logits grow in large models (Dehghani 2023), and in small ones "
     "at high learning rates (Wortsman 2023).",
     "Normalise queries and keys (Henry 2020, Dehghani 2023); scale down the "
     "query and key weights of heads whose logits pass a limit (QK-Clip); or "
     "lower the learning rate (Wortsman 2023).",
     {"Henry 2020: Henry et al., Query-Key Normalization for Transformers, "
      "arXiv:2010.04245",
      "QK-Clip: Kimi Team 2025, Kimi K2: Open Agentic Intelligence, "
      "arXiv:2507.20534",
      DEHGHANI, WORTSMAN}},
    {"loss_spike",
     ES_SEVERITY_WARNING,
     ES_SEVERITY_WARNING,
     "the loss rose far above its previous level",
     "Certain batches cause a spike only in a certain state of the weights: "
     "after a restart from another checkpoint they do no harm (PaLM); "
     "exploding "
     "gradients are one cause (Takase 2023).",
     "If the loss does not come back, restart from a checkpoint about 100 "
     "steps "
     "before the onset and skip the batches up to the end of the spike (PaLM), "
     "or lower the learning rate (OPT).",
     {"PaLM: Chowdhery et al. 2022, Scaling Language Modeling with Pathways, "
      "arXiv:2204.02311",
      "Takase 2023: Takase et al., Spike No More: Stabilizing the Pre-training "
      "of Large Language Models, arXiv:2312.16903",
      OPT}},
};
_Static_assert(sizeof infos / sizeof *infos == ES_N_FLAG_KINDS,
               "a row for every kind of flag");

const es_flag_info *es_flag_info_at(size_t i)
{
    return i < sizeof infos / sizeof *infos ? &infos[i] : NULL;
}

const es_flag_info *es_flag_info_find(const char *name)
{
    const es_flag_info *info;
    for (size_t i = 0; (info = es_flag_info_at(i)); i++)
        if (strcmp(info->name, name) == 0)
            return info;
    return NULL;
}

const char *es_flag_name(es_flag_kind kind)
{
    return infos[kind].name;
}

const char *es_flag_names(char out[ES_FLAG_NAMES_MAX], size_t n)
{
    es_text text = es_text_begin(out, ES_FLAG_NAMES_MAX);
    const es_flag_info *info;
    for (size_t i = 0; i < n && (info = es_flag_info_at(i)); i++)
        es_text_append(&text, "%s%s", i ? ", " : "", info->name);
    return out;
}

const char *es_flag_severities(char out[ES_FLAG_SEVERITIES_MAX],
                               const es_flag_info *info)
{
    es_text text = es_text_begin(out, ES_FLAG_SEVERITIES_MAX);
    for (es_severity s = info->mildest; s <= info->severest; s++)
        es_text_append(&text, "%s%s", text.length ? " or " : "",
                       es_severity_name(s));
    return out;
}

/* --- thresholds -----------------------------------------------------------*/

#define ROW(kind, member, key, range, value, comment)                          \
    {                                                                          \
        kind, key, offsetof(es_flag_rules, member), range, value, comment      \
    }

const es_flag_threshold es_flag_thresholds[ES_N_FLAG_THRESHOLDS] = {
    ROW(ES_FLAG_COLLAPSE, collapse_head, "head", ES_THRESHOLD_POSITIVE, 0.05,
        "a head is low if its entropy is below this fraction of the ceiling"),
    ROW(ES_FLAG_COLLAPSE, collapse_share, "share", ES_THRESHOLD_SHARE, 0.5,
        "a layer is low if at least this share of its heads is low"),
    ROW(ES_FLAG_COLLAPSE, collapse_history, "history", ES_THRESHOLD_SHARE, 0.1,
        "a layer is also low if its mean is below this fraction of the median "
        "of its means"),
    ROW(ES_FLAG_COLLAPSE, collapse_samples, "samples", ES_THRESHOLD_COUNT, 3,
        "a collapse needs this many consecutive samples, or all samples of a "
        "shorter run"),
    ROW(ES_FLAG_COLLAPSE, collapse_layers, "layers", ES_THRESHOLD_COUNT, 3,
        "a sample counts twice if this many layers, and at least half of all "
        "layers, are low"),
    ROW(ES_FLAG_OVERLOAD, overload_head, "head", ES_THRESHOLD_POSITIVE, 0.75,
        "a head is high if its entropy reaches this fraction of the ceiling"),
    ROW(ES_FLAG_OVERLOAD, overload_warning, "warning", ES_THRESHOLD_SHARE, 0.20,
        "warning if at least this share of all heads is high"),
    ROW(ES_FLAG_OVERLOAD, overload_error, "error", ES_THRESHOLD_SHARE, 0.40,
        "error if at least this share of all heads is high"),
    ROW(ES_FLAG_OVERLOAD, warm_up, "warm_up", ES_THRESHOLD_SHARE, 0.05,
        "share of the planned steps, from the start, that is not judged; the "
        "histories for collapse and loss_spike begin after these steps"),
    ROW(ES_FLAG_OVERLOAD, overload_samples, "samples", ES_THRESHOLD_COUNT, 10,
        "an overload needs this many consecutive samples, or all samples of a "
        "shorter run"),
    ROW(ES_FLAG_OVERLOAD, overload_steps, "steps", ES_THRESHOLD_COUNT, 1000,
        "an overload has severity info if fewer steps than this are planned "
        "and the share of high heads has not come down"),
    ROW(ES_FLAG_LOGITS, logits_warning, "warning", ES_THRESHOLD_POSITIVE, 100,
        "warning if a head's largest logit exceeds this value"),
    ROW(ES_FLAG_LOGITS, logits_error, "error", ES_THRESHOLD_POSITIVE, 1000,
        "error if a head's largest logit exceeds this value"),
    ROW(ES_FLAG_LOSS_SPIKE, spike_deviations, "deviations",
        ES_THRESHOLD_POSITIVE, 7,
        "a spike is this many standard deviations above the median of the "
        "last 128 losses"),
    ROW(ES_FLAG_LOSS_SPIKE, spike_rise, "rise", ES_THRESHOLD_POSITIVE, 0.15,
        "a spike also exceeds the median by at least this share of the median"),
    ROW(ES_FLAG_LOSS_SPIKE, spike_samples, "samples", ES_THRESHOLD_COUNT, 5,
        "a spike needs this many consecutive losses, or a single loss that is "
        "twice as far above the median as any of the 128"),
};

double es_flag_threshold_get(const es_flag_rules *rules,
                             const es_flag_threshold *threshold)
{
    const void *place = (const char *)rules + threshold->offset;
    return threshold->range == ES_THRESHOLD_COUNT ? *(const int *)place
                                                  : *(const double *)place;
}

void es_flag_threshold_set(es_flag_rules *rules,
                           const es_flag_threshold *threshold, double value)
{
    void *place = (char *)rules + threshold->offset;
    if (threshold->range == ES_THRESHOLD_COUNT)
        *(int *)place = (int)value;
    else
        *(double *)place = value;
}

void es_flag_rules_default(es_flag_rules *out)
{
    memset(out, 0, sizeof *out);
    for (size_t i = 0; i < ES_N_FLAG_THRESHOLDS; i++)
        es_flag_threshold_set(out, &es_flag_thresholds[i],
                              es_flag_thresholds[i].value);
}
