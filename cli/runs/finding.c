/* Serialises findings (run summaries, failures and damage). The same functions
   write and read a member, depending on bytes.writing, so that the two
   directions cannot differ. When reading, counts are compared with the
   remaining bytes before memory is allocated. */
#include "cli/runs/finding.h"

#include "analyzer/base/checked.h"
#include "store/crc32c.h"

#include <string.h>

/* Maximum size of a finding in bytes: each of its episodes may list 2^20
   heads. */
#define BYTES_MOST ((uint64_t)1 << 32)

typedef struct bytes {
    bool writing;
    unsigned char *data; /* (n) bytes of the finding; owned while writing,
                            borrowed while reading */
    size_t n, at;        /* size of `data` in bytes, and number of bytes read so
                            far */
    size_t capacity;
    es_status status; /* first failure, after which all calls do nothing */
} bytes;

static void fail_bytes(bytes *b)
{
    if (b->status == ES_OK)
        b->status = es_fail(ES_EFORMAT, "damaged");
}

/* --- parts ----------------------------------------------------------------*/

static void pass_bytes(bytes *b, void *value, size_t size)
{
    if (b->status < 0 || size == 0)
        return;
    if (!b->writing) {
        if (size > b->n - b->at) {
            fail_bytes(b);
            return;
        }
        memcpy(value, b->data + b->at, size);
        b->at += size;
        return;
    }
    if (size > b->capacity - b->n) {
        b->capacity = 2 * b->capacity + size;
        b->status = es_grow(&b->data, b->capacity, 1, "a finding");
        if (b->status < 0)
            return;
    }
    memcpy(b->data + b->n, value, size);
    b->n += size;
}

/* Writes or reads an array of n elements; `pointer` is the address of a
   pointer, which may be NULL. */
static void pass_array(bytes *b, void *pointer, size_t n, size_t size)
{
    void *array;
    size_t total = 0;
    memcpy(&array, pointer, sizeof array);
    bool is_there = array != NULL;
    pass_bytes(b, &is_there, sizeof is_there);
    if (b->status < 0 || !is_there)
        return;
    if (!es_size_mul(&total, n, size) || (!b->writing && total > b->n - b->at))
        fail_bytes(b);
    else if (!b->writing &&
             (b->status = es_alloc(&array, n, size, "a finding")) == ES_OK)
        memcpy(pointer, &array, sizeof array);
    pass_bytes(b, array, total);
}

static void pass_text(bytes *b, char **text)
{
    size_t n = b->writing && *text ? strlen(*text) + 1 : 0;
    pass_bytes(b, &n, sizeof n);
    if (n == 0)
        return;
    pass_array(b, text, n, 1);
    if (b->status == ES_OK && (!*text || (*text)[n - 1] != '\0'))
        fail_bytes(b);
}

#define PASS(b, member) pass_bytes(b, &(member), sizeof(member))

/* Writes or reads an enum that is used as an index. A value that is not below n
   makes the finding invalid. */
#define PASS_INDEX(b, member, n)                                               \
    do {                                                                       \
        PASS(b, member);                                                       \
        if ((unsigned long)(member) >= (unsigned long)(n))                     \
            fail_bytes(b);                                                     \
    } while (0)

/* --- a summary ------------------------------------------------------------*/

/* Writes or reads the status as an index, since its strings (see summary.h) are
   static. */
static void pass_status(bytes *b, const char **status)
{
    static const char *const words[] = {"running", "finished", "failed",
                                        "stopped", "interrupted"};
    const size_t n = sizeof words / sizeof *words;
    size_t i = 0;
    while (b->writing && i < n && strcmp(words[i], *status) != 0)
        i++;
    PASS_INDEX(b, i, n);
    if (b->status == ES_OK)
        *status = words[i];
}

static void pass_flag(bytes *b, es_flag *flag, const es_rules_file *rules)
{
    size_t rule = b->writing && flag->rule ? (size_t)(flag->rule - rules->rules)
                                           : SIZE_MAX;
    PASS_INDEX(b, flag->kind, ES_N_FLAG_KINDS + 1);
    PASS(b, rule);
    PASS_INDEX(b, flag->severity, ES_SEVERITY_CRITICAL + 1);
    PASS(b, flag->stands);
    PASS(b, flag->onset);
    PASS(b, flag->last);
    PASS(b, flag->reported);
    PASS(b, flag->collapse_reported);
    PASS(b, flag->value);
    PASS(b, flag->threshold);
    PASS(b, flag->n_layers);
    pass_array(b, &flag->layers, flag->n_layers, sizeof *flag->layers);
    PASS(b, flag->n_heads);
    pass_array(b, &flag->heads, flag->n_heads, sizeof *flag->heads);
    if ((flag->kind == ES_N_FLAG_KINDS) != (rule != SIZE_MAX) ||
        (rule != SIZE_MAX && rule >= (rules ? rules->n : 0)))
        fail_bytes(b);
    else if (!b->writing && rule != SIZE_MAX)
        flag->rule = &rules->rules[rule];
}

/* Writes or reads the length of a list of structs that contain pointers. When
   reading, checks that the remaining bytes can hold the list, and allocates the
   list with zeros. */
static size_t pass_count(bytes *b, void *list, size_t n, size_t size)
{
    PASS(b, n);
    if (!b->writing && b->status == ES_OK) {
        if (n > b->n - b->at)
            fail_bytes(b);
        else if (n)
            b->status = es_alloc(list, n, size, "a finding");
    }
    return b->status < 0 ? 0 : n;
}

static void pass_damaged(bytes *b, es_damaged *sample)
{
    char *series = (char *)(uintptr_t)sample->series;
    PASS(b, sample->size);
    PASS(b, sample->run);
    PASS(b, sample->step);
    PASS(b, sample->n_frames);
    PASS_INDEX(b, sample->table, ES_ROW_EVENT + 1);
    PASS(b, sample->row);
    PASS(b, sample->is_lost);
    PASS_INDEX(b, sample->phase, ES_PHASE_EVAL + 1);
    pass_text(b, &series);
    sample->series = series;
}

static void pass_setting(bytes *b, es_run_setting *setting)
{
    pass_text(b, &setting->key);
    pass_text(b, &setting->text);
    PASS_INDEX(b, setting->kind, ES_CONFIG_NESTED + 1);
    PASS(b, setting->number);
    PASS(b, setting->order);
    if (b->status == ES_OK && (!setting->key || !setting->text))
        fail_bytes(b);
}

static void pass_layers(bytes *b, es_run_summary *s)
{
    bool is_there = s->described != NULL;
    size_t n = 0;
    PASS(b, is_there);
    if (b->status < 0 || !is_there)
        return;
    if (!b->writing &&
        (b->status =
             es_alloc(&s->described, 1, sizeof *s->described, "layers")) < 0)
        return;
    es_layers *layers = s->described;
    PASS(b, layers->n_heads);
    PASS(b, layers->has_kinds);
    PASS(b, layers->n_malformed);
    layers->n_layers =
        pass_count(b, &layers->list, layers->n_layers, sizeof *layers->list);
    for (size_t l = 0; l < layers->n_layers; l++) {
        pass_text(b, &layers->list[l].name);
        PASS_INDEX(b, layers->list[l].kind, ES_N_LAYER_KINDS);
    }
    if (layers->n_layers != (size_t)s->n_layer ||
        layers->n_heads != (size_t)s->n_head ||
        !es_size_mul(&n, layers->n_layers, layers->n_heads))
        fail_bytes(b);
    pass_array(b, &layers->ceilings, n, sizeof *layers->ceilings);
}

static void pass_identity(bytes *b, es_run_summary *s)
{
    pass_text(b, &s->path);
    PASS(b, s->number);
    PASS(b, s->n_in_file);
    pass_text(b, &s->uuid);
    pass_text(b, &s->name);
    pass_text(b, &s->arch);
    pass_status(b, &s->status);
    pass_text(b, &s->config);
    PASS(b, s->config_unread);
    PASS(b, s->n_layer);
    PASS(b, s->n_head);
    PASS(b, s->ctx);
    pass_text(b, &s->family);
    PASS(b, s->d_model);
    PASS(b, s->vocab);
    PASS(b, s->batch);
    PASS(b, s->seed);
    PASS(b, s->planned_steps);
    PASS(b, s->is_open_ended);
    PASS(b, s->common_ceiling);
    PASS(b, s->last_step);
    PASS(b, s->model);
    if (!s->path || !s->name || s->n_layer < 1 || s->n_head < 1)
        fail_bytes(b);
    pass_layers(b, s);
}

static void pass_sample(bytes *b, es_run_summary *s)
{
    size_t n = 0;
    pass_text(b, &s->series);
    pass_text(b, &s->unit);
    PASS_INDEX(b, s->shape, ES_SHAPE_HEAD + 1);
    PASS_INDEX(b, s->phase, ES_PHASE_EVAL + 1);
    PASS(b, s->step);
    PASS(b, s->n_rows);
    PASS(b, s->n_columns);
    if (!es_size_mul(&n, s->n_rows, s->n_columns))
        fail_bytes(b);
    pass_array(b, &s->values, n, sizeof *s->values);
    pass_array(b, &s->scaled, n, sizeof *s->scaled);
    pass_array(b, &s->layers, s->n_rows, sizeof *s->layers);
    PASS(b, s->loss);
    PASS(b, s->ppl);
    PASS(b, s->eval_loss);
    PASS(b, s->eval_ppl);
    PASS(b, s->ceiling);
    PASS(b, s->peak);
    PASS_INDEX(b, s->max.policy, ES_MAX_NUMBER + 1);
    PASS(b, s->max.number);
    PASS(b, s->m);
    PASS(b, s->bands);
    if (!s->series || !s->unit || !s->values || !s->layers)
        fail_bytes(b);
}

static void pass_verdict(bytes *b, es_run_summary *s,
                         const es_rules_file *rules)
{
    const size_t n_rules = rules ? rules->n : 0;
    PASS(b, s->judged);
    s->rules = s->judged ? rules : NULL;
    pass_array(b, &s->heard, n_rules, sizeof *s->heard);
    pass_array(b, &s->nonfinite, n_rules, sizeof *s->nonfinite);
    PASS(b, s->checksums);
    PASS(b, s->end_damaged);
    s->n_damaged = pass_count(b, &s->damaged, s->n_damaged, sizeof *s->damaged);
    for (size_t i = 0; i < s->n_damaged; i++)
        pass_damaged(b, &s->damaged[i]);
    s->n_flags = pass_count(b, &s->flags, s->n_flags, sizeof *s->flags);
    for (size_t i = 0; i < s->n_flags; i++)
        pass_flag(b, &s->flags[i], rules);
    PASS(b, s->settings.cut);
    s->settings.n = pass_count(b, &s->settings.list, s->settings.n,
                               sizeof *s->settings.list);
    for (size_t i = 0; i < s->settings.n; i++)
        pass_setting(b, &s->settings.list[i]);
}

static void pass_run(bytes *b, es_run_summary *s, const es_rules_file *rules)
{
    pass_identity(b, s);
    pass_sample(b, s);
    pass_verdict(b, s, rules);
}

/* --- a finding
   ------------------------------------------------------------- */

static void pass_finding(bytes *b, es_finding *r, const es_rules_file *rules)
{
    PASS_INDEX(b, r->kind, ES_N_FINDING_KINDS);
    if (b->status < 0)
        return;
    if (r->kind == ES_FINDING_RUN) {
        if (!b->writing)
            b->status = es_alloc(&r->run, 1, sizeof *r->run, "a summary");
        if (b->status == ES_OK)
            pass_run(b, r->run, rules);
        return;
    }
    PASS(b, r->code);
    pass_text(b, &r->text);
    pass_text(b, &r->path);
    PASS(b, r->index);
    PASS(b, r->step);
    PASS(b, r->n_frames);
    PASS_INDEX(b, r->table, ES_ROW_EVENT + 1);
    PASS(b, r->row);
    PASS(b, r->is_lost);
    PASS_INDEX(b, r->phase, ES_PHASE_EVAL + 1);
    if (r->kind != ES_FINDING_END && !r->text)
        fail_bytes(b);
    if ((r->kind == ES_FINDING_FAILURE && r->code >= 0) ||
        (r->kind == ES_FINDING_DAMAGE && !r->path))
        fail_bytes(b);
}

void es_finding_clear(es_finding *finding)
{
    if (!finding)
        return;
    es_summary_free(finding->run);
    free(finding->text);
    free(finding->path);
    *finding = (es_finding){.run = NULL};
}

typedef struct envelope {
    uint64_t n;
    uint32_t crc, zero;
} envelope;

es_status es_finding_write(FILE *stream, const es_finding *finding)
{
    bytes b = {.writing = true};
    es_finding copy = *finding; /* The functions do not modify the finding, but
                                   have no const parameter. */
    pass_finding(&b, &copy, finding->run ? finding->run->rules : NULL);
    if (b.status == ES_OK) {
        const envelope head = {.n = b.n, .crc = es_crc32c(0, b.data, b.n)};
        fwrite(&head, sizeof head, 1, stream);
        fwrite(b.data, 1, b.n, stream);
    }
    free(b.data);
    return b.status;
}

es_status es_finding_read(es_finding *out, FILE *stream,
                          const es_rules_file *rules)
{
    envelope head;
    bytes b = {.status = ES_OK};
    *out = (es_finding){.run = NULL};
    const size_t got = fread(&head, 1, sizeof head, stream);
    if (got == 0 && feof(stream))
        return ES_DONE;
    if (got < sizeof head || head.n > BYTES_MOST || head.zero)
        return es_fail(ES_EFORMAT, "damaged");
    b.n = head.n;
    es_status status = es_alloc(&b.data, b.n, 1, "a finding");
    if (status < 0)
        return status;
    if (fread(b.data, 1, b.n, stream) != b.n ||
        es_crc32c(0, b.data, b.n) != head.crc)
        fail_bytes(&b);
    pass_finding(&b, out, rules);
    if (b.at != b.n)
        fail_bytes(&b);
    free(b.data);
    return b.status;
}

const char *es_finding_head(void)
{
    static char head[96];
    snprintf(head, sizeof head, "entropy-scan " ES_VERSION " %zu %zu %zu\n",
             sizeof(es_run_summary), sizeof(es_flag), sizeof(es_cost_model));
    return head;
}
