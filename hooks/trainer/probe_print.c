/* What a probe found, for people. */
#include "hooks/trainer/probe.h"

#include "analyzer/base/text.h"
#include "analyzer/flags/bands.h"
#include "hooks/trainer/progress.h"
#include <inttypes.h>
#include <math.h>

static void print_deviation(FILE *out, const char *format, double deviation)
{
    if (isnan(deviation))
        fprintf(out, "%9s", "-");
    else
        fprintf(out, format, deviation);
}

static void print_layer(FILE *out, const char *name,
                        const es_probe_layer *layer)
{
    fprintf(out, "%-6s%9.4f", name, es_progress_number(layer->entropy.mean));
    print_deviation(out, "%9.2g", layer->entropy.deviation);
    fprintf(out, "%9.4f%9.4f%11.4g%8.4f%11d\n",
            es_progress_number(layer->lowest),
            es_progress_number(layer->highest),
            es_progress_number(layer->series[ES_HEAD_MAX_LOGIT]),
            es_progress_number(layer->series[ES_HEAD_SINK]), layer->nonfinite);
}

static void print_head(FILE *out, const es_probe_result *result)
{
    const es_model_config *config = &result->settings.model;
    char arch[ES_ARCH_TEXT_MAX], path[ES_PATH_SIZE];
    es_arch_print(arch, sizeof arch, &config->arch);
    es_text_escape(path, sizeof path, result->settings.init,
                   ES_ESCAPE_TERMINAL);
    fprintf(out, "%s: %s of %s, L=%d H=%d d=%d V=%d", path, arch,
            result->start.maker, config->n_layer, config->n_head,
            config->d_model, config->vocab);
    if (result->start.step > 0)
        fprintf(out, ", after %" PRId64 " steps", result->start.step);
    fprintf(out, "\nheld-out data: %" PRId64 " micro-batches of %d x %d\n\n",
            result->n_batches, config->batch, config->ctx);
}

void es_probe_print(FILE *out, const es_probe_result *result)
{
    char name[16];
    print_head(out, result);
    fprintf(out, "loss (cross-entropy) %.6f",
            es_progress_number(result->ce.mean));
    if (!isnan(result->ce.deviation))
        fprintf(out, " +- %.6f", result->ce.deviation);
    fprintf(out, ", perplexity %.6g\n\n",
            es_progress_number(exp(result->ce.mean)));
    fprintf(out, "%-6s%9s%9s%9s%9s%11s%8s%11s\n", "layer", "entropy", "+-",
            "lowest", "highest", es_head_statistics[ES_HEAD_MAX_LOGIT].title,
            es_head_statistics[ES_HEAD_SINK].title, "non-finite");
    for (int l = 0; l < result->n_layers; l++) {
        snprintf(name, sizeof name, "%d", l);
        print_layer(out, name, &result->layers[l]);
    }
    print_layer(out, "all", &result->layers[result->n_layers]);
    fprintf(out,
            "\nnats; the ceiling at T=%d is %.4f; +- is the standard deviation "
            "over micro-batches\n",
            result->settings.model.ctx, es_ceiling(result->settings.model.ctx));
}
