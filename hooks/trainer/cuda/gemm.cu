/* Matrix products by cuBLASLt. It is made for column order: there a row-major
 * matrix is its transpose, and d^T = b^T a^T, so that a and b change places.
 * Of its candidates for a product three are timed, once, and the choice is kept
 * (choices.h). */
#include "hooks/trainer/cuda/choices.h"
#include "hooks/trainer/cuda/gemm.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORKSPACE_BYTES = 32 << 20,
    BEST_ALIGNMENT = 256,
    N_TIMED = 3,      /* candidates */
    N_REPETITIONS = 5 /* of each, after one that does not count */
};

/* Of the first candidate's time: what is faster by less is not chosen. */
static const float faster = 0.98f;

/* What a plan depends on: the product without its pointers, of which only the
 * alignment counts; 0 for one that is not there. */
typedef struct shape {
    int m, n, k, lda, ldb, ldd;
    es_gemm_type type;
    es_gemm_epilogue epilogue;
    unsigned char wide, a_transposed, b_transposed, adds, in_place;
    unsigned char requested; /* 0: cuBLASLt never sees this product */
    unsigned align_a, align_b, align_c, align_d, align_bias, align_aux;
} shape;

typedef struct plan {
    struct plan *next;
    shape key;
    bool can_run;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, d; /* of cuBLASLt: b and a, swapped */
    cublasLtMatmulAlgo_t candidates[ES_MAX_CANDIDATES];
    int n_candidates;
    int chosen;
    bool is_chosen; /* false: it is the first one, and nothing has been timed */
} plan;

struct es_gemm_plans {
    cublasLtHandle_t handle;
    void *workspace;
    cudaEvent_t begin, end;
    es_choices *choices; /* NULL: nothing is timed */
    char note[512];
    FILE *listing; /* NULL: nobody wants the plans listed */
    plan *first;
};

static bool check(es_device *device, cublasStatus_t status)
{
    if (status == CUBLAS_STATUS_SUCCESS)
        return true;
    es_device_trouble_text(device, "a matrix product",
                           cublasLtGetStatusName(status));
    return false;
}

/* --- plans ---------------------------------------------------------------- */

static void free_plan(plan *old)
{
    if (old->how)
        (void)cublasLtMatmulDescDestroy(old->how);
    if (old->a)
        (void)cublasLtMatrixLayoutDestroy(old->a);
    if (old->b)
        (void)cublasLtMatrixLayoutDestroy(old->b);
    if (old->d)
        (void)cublasLtMatrixLayoutDestroy(old->d);
    free(old);
}

/* Whether there is another way: without what follows the sum. */
static bool is_dispensable(const shape *s)
{
    return s->align_bias || s->epilogue != ES_GEMM_PLAIN;
}

/* Who does what follows the sum: the product, or a pass of its own, and why. */
static const char *outcome_of(const plan *p)
{
    if (p->can_run)
        return is_dispensable(&p->key) ? "fused" : "nothing to fuse";
    return !p->key.requested  ? "not fused, not requested"
           : !p->n_candidates ? "not fused, no algorithm"
                              : "not fused, refused";
}

/* Adds a line for each plan to the listing, and closes it. */
static void list_plans(es_gemm_plans *plans)
{
    static const char *const types[] = {"fp32", "tf32", "bf16", "fp16"};
    static const char *const epilogues[] = {"", " gelu", " dgelu"};
    for (const plan *p = plans->first; p; p = p->next) {
        const shape *s = &p->key;
        fprintf(plans->listing, "m %d n %d k %d %s %c%c%s%s: %s", s->m, s->n,
                s->k, types[s->type], s->a_transposed ? 't' : 'n',
                s->b_transposed ? 't' : 'n', s->align_bias ? " bias" : "",
                epilogues[s->epilogue], outcome_of(p));
        if (p->can_run)
            fprintf(plans->listing, ", candidate %d of %d", p->chosen,
                    p->n_candidates);
        fputc('\n', plans->listing);
    }
    fclose(plans->listing);
}

void es_gemm_plans_free(es_gemm_plans *plans)
{
    if (!plans)
        return;
    if (plans->listing)
        list_plans(plans);
    while (plans->first) {
        plan *first = plans->first;
        plans->first = first->next;
        free_plan(first);
    }
    if (plans->handle)
        (void)cublasLtDestroy(plans->handle);
    if (plans->begin)
        (void)cudaEventDestroy(plans->begin);
    if (plans->end)
        (void)cudaEventDestroy(plans->end);
    (void)cudaFree(plans->workspace);
    es_choices_close(plans->choices);
    free(plans);
}

static void open_choices(es_device *device, es_gemm_plans *plans)
{
    const es_device_facts *facts = es_device_facts_of(device);
    char of[sizeof facts->name + 100];
    snprintf(of, sizeof of, "%s, %d.%d, %d processors, cuBLASLt %zu",
             facts->name, facts->major, facts->minor, facts->n_processors,
             cublasLtGetVersion());
    plans->choices = es_choices_open(of, plans->note, sizeof plans->note);
}

static void open_listing(es_gemm_plans *plans)
{
    const char *path = getenv("ENTROPY_TRAIN_PLANS");
    if (path && path[0] && !(plans->listing = fopen(path, "ae")))
        snprintf(plans->note, sizeof plans->note,
                 "%s: cannot be written: products are not listed", path);
}

/* The device's plans, made at the first product; NULL after trouble. */
static es_gemm_plans *plans_of(es_device *device)
{
    es_gemm_plans **kept = es_device_gemm_plans(device);
    if (*kept)
        return *kept;
    es_gemm_plans *plans = (es_gemm_plans *)calloc(1, sizeof *plans);
    if (!plans) {
        es_device_trouble_text(device, "a matrix product", "out of memory");
        return NULL;
    }
    if (!check(device, cublasLtCreate(&plans->handle)) ||
        !es_device_check(device, "memory for products",
                         cudaMalloc(&plans->workspace, WORKSPACE_BYTES)) ||
        !es_device_check(device, "products", cudaEventCreate(&plans->begin)) ||
        !es_device_check(device, "products", cudaEventCreate(&plans->end))) {
        es_gemm_plans_free(plans);
        return NULL;
    }
    open_choices(device, plans);
    open_listing(plans);
    *kept = plans;
    return plans;
}

const char *es_gemm_note(es_device *device)
{
    const es_gemm_plans *plans = plans_of(device);
    return plans ? plans->note : "";
}

/* The largest power of two that divides the address, 256 at most. */
static unsigned alignment_of(const void *memory)
{
    uintptr_t address = (uintptr_t)memory | BEST_ALIGNMENT;
    return (unsigned)(address & (~address + 1));
}

/* Activations are within the product on 9.x alone, where that is
 * one kernel; on 8.x and on 12.x users of it report one that is slower than a
 * product and a pass (llm.c, pull requests 338, 591, 653; sglang, 34350). */
static bool is_requested(const es_device *device, const es_gemm *p)
{
    return es_gemm_is_offered(p) && (p->epilogue == ES_GEMM_PLAIN ||
                                     es_device_facts_of(device)->major == 9);
}

static shape shape_of(const es_device *device, const es_gemm *p)
{
    shape s;
    memset(&s, 0, sizeof s); /* compared as bytes */
    bool adds = p->c && p->beta != 0;
    s.m = p->m;
    s.n = p->n;
    s.k = p->k;
    s.lda = p->lda;
    s.ldb = p->ldb;
    s.ldd = p->ldd;
    s.type = p->type;
    s.wide = p->wide;
    s.a_transposed = p->a_transposed;
    s.b_transposed = p->b_transposed;
    s.adds = adds;
    s.in_place = adds && p->c == p->d;
    s.requested = is_requested(device, p);
    s.epilogue = p->epilogue;
    s.align_a = alignment_of(p->a);
    s.align_b = alignment_of(p->b);
    s.align_c = adds ? alignment_of(p->c) : alignment_of(p->d);
    s.align_d = alignment_of(p->d);
    s.align_bias = p->bias ? alignment_of(p->bias) : 0;
    s.align_aux = p->epilogue ? alignment_of(p->aux) : 0;
    return s;
}

static cudaDataType_t input_type(const shape *s)
{
    return s->type == ES_GEMM_BF16   ? CUDA_R_16BF
           : s->type == ES_GEMM_FP16 ? CUDA_R_16F
                                     : CUDA_R_32F;
}

static cudaDataType_t output_type(const shape *s)
{
    return s->wide ? CUDA_R_32F : input_type(s);
}

/* A matrix (rows,columns) in C order, perhaps laid out transposed, is one of
 * (columns,rows) to cuBLASLt. */
static cublasStatus_t lay_out(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                              int rows, int columns, bool transposed,
                              int stride)
{
    return cublasLtMatrixLayoutCreate(
        out, type, (uint64_t)(transposed ? rows : columns),
        (uint64_t)(transposed ? columns : rows), stride);
}

template <class T>
static cublasStatus_t set(plan *p, cublasLtMatmulDescAttributes_t what, T value)
{
    return cublasLtMatmulDescSetAttribute(p->how, what, &value, sizeof value);
}

static cublasLtEpilogue_t epilogue_of(const shape *s)
{
    const bool biased = s->align_bias != 0;
    if (s->epilogue == ES_GEMM_GELU)
        return biased ? CUBLASLT_EPILOGUE_GELU_AUX_BIAS
                      : CUBLASLT_EPILOGUE_GELU_AUX;
    if (s->epilogue == ES_GEMM_DGELU)
        return CUBLASLT_EPILOGUE_DGELU;
    return biased ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT;
}

static cublasStatus_t point(plan *p, const es_gemm *product)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (p->key.align_bias)
        status = set(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product->bias);
    if (!status && p->key.align_aux)
        status =
            set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, product->aux);
    return status;
}

/* What is done to the sum. The pointers are the caller's: they differ from one
 * product of this shape to the next. */
static cublasStatus_t describe_epilogue(plan *p)
{
    const shape *s = &p->key;
    const cudaDataType_t type = output_type(s);
    const int64_t stride = s->ldd; /* in elements */
    cublasStatus_t status =
        set(p, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(s));
    if (!status && s->align_bias)
        status = set(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    if (!status && s->align_aux)
        status = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type);
    if (!status && s->align_aux)
        status = set(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, stride);
    return status;
}

/* The product's description: its first matrix is our b. */
static cublasStatus_t describe(plan *p)
{
    const shape *s = &p->key;
    const cublasComputeType_t compute =
        s->type == ES_GEMM_F32    ? CUBLAS_COMPUTE_32F_PEDANTIC
        : s->type == ES_GEMM_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32
                                  : CUBLAS_COMPUTE_32F;
    const cublasOperation_t first = s->b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    const cublasOperation_t second =
        s->a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N;
    cublasStatus_t status;
    (status = cublasLtMatmulDescCreate(&p->how, compute, CUDA_R_32F)) ||
        (status = set(p, CUBLASLT_MATMUL_DESC_TRANSA, first)) ||
        (status = set(p, CUBLASLT_MATMUL_DESC_TRANSB, second)) ||
        (status = describe_epilogue(p)) ||
        (status = lay_out(&p->a, input_type(s), s->k, s->n, s->b_transposed,
                          s->ldb)) ||
        (status = lay_out(&p->b, input_type(s), s->m, s->k, s->a_transposed,
                          s->lda)) ||
        (status = lay_out(&p->d, output_type(s), s->m, s->n, false, s->ldd));
    return status;
}

/* What the algorithm may rely on. Parts of a sum are not to meet in 16 bits,
 * as they may where d is of those. */
static cublasStatus_t prefer(cublasLtMatmulPreference_t preference,
                             const shape *s)
{
    const uint64_t workspace = WORKSPACE_BYTES;
    const uint32_t reductions = output_type(s) == CUDA_R_32F
                                    ? CUBLASLT_REDUCTION_SCHEME_MASK
                                    : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    const struct {
        cublasLtMatmulPreferenceAttributes_t what;
        unsigned bytes;
    } alignments[] = {
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, s->align_b},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, s->align_a},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, s->align_c},
        {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, s->align_d},
    };
    cublasStatus_t status = cublasLtMatmulPreferenceSetAttribute(
        preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, &workspace,
        sizeof workspace);
    if (!status)
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, &reductions,
            sizeof reductions);
    for (int i = 0; !status && i < 4; i++)
        status = cublasLtMatmulPreferenceSetAttribute(
            preference, alignments[i].what, &alignments[i].bytes,
            sizeof alignments[i].bytes);
    return status;
}

/* Whether cuBLASLt says that it does not do this, and has done nothing. */
static bool is_refusal(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ||
           status == CUBLAS_STATUS_INVALID_VALUE ||
           status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/* The shape as the file of choices has it. */
static void write_key(char key[ES_CHOICE_KEY], const shape *s)
{
    snprintf(key, ES_CHOICE_KEY,
             "%d %d %d %d %d %d %d %d %d %d %d %d %d %u %u %u %u %u %u", s->m,
             s->n, s->k, s->lda, s->ldb, s->ldd, (int)s->type, (int)s->epilogue,
             s->wide, s->a_transposed, s->b_transposed, s->adds, s->in_place,
             s->align_a, s->align_b, s->align_c, s->align_d, s->align_bias,
             s->align_aux);
}

/* What was chosen for this shape, if there is as much. */
static void find_choice(const es_gemm_plans *plans, plan *p)
{
    char key[ES_CHOICE_KEY];
    write_key(key, &p->key);
    const int found = es_choices_find(plans->choices, key);
    p->chosen = found >= 0 && found < p->n_candidates ? found : 0;
    p->is_chosen = p->chosen == found || !plans->choices || p->n_candidates < 2;
}

/* Asks for candidates; p->can_run says whether there is one. */
static cublasStatus_t choose(const es_gemm_plans *plans, plan *p)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found[ES_MAX_CANDIDATES] = {};
    int n_found = 0;
    cublasStatus_t status;
    (status = cublasLtMatmulPreferenceCreate(&preference)) ||
        (status = prefer(preference, &p->key)) ||
        (status = cublasLtMatmulAlgoGetHeuristic(
             plans->handle, p->how, p->a, p->b, p->d, p->d, preference,
             ES_MAX_CANDIDATES, found, &n_found));
    if (preference)
        (void)cublasLtMatmulPreferenceDestroy(preference);
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < n_found; i++)
        if (found[i].state == CUBLAS_STATUS_SUCCESS)
            p->candidates[p->n_candidates++] = found[i].algo;
    p->can_run = p->n_candidates > 0;
    find_choice(plans, p);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED ||
        (is_refusal(status) && is_dispensable(&p->key)))
        return CUBLAS_STATUS_SUCCESS;
    return status;
}

/* The plan for products like this one; NULL after trouble. */
static plan *find_plan(es_device *device, es_gemm_plans *plans,
                       const es_gemm *product)
{
    const shape s = shape_of(device, product);
    for (plan *p = plans->first; p; p = p->next)
        if (memcmp(&p->key, &s, sizeof s) == 0)
            return p;
    plan *added = (plan *)calloc(1, sizeof *added);
    if (!added) {
        es_device_trouble_text(device, "a matrix product", "out of memory");
        return NULL;
    }
    added->key = s;
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (s.requested)
        (status = describe(added)) ||
            (status = point(added, product)) || /* for their alignment */
            (status = choose(plans, added));
    if (!check(device, status)) {
        free_plan(added);
        return NULL;
    }
    added->next = plans->first;
    plans->first = added;
    return added;
}

/* --- products ------------------------------------------------------------- */

/* By a candidate, into d in place of the product's. */
static cublasStatus_t multiply(es_device *device, const es_gemm_plans *plans,
                               const plan *p, const es_gemm *product, void *d,
                               int candidate)
{
    const float one = 1, beta = p->key.adds ? product->beta : 0;
    const void *c = p->key.adds && !p->key.in_place ? product->c : d;
    return cublasLtMatmul(plans->handle, p->how, &one, product->b, p->a,
                          product->a, p->b, &beta, c, p->d, d, p->d,
                          &p->candidates[candidate], plans->workspace,
                          WORKSPACE_BYTES, es_device_stream(device));
}

/* Milliseconds of N_REPETITIONS; *refused: it does not run, and has no time. */
static float time_of(es_device *device, const es_gemm_plans *plans,
                     const plan *p, const es_gemm *product, void *d,
                     int candidate, bool *refused)
{
    const cudaStream_t stream = es_device_stream(device);
    float took = 0;
    cublasStatus_t status = multiply(device, plans, p, product, d, candidate);
    *refused = is_refusal(status);
    if (*refused || !check(device, status) ||
        !es_device_check(device, "timing",
                         cudaEventRecord(plans->begin, stream)))
        return 0;
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < N_REPETITIONS; i++)
        status = multiply(device, plans, p, product, d, candidate);
    if (check(device, status) &&
        es_device_check(device, "timing",
                        cudaEventRecord(plans->end, stream)) &&
        es_device_check(device, "timing", cudaEventSynchronize(plans->end)))
        es_device_check(device, "timing",
                        cudaEventElapsedTime(&took, plans->begin, plans->end));
    return took;
}

/* Chooses among the first candidates. What a product adds to is not there for
 * a second time, so that d is memory of its own then. */
static void time_candidates(es_device *device, const es_gemm_plans *plans,
                            plan *p, const es_gemm *product)
{
    const size_t bytes = (size_t)p->key.m * (size_t)p->key.ldd * sizeof(float);
    char key[ES_CHOICE_KEY];
    void *apart = NULL;
    float best = 0;
    int chosen = -1;
    p->is_chosen = true; /* whatever comes of it, it is not tried again */
    const cudaError_t code =
        p->key.in_place ? cudaMalloc(&apart, bytes) : cudaSuccess;
    if (code != cudaSuccess) {
        (void)cudaGetLastError(); /* this one does not stick */
        return;
    }
    for (int i = 0; i < p->n_candidates && i < N_TIMED; i++) {
        bool refused;
        const float took = time_of(device, plans, p, product,
                                   apart ? apart : product->d, i, &refused);
        if (refused || (chosen >= 0 && !(took < faster * best)))
            continue;
        chosen = i;
        best = took;
    }
    es_device_check(device, "freeing memory", cudaFree(apart));
    if (chosen < 0 || es_device_is_in_trouble(device))
        return;
    p->chosen = chosen;
    write_key(key, &p->key);
    es_choices_add(plans->choices, key, chosen);
}

/* False: refused. */
static bool run(es_device *device, const es_gemm_plans *plans, plan *p,
                const es_gemm *product)
{
    if (!check(device, point(p, product)))
        return true;
    if (!p->is_chosen && !es_device_captures(device))
        time_candidates(device, plans, p, product);
    if (es_device_is_in_trouble(device))
        return true;
    const cublasStatus_t status =
        multiply(device, plans, p, product, product->d, p->chosen);
    if (is_refusal(status) && is_dispensable(&p->key))
        return false;
    check(device, status);
    return true;
}

bool es_device_gemm(es_device *device, const es_gemm *product)
{
    if (es_device_is_in_trouble(device))
        return true;
    es_gemm_plans *plans = plans_of(device);
    plan *found = plans ? find_plan(device, plans, product) : NULL;
    if (!found)
        return true;
    if (found->can_run && run(device, plans, found, product))
        return true;
    found->can_run = false;
    if (is_dispensable(&found->key))
        return false;
    es_device_trouble_text(device, "a matrix product",
                           "cuBLASLt has no algorithm for its shape");
    return true;
}
