/* Computes matrix products with cuBLASLt. cuBLASLt expects matrices stored by
 * columns; in this layout a row-major matrix is its transpose. Because d^T =
 * b^T * a^T, the operands a and b are swapped. cuBLASLt proposes several
 * algorithms (candidates) for a product. The first three candidates are timed
 * once, and the choice is stored in a file (choices.h). */
#include "hooks/trainer/cuda/choices.h"
#include "hooks/trainer/cuda/gemm.h"

#include <cublasLt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WORKSPACE_BYTES = 32 << 20,
    BEST_ALIGNMENT = 256,
    N_TIMED = 3,      /* number of candidate algorithms that are timed for a
                       * product */
    N_REPETITIONS = 5 /* number of timed runs of each candidate algorithm, after
                       * one untimed run */
};

/* A candidate algorithm replaces the fastest one so far only if its time is
 * less than this fraction of the best time. */
static const float faster = 0.98f;

/* Properties of a product, by which its plan is found. For each pointer, the
 * key contains only the alignment in bytes, or 0 if the pointer is NULL. */
typedef struct shape {
    int m, n, k, lda, ldb, ldd;
    es_gemm_type type;
    es_gemm_epilogue epilogue;
    unsigned char wide, a_transposed, b_transposed, adds, in_place;
    unsigned char requested; /* 1 if cuBLASLt has to fuse the bias or
                              * epilogue */
    unsigned align_a, align_b, align_c, align_d, align_bias, align_aux;
} shape;

typedef struct plan {
    struct plan *next;
    shape key;
    bool can_run;
    cublasLtMatmulDesc_t how;
    cublasLtMatrixLayout_t a, b, d; /* layouts for cuBLASLt; its operands a and
                                     * b are our b and a */
    cublasLtMatmulAlgo_t candidates[ES_MAX_CANDIDATES];
    int n_candidates;
    int chosen;
    bool is_chosen; /* false if the candidate algorithms must still be timed */
} plan;

struct es_gemm_plans {
    cublasLtHandle_t handle;
    void *workspace;
    cudaEvent_t begin, end;
    es_choices *choices; /* NULL if products must not be timed */
    char note[512];
    FILE *listing; /* file in which the matrix products are listed, or NULL */
    plan *first;
};

static bool check_cublas(es_device *device, cublasStatus_t status)
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

/* Returns true if the product has a bias or an epilogue. The product can then
 * also be computed in two steps: the plain product, and a separate pass that
 * applies the bias and the epilogue. */
static bool is_dispensable(const shape *s)
{
    return s->align_bias || s->epilogue != ES_GEMM_PLAIN;
}

/* Returns a string which states whether the product is fused with its bias and
 * epilogue, and if not, why. */
static const char *outcome_of(const plan *p)
{
    if (p->can_run)
        return is_dispensable(&p->key) ? "fused" : "nothing to fuse";
    return !p->key.requested  ? "not fused, not requested"
           : !p->n_candidates ? "not fused, no algorithm"
                              : "not fused, refused";
}

/* Writes one line for each plan (a prepared matrix product) to the listing, and
 * closes the listing. */
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

static void free_plans(es_gemm_plans *plans)
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
                 "%s: cannot be written; the matrix products will not be "
                 "listed in it",
                 path);
}

/* Returns the device's plans and creates them if there are none. Returns NULL
 * after a failure of the device. */
static es_gemm_plans *plans_of(es_device *device)
{
    es_gemm_plans *plans = es_device_gemm_plans(device);
    if (plans)
        return plans;
    plans = (es_gemm_plans *)calloc(1, sizeof *plans);
    if (!plans) {
        es_device_trouble_text(device, "a matrix product", "out of memory");
        return NULL;
    }
    if (!check_cublas(device, cublasLtCreate(&plans->handle)) ||
        !es_device_check(device, "memory for products",
                         cudaMalloc(&plans->workspace, WORKSPACE_BYTES)) ||
        !es_device_check(device, "timing a product",
                         cudaEventCreate(&plans->begin)) ||
        !es_device_check(device, "timing a product",
                         cudaEventCreate(&plans->end))) {
        free_plans(plans);
        return NULL;
    }
    open_choices(device, plans);
    open_listing(plans);
    es_device_set_gemm_plans(device, plans, free_plans);
    return plans;
}

const char *es_gemm_note(es_device *device)
{
    const es_gemm_plans *plans = plans_of(device);
    return plans ? plans->note : "";
}

/* Returns the largest power of two, up to 256, that divides the address. */
static unsigned alignment_of(const void *memory)
{
    uintptr_t address = (uintptr_t)memory | BEST_ALIGNMENT;
    return (unsigned)(address & (~address + 1));
}

/* Returns true if cuBLASLt has to fuse the product with its bias and
 * epilogue. An activation is fused only on compute capability 9.x, where
 * cuBLASLt has a single kernel for product and activation. On 8.x and 12.x,
 * users report that fused kernels are slower than a product followed by a
 * separate pass (llm.c, pull requests 338, 591, 653; sglang, 34350). */
static bool is_requested(const es_device *device, const es_gemm *p)
{
    return es_gemm_is_offered(p) && (p->epilogue == ES_GEMM_PLAIN ||
                                     es_device_facts_of(device)->major == 9);
}

static shape shape_of(const es_device *device, const es_gemm *p)
{
    shape s;
    memset(&s, 0, sizeof s); /* keys are compared as bytes, so unused bytes
                              * must be 0 */
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

/* Describes a matrix to cuBLASLt. A row-major matrix (rows,columns), possibly
 * stored transposed, is a matrix (columns,rows) in cuBLASLt's layout. */
static cublasStatus_t lay_out(cublasLtMatrixLayout_t *out, cudaDataType_t type,
                              int rows, int columns, bool transposed,
                              int stride)
{
    return cublasLtMatrixLayoutCreate(
        out, type, (uint64_t)(transposed ? rows : columns),
        (uint64_t)(transposed ? columns : rows), stride);
}

template <class T>
static cublasStatus_t
set_attribute(plan *p, cublasLtMatmulDescAttributes_t what, T value)
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

static cublasStatus_t set_pointers(plan *p, const es_gemm *product)
{
    cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
    if (p->key.align_bias)
        status =
            set_attribute(p, CUBLASLT_MATMUL_DESC_BIAS_POINTER, product->bias);
    if (!status && p->key.align_aux)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER,
                               product->aux);
    return status;
}

/* Describes the epilogue and the bias. The pointers differ between products
 * with the same key, so the caller sets them later. */
static cublasStatus_t describe_epilogue(plan *p)
{
    const shape *s = &p->key;
    const cudaDataType_t type = output_type(s);
    const int64_t stride = s->ldd; /* distance between two rows of aux in
                                    * elements */
    cublasStatus_t status =
        set_attribute(p, CUBLASLT_MATMUL_DESC_EPILOGUE, epilogue_of(s));
    if (!status && s->align_bias)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
    if (!status && s->align_aux)
        status =
            set_attribute(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, type);
    if (!status && s->align_aux)
        status = set_attribute(p, CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, stride);
    return status;
}

/* Describes the product to cuBLASLt, which takes our b as its first operand. */
static cublasStatus_t describe_product(plan *p)
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
        (status = set_attribute(p, CUBLASLT_MATMUL_DESC_TRANSA, first)) ||
        (status = set_attribute(p, CUBLASLT_MATMUL_DESC_TRANSB, second)) ||
        (status = describe_epilogue(p)) ||
        (status = lay_out(&p->a, input_type(s), s->k, s->n, s->b_transposed,
                          s->ldb)) ||
        (status = lay_out(&p->b, input_type(s), s->m, s->k, s->a_transposed,
                          s->lda)) ||
        (status = lay_out(&p->d, output_type(s), s->m, s->n, false, s->ldd));
    return status;
}

/* Tells cuBLASLt the alignments on which an algorithm may rely. If d is a
 * 16-bit type, excludes algorithms that add parts of a sum in 16 bits. */
static cublasStatus_t set_preferences(cublasLtMatmulPreference_t preference,
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

/* Returns true if the status means that cuBLASLt does not support the product
 * and has computed nothing. */
static bool is_refusal(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_NOT_SUPPORTED ||
           status == CUBLAS_STATUS_INVALID_VALUE ||
           status == CUBLAS_STATUS_ARCH_MISMATCH;
}

/* Writes the properties of a product as a key for the file that stores the
 * fastest algorithms (choices.h). */
static void write_key(char key[ES_CHOICE_KEY], const shape *s)
{
    snprintf(key, ES_CHOICE_KEY,
             "%d %d %d %d %d %d %d %d %d %d %d %d %d %u %u %u %u %u %u", s->m,
             s->n, s->k, s->lda, s->ldb, s->ldd, (int)s->type, (int)s->epilogue,
             s->wide, s->a_transposed, s->b_transposed, s->adds, s->in_place,
             s->align_a, s->align_b, s->align_c, s->align_d, s->align_bias,
             s->align_aux);
}

/* Selects the candidate algorithm that the file of choices names for this
 * product. If the file names none, or cuBLASLt now proposes fewer candidates,
 * selects the first. */
static void find_choice(const es_gemm_plans *plans, plan *p)
{
    char key[ES_CHOICE_KEY];
    write_key(key, &p->key);
    const int found = es_choices_find(plans->choices, key);
    p->chosen = found >= 0 && found < p->n_candidates ? found : 0;
    p->is_chosen = p->chosen == found || !plans->choices || p->n_candidates < 2;
}

/* Requests candidate algorithms from cuBLASLt. Sets p->can_run to true if there
 * are any. */
static cublasStatus_t request_candidates(const es_gemm_plans *plans, plan *p)
{
    cublasLtMatmulPreference_t preference = NULL;
    cublasLtMatmulHeuristicResult_t found[ES_MAX_CANDIDATES] = {};
    int n_found = 0;
    cublasStatus_t status;
    (status = cublasLtMatmulPreferenceCreate(&preference)) ||
        (status = set_preferences(preference, &p->key)) ||
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

/* Returns the plan for the product and creates it if there is none. Returns
 * NULL after a failure of the device. */
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
        (status = describe_product(added)) ||
            /* cuBLASLt checks the alignment of these pointers */
            (status = set_pointers(added, product)) ||
            (status = request_candidates(plans, added));
    if (!check_cublas(device, status)) {
        free_plan(added);
        return NULL;
    }
    added->next = plans->first;
    plans->first = added;
    return added;
}

/* --- products ------------------------------------------------------------- */

/* Computes the product with one of its candidate algorithms. Writes the result
 * to d instead of product->d. */
static cublasStatus_t run_candidate(es_device *device,
                                    const es_gemm_plans *plans, const plan *p,
                                    const es_gemm *product, void *d,
                                    int candidate)
{
    const float one = 1, beta = p->key.adds ? product->beta : 0;
    const void *c = p->key.adds && !p->key.in_place ? product->c : d;
    return cublasLtMatmul(plans->handle, p->how, &one, product->b, p->a,
                          product->a, p->b, &beta, c, p->d, d, p->d,
                          &p->candidates[candidate], plans->workspace,
                          WORKSPACE_BYTES, es_device_stream(device));
}

/* Returns the total time of N_REPETITIONS runs of a candidate algorithm in
 * milliseconds. Sets *refused to true and returns 0 if the candidate cannot
 * run. */
static float time_of(es_device *device, const es_gemm_plans *plans,
                     const plan *p, const es_gemm *product, void *d,
                     int candidate, bool *refused)
{
    const cudaStream_t stream = es_device_stream(device);
    float took = 0;
    cublasStatus_t status =
        run_candidate(device, plans, p, product, d, candidate);
    *refused = is_refusal(status);
    if (*refused || !check_cublas(device, status) ||
        !es_device_check(device, "timing a product",
                         cudaEventRecord(plans->begin, stream)))
        return 0;
    for (int i = 0; status == CUBLAS_STATUS_SUCCESS && i < N_REPETITIONS; i++)
        status = run_candidate(device, plans, p, product, d, candidate);
    if (check_cublas(device, status) &&
        es_device_check(device, "timing a product",
                        cudaEventRecord(plans->end, stream)) &&
        es_device_check(device, "timing a product",
                        cudaEventSynchronize(plans->end)))
        es_device_check(device, "timing a product",
                        cudaEventElapsedTime(&took, plans->begin, plans->end));
    return took;
}

/* Times the first N_TIMED candidate algorithms and chooses the fastest. If the
 * product is computed in place, each run would change the next run's input, so
 * the runs write to other memory. */
static void time_candidates(es_device *device, const es_gemm_plans *plans,
                            plan *p, const es_gemm *product)
{
    const size_t bytes = (size_t)p->key.m * (size_t)p->key.ldd * sizeof(float);
    char key[ES_CHOICE_KEY];
    void *apart = NULL;
    float best = 0;
    int chosen = -1;
    p->is_chosen = true; /* set first, because a product is timed only once,
                          * even if timing fails */
    const cudaError_t code =
        p->key.in_place ? cudaMalloc(&apart, bytes) : cudaSuccess;
    if (code != cudaSuccess) {
        (void)cudaGetLastError(); /* resets the runtime's error, so that
                                   * later calls do not report it */
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

/* Computes the product. Returns false if cuBLASLt does not support the fusion
 * with bias or epilogue. */
static bool run_product(es_device *device, const es_gemm_plans *plans, plan *p,
                        const es_gemm *product)
{
    if (!check_cublas(device, set_pointers(p, product)))
        return true;
    if (!p->is_chosen && !es_device_captures(device))
        time_candidates(device, plans, p, product);
    if (es_device_is_in_trouble(device))
        return true;
    const cublasStatus_t status =
        run_candidate(device, plans, p, product, product->d, p->chosen);
    if (is_refusal(status) && is_dispensable(&p->key))
        return false;
    check_cublas(device, status);
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
    if (found->can_run && run_product(device, plans, found, product))
        return true;
    found->can_run = false;
    if (is_dispensable(&found->key))
        return false;
    es_device_trouble_text(device, "a matrix product",
                           "cuBLASLt has no algorithm for its shape");
    return true;
}
