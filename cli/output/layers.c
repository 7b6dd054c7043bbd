/* Formats the list of layers in which a flag is active as text for tables and
   alerts. */
#include "cli/output/layers.h"

/* Appends the layers of `kind` for which `layers` is true, as ranges, with
 * `before` in front of the first range. Returns true if any layers were
 * appended. */
static bool append_ranges(es_text *to, const char *before,
                          const es_layers *known, es_layer_kind kind,
                          const bool *layers, size_t n)
{
    bool any = false;
    for (size_t l = 0; l < n; l++) {
        const size_t first = l;
        if (!layers[l] || (known && known->list[l].kind != kind))
            continue;
        while (layers[l + 1] && (!known || known->list[l + 1].kind == kind))
            l++;
        es_text_append(to, "%s%zu", any ? "," : before, first);
        if (l > first)
            es_text_append(to, "-%zu", l);
        any = true;
    }
    if (any && kind != ES_LAYER_UNKNOWN)
        es_text_append(to, " %s", es_layer_kind_name(kind));
    return any;
}

void es_layers_append(es_text *to, const es_layers *known, const bool *layers,
                      size_t n)
{
    enum { NAME_SHOWN = 80 };
    const es_layers *kinds = known && known->has_kinds ? known : NULL;
    size_t n_marked = 0, last = 0;
    char name[NAME_SHOWN + 1];
    const char *before = " L";
    for (size_t l = 0; l < n; l++) {
        n_marked += layers[l];
        last = layers[l] ? l : last;
    }
    for (int kind = 1; kinds && kind < ES_N_LAYER_KINDS; kind++)
        if (append_ranges(to, before, kinds, (es_layer_kind)kind, layers, n))
            before = ", L";
    append_ranges(to, before, kinds, ES_LAYER_UNKNOWN, layers, n);
    if (n_marked != 1 || !known || !known->list[last].name)
        return;
    es_text_escape(name, sizeof name, known->list[last].name,
                   ES_ESCAPE_TERMINAL);
    es_text_append(to, " %s", name);
}
