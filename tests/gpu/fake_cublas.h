/**
 * Defines a fake device and a fake cuBLASLt, and includes gemm.cu itself. The
 * fake cuBLASLt checks the description of each product against cuBLASLt's
 * documentation, and computes the product as documented, in column order, on
 * the host. This header may be included only once.
 */
#ifndef ES_TESTS_GPU_FAKE_CUBLAS_H
#define ES_TESTS_GPU_FAKE_CUBLAS_H

#include <math.h>
#include <stdio.h>

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define __CUDACC__ 1 /* makes device.h use CUDA's types */
#include "hooks/trainer/cuda/gemm.cu"

/* --- the device ----------------------------------------------------------- */

struct es_device {
    es_device_facts facts;
    es_gemm_plans *plans;
    bool trouble, captures;
};

bool es_device_captures(const es_device *device)
{
    return device->captures;
}

void es_device_set_gemm_plans(es_device *device, es_gemm_plans *plans,
                              void (*)(es_gemm_plans *))
{
    device->plans = plans;
}

es_gemm_plans *es_device_gemm_plans(const es_device *device)
{
    return device->plans;
}

bool es_device_check(es_device *device, const char *, cudaError_t code)
{
    device->trouble = device->trouble || code != cudaSuccess;
    return code == cudaSuccess;
}

void es_device_trouble_text(es_device *device, const char *, const char *)
{
    device->trouble = true;
}

bool es_device_is_in_trouble(const es_device *device)
{
    return device->trouble;
}

const es_device_facts *es_device_facts_of(const es_device *device)
{
    return &device->facts;
}

cudaStream_t es_device_stream(es_device *)
{
    return NULL;
}

cudaError_t cudaMalloc(void **out, size_t bytes)
{
    *out = aligned_alloc(256, (bytes + 255) / 256 * 256);
    return *out ? cudaSuccess : cudaErrorMemoryAllocation;
}

cudaError_t cudaFree(void *memory)
{
    free(memory);
    return cudaSuccess;
}

cudaError_t cudaGetLastError(void)
{
    return cudaSuccess;
}

/* Clock of the fake device, in milliseconds. Products add their times to the
 * clock, and events read the clock. */
static float now;

cudaError_t cudaEventCreate(cudaEvent_t *out)
{
    *out = (cudaEvent_t)calloc(1, sizeof now);
    return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t old)
{
    free(old);
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t)
{
    memcpy((void *)event, &now, sizeof now);
    return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t)
{
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *out, cudaEvent_t from, cudaEvent_t to)
{
    float begin, end;
    memcpy(&begin, (void *)from, sizeof begin);
    memcpy(&end, (void *)to, sizeof end);
    *out = end - begin;
    return cudaSuccess;
}

/* --- cuBLASLt ------------------------------------------------------------- */

typedef struct layout {
    cudaDataType_t type;
    uint64_t rows, columns;
    int64_t stride;
} layout;

typedef struct description {
    cublasComputeType_t compute;
    cublasOperation_t op_a, op_b;
    cublasLtEpilogue_t epilogue;
    int32_t bias_type, aux_type; /* cudaDataType_t, or -1 */
    const void *bias;
    void *aux;
    int64_t aux_stride;
} description;

typedef struct preference {
    uint64_t workspace;
    uint32_t reductions, alignments[4]; /* alignments: of a, b, c, d */
} preference;

/* Properties of the operands on which an algorithm may rely. */
typedef struct reliance {
    uint32_t alignments[4], bias, aux;
    uint64_t workspace;
    int candidate;
} reliance;

enum refusal { NEVER, NONE_FOUND, BAD_STATE, BY_STATUS, WHEN_RUN };

static struct {
    refusal refuses; /* how the fake refuses products that have an epilogue */
    cublasStatus_t code;
    int n_queries, n_run, n_illegal;
    int n_candidates; /* maximum number of candidate algorithms that the fake
                         proposes; 0 to propose as many as requested */
    /* Time of each candidate algorithm. An algorithm with time 0 fails when it
     * runs, unless candidate 1 also has time 0. */
    float took[ES_MAX_CANDIDATES];
    int last; /* index of the candidate algorithm that ran last */
} library;

static void require(bool legal, const char *what)
{
    if (legal)
        return;
    library.n_illegal++;
    fprintf(stderr, "illegal: %s\n", what);
}

static uint32_t alignment(const void *memory)
{
    uint32_t bytes = 256;
    while ((uintptr_t)memory % bytes != 0)
        bytes /= 2;
    return bytes;
}

cublasStatus_t cublasLtCreate(cublasLtHandle_t *out)
{
    *out = (cublasLtHandle_t)malloc(1);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtDestroy(cublasLtHandle_t old)
{
    free(old);
    return CUBLAS_STATUS_SUCCESS;
}

size_t cublasLtGetVersion(void)
{
    return 130000;
}

const char *cublasLtGetStatusName(cublasStatus_t)
{
    return "a status";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t *out,
                                        cublasComputeType_t compute,
                                        cudaDataType_t scale)
{
    description *d = (description *)calloc(1, sizeof *d);
    require(scale == CUDA_R_32F, "alpha and beta are not f32");
    d->compute = compute;
    d->op_a = d->op_b = CUBLAS_OP_N;
    d->epilogue = CUBLASLT_EPILOGUE_DEFAULT;
    d->bias_type = d->aux_type = -1;
    *out = (cublasLtMatmulDesc_t)d;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t old)
{
    free(old);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t how,
                               cublasLtMatmulDescAttributes_t what,
                               const void *value, size_t bytes)
{
    description *d = (description *)how;
    const struct {
        cublasLtMatmulDescAttributes_t what;
        void *at;
        size_t bytes;
    } known[] = {
        {CUBLASLT_MATMUL_DESC_TRANSA, &d->op_a, 4},
        {CUBLASLT_MATMUL_DESC_TRANSB, &d->op_b, 4},
        {CUBLASLT_MATMUL_DESC_EPILOGUE, &d->epilogue, 4},
        {CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &d->bias_type, 4},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_DATA_TYPE, &d->aux_type, 4},
        {CUBLASLT_MATMUL_DESC_BIAS_POINTER, &d->bias, 8},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_POINTER, &d->aux, 8},
        {CUBLASLT_MATMUL_DESC_EPILOGUE_AUX_LD, &d->aux_stride, 8},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].what == what && known[i].bytes == bytes) {
            memcpy(known[i].at, value, bytes);
            return CUBLAS_STATUS_SUCCESS;
        }
    require(false, "unknown attribute of a product");
    return CUBLAS_STATUS_INVALID_VALUE;
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t *out,
                                          cudaDataType_t type, uint64_t rows,
                                          uint64_t columns, int64_t stride)
{
    layout *l = (layout *)malloc(sizeof *l);
    *l = {type, rows, columns, stride};
    require(rows > 0 && columns > 0 && stride >= (int64_t)rows,
            "a matrix is empty, or its stride is too small");
    *out = (cublasLtMatrixLayout_t)l;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t old)
{
    free(old);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t *out)
{
    preference *p = (preference *)malloc(sizeof *p);
    *p = {0, CUBLASLT_REDUCTION_SCHEME_MASK, {256, 256, 256, 256}};
    *out = (cublasLtMatmulPreference_t)p;
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t old)
{
    free(old);
    return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t
cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t pref,
                                     cublasLtMatmulPreferenceAttributes_t what,
                                     const void *value, size_t bytes)
{
    preference *p = (preference *)pref;
    const int first = CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES;
    if (what == CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES && bytes == 8)
        memcpy(&p->workspace, value, bytes);
    else if (what == CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK && bytes == 4)
        memcpy(&p->reductions, value, bytes);
    else if (what >= first && what < first + 4 && bytes == 4)
        memcpy(&p->alignments[what - first], value, bytes);
    else
        require(false, "unknown attribute of a preference");
    return CUBLAS_STATUS_SUCCESS;
}

static bool has_aux(const description *d)
{
    return (int)d->epilogue & 128; /* all epilogues that read or write aux
                                    * have this bit */
}

static bool has_bias(const description *d)
{
    return (int)d->epilogue & CUBLASLT_EPILOGUE_BIAS;
}

/* rows_of returns the number of rows of op(matrix), and columns_of the number
 * of columns. */
static uint64_t rows_of(const layout *l, cublasOperation_t op)
{
    return op == CUBLAS_OP_N ? l->rows : l->columns;
}

static uint64_t columns_of(const layout *l, cublasOperation_t op)
{
    return op == CUBLAS_OP_N ? l->columns : l->rows;
}

/* Checks a product against the rules of cublasLtMatmul and of its attributes.
 * Prints and counts each violation. */
static void judge(const description *how, const layout *a, const layout *b,
                  const layout *c, const layout *d)
{
    const bool wide = a->type == CUDA_R_32F;
    require(rows_of(a, how->op_a) == d->rows &&
                columns_of(b, how->op_b) == d->columns &&
                columns_of(a, how->op_a) == rows_of(b, how->op_b),
            "the sizes of the matrices do not match");
    require(memcmp(c, d, sizeof *c) == 0, "c and d have different layouts");
    require(a->type == b->type && (d->type == a->type || d->type == CUDA_R_32F),
            "the types of the matrices do not match");
    require(wide ? how->compute == CUBLAS_COMPUTE_32F_PEDANTIC ||
                       how->compute == CUBLAS_COMPUTE_32F_FAST_TF32
                 : how->compute == CUBLAS_COMPUTE_32F,
            "the type of the computation does not match the matrices");
    if (has_bias(how))
        require(how->bias && how->bias_type == d->type,
                "the bias has no address or the wrong type");
    if (has_aux(how))
        require(how->aux && how->aux_type == d->type &&
                    how->aux_stride % 8 == 0 &&
                    how->aux_stride >= (int64_t)d->rows &&
                    alignment(how->aux) >= 16 && d->type != CUDA_R_32F,
                "aux");
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(
    cublasLtHandle_t, cublasLtMatmulDesc_t desc, cublasLtMatrixLayout_t a,
    cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c,
    cublasLtMatrixLayout_t d, cublasLtMatmulPreference_t pref, int n_wanted,
    cublasLtMatmulHeuristicResult_t *found, int *n_found)
{
    const description *how = (const description *)desc;
    const preference *p = (const preference *)pref;
    const bool refused = how->epilogue != CUBLASLT_EPILOGUE_DEFAULT;
    reliance on = {
        {}, alignment(how->bias), alignment(how->aux), p->workspace, 0};
    library.n_queries++;
    judge(how, (layout *)a, (layout *)b, (layout *)c, (layout *)d);
    require(((layout *)d)->type == CUDA_R_32F ||
                p->reductions == CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE,
            "partial sums are added in 16 bits");
    if (library.n_candidates > 0 && library.n_candidates < n_wanted)
        n_wanted = library.n_candidates;
    *n_found = refused && library.refuses == NONE_FOUND ? 0 : n_wanted;
    if (refused && library.refuses == BY_STATUS)
        return library.code;
    memcpy(on.alignments, p->alignments, sizeof on.alignments);
    static_assert(sizeof on <= sizeof found->algo,
                  "the fake's data must fit in an algorithm");
    for (int i = 0; i < *n_found; i++) {
        memset(&found[i], 0xff, sizeof found[i]);
        on.candidate = i;
        memcpy(&found[i].algo, &on, sizeof on);
        found[i].state = refused && library.refuses == BAD_STATE
                             ? CUBLAS_STATUS_NOT_SUPPORTED
                             : CUBLAS_STATUS_SUCCESS;
    }
    return CUBLAS_STATUS_SUCCESS;
}

static double read(int32_t type, const void *from, size_t at)
{
    if (type == CUDA_R_32F)
        return ((const float *)from)[at];
    return type == CUDA_R_16F
               ? __half2float(((const __half *)from)[at])
               : __bfloat162float(((const __nv_bfloat16 *)from)[at]);
}

static void write(int32_t type, void *to, size_t at, double x)
{
    if (type == CUDA_R_32F)
        ((float *)to)[at] = (float)x;
    else if (type == CUDA_R_16F)
        ((__half *)to)[at] = __float2half_rn((float)x);
    else
        ((__nv_bfloat16 *)to)[at] = __float2bfloat16_rn((float)x);
}

static double gelu(double x)
{
    return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

static double gelu_slope(double x)
{
    return (gelu(x + 1e-5) - gelu(x - 1e-5)) / 2e-5;
}

/* Returns the element in row i and column j of op(matrix). The matrix is stored
 * in column order. */
static double element(const layout *l, const void *from, cublasOperation_t op,
                      uint64_t i, uint64_t j)
{
    const uint64_t stride = (uint64_t)l->stride;
    return read(l->type, from,
                op == CUBLAS_OP_N ? i + j * stride : j + i * stride);
}

/* Applies the epilogue to the sum in row i and column j. */
static double finish(const description *how, uint64_t i, uint64_t j, double sum)
{
    const size_t at = (size_t)(i + j * (uint64_t)how->aux_stride);
    if (has_bias(how))
        sum += read(how->bias_type, how->bias, i);
    switch (how->epilogue) {
    case CUBLASLT_EPILOGUE_GELU_AUX:
    case CUBLASLT_EPILOGUE_GELU_AUX_BIAS:
        write(how->aux_type, how->aux, at, sum);
        return gelu(sum);
    case CUBLASLT_EPILOGUE_DGELU:
        return sum * gelu_slope(read(how->aux_type, how->aux, at));
    default:
        require(how->epilogue == CUBLASLT_EPILOGUE_DEFAULT ||
                    how->epilogue == CUBLASLT_EPILOGUE_BIAS,
                "an epilogue");
        return sum;
    }
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t desc,
                              const void *alpha, const void *a,
                              cublasLtMatrixLayout_t of_a, const void *b,
                              cublasLtMatrixLayout_t of_b, const void *beta,
                              const void *c, cublasLtMatrixLayout_t of_c,
                              void *d, cublasLtMatrixLayout_t of_d,
                              const cublasLtMatmulAlgo_t *algorithm,
                              void *workspace, size_t bytes, cudaStream_t)
{
    const description *how = (const description *)desc;
    const layout *la = (layout *)of_a, *lb = (layout *)of_b,
                 *ld = (layout *)of_d;
    const float scale = *(const float *)alpha, old = *(const float *)beta;
    const void *all[4] = {a, b, c, d};
    const uint64_t n = columns_of(la, how->op_a);
    reliance on;
    if (how->epilogue != CUBLASLT_EPILOGUE_DEFAULT &&
        library.refuses == WHEN_RUN)
        return library.code;
    memcpy(&on, algorithm, sizeof on);
    if (library.took[1] != 0 && library.took[on.candidate] == 0)
        return CUBLAS_STATUS_NOT_SUPPORTED;
    library.n_run++;
    library.last = on.candidate;
    now += library.took[on.candidate];
    judge(how, la, lb, (layout *)of_c, ld);
    for (int i = 0; i < 4; i++)
        require(alignment(all[i]) >= on.alignments[i], "a matrix's alignment");
    require(!has_bias(how) || alignment(how->bias) >= on.bias, "bias's");
    require(!has_aux(how) || alignment(how->aux) >= on.aux, "aux's");
    require(bytes >= on.workspace && alignment(workspace) == 256, "workspace");
    for (uint64_t j = 0; j < ld->columns; j++)
        for (uint64_t i = 0; i < ld->rows; i++) {
            const size_t at = (size_t)(i + j * (uint64_t)ld->stride);
            double sum = 0;
            for (uint64_t k = 0; k < n; k++)
                sum += element(la, a, how->op_a, i, k) *
                       element(lb, b, how->op_b, k, j);
            sum = scale * sum + (old != 0 ? old * read(ld->type, c, at) : 0);
            write(ld->type, d, at, finish(how, i, j, sum));
        }
    return CUBLAS_STATUS_SUCCESS;
}

#endif
