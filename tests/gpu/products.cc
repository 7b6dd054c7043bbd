/* Tests the products of gemm.cu, computed by a fake cuBLASLt, against their
 * definition in gemm.h. tests/cuda/test_cuda_products.sh builds and runs this
 * program. Exit code 1 if a test fails. */
#include "tests/gpu/fake_cublas.h"

/* --- products by definition ----------------------------------------------- */

enum { M = 7, N = 16, K = 5, STRIDE = 24, MOST = 32 * 32 };

static cudaDataType_t type_of(const es_gemm *p, bool output)
{
    if (p->type == ES_GEMM_F32 || p->type == ES_GEMM_TF32 ||
        (output && p->wide))
        return CUDA_R_32F;
    return p->type == ES_GEMM_BF16 ? CUDA_R_16BF : CUDA_R_16F;
}

static void fill(void *out, cudaDataType_t type)
{
    static uint32_t state = 1;
    for (size_t i = 0; i < MOST; i++) {
        state = state * 1664525u + 1013904223u;
        write(type, out, i, (double)(state >> 24) / 64 - 2);
    }
}

static float memory[8][MOST + 64] __attribute__((aligned(256)));

/* Returns true if d and aux (M,N) have the values that gemm.h defines, and if
 * the gaps between their rows are unchanged. was_d and was_aux are the contents
 * before the product. */
static bool is_right(const es_gemm *p, const void *was_d, const void *was_aux)
{
    const cudaDataType_t in = type_of(p, false), out = type_of(p, true);
    const double unit = out == CUDA_R_32F    ? 1e-6
                        : out == CUDA_R_16BF ? 0x1p-8
                                             : 0x1p-11;
    bool right = true;
    for (int i = 0; i < p->m; i++)
        for (int j = 0; j < p->ldd; j++) {
            const size_t at = (size_t)(i * p->ldd + j);
            const double got = read(out, p->d, at);
            double sum =
                p->bias && j < p->n ? read(out, p->bias, (size_t)j) : 0;
            for (int k = 0; k < p->k && j < p->n; k++)
                sum += read(in, p->a,
                            (size_t)(p->a_transposed ? k * p->lda + i
                                                     : i * p->lda + k)) *
                       read(in, p->b,
                            (size_t)(p->b_transposed ? j * p->ldb + k
                                                     : k * p->ldb + j));
            if (p->c)
                sum += p->beta * read(out, p->c == p->d ? was_d : p->c, at);
            double want = p->epilogue == ES_GEMM_GELU ? gelu(sum)
                          : p->epilogue == ES_GEMM_DGELU
                              ? sum * gelu_slope(read(out, p->aux, at))
                              : sum;
            if (j >= p->n)
                want = read(out, was_d, at);
            right = right && fabs(got - want) <= unit * fabs(want) + 1e-5;
            if (!p->aux)
                continue;
            const double aux = read(out, p->aux, at);
            want = p->epilogue == ES_GEMM_GELU && j < p->n
                       ? sum
                       : read(out, was_aux, at);
            right = right && fabs(aux - want) <= unit * fabs(want) + 1e-5;
        }
    return right;
}

/* Properties of a matrix product that the tests vary. */
typedef struct choice {
    es_gemm_type type;
    bool wide, a_transposed, b_transposed, bias;
    int c; /* 0: no matrix c is added; 1: c is a separate matrix; 2: c is the
              result d */
    es_gemm_epilogue epilogue;
    int shift; /* offset of all matrices except bias and aux, in elements */
} choice;

static es_gemm product_of(const choice *how)
{
    es_gemm p = {};
    p.m = M, p.n = N, p.k = K;
    p.type = how->type;
    p.wide = how->wide;
    p.a_transposed = how->a_transposed;
    p.b_transposed = how->b_transposed;
    p.lda = (how->a_transposed ? M : K) + 2;
    p.ldb = (how->b_transposed ? K : N) + 3;
    p.ldd = STRIDE;
    const size_t in = type_of(&p, false) == CUDA_R_32F ? 4 : 2;
    const size_t out = type_of(&p, true) == CUDA_R_32F ? 4 : 2;
    p.a = (char *)memory[0] + (size_t)how->shift * in;
    p.b = (char *)memory[1] + (size_t)how->shift * in;
    p.d = (char *)memory[2] + (size_t)how->shift * out;
    p.c = how->c == 0 ? NULL : how->c == 1 ? memory[3] : p.d;
    p.beta = how->c ? 0.5f : 0;
    p.bias = how->bias ? memory[4] : NULL;
    p.epilogue = how->epilogue;
    p.aux = how->epilogue ? memory[5] : NULL;
    for (int i = 0; i < 8; i++)
        fill(memory[i], type_of(&p, i > 1));
    return p;
}

static bool check(es_device *device, const choice *how, bool offered)
{
    es_gemm p = product_of(how);
    static float was_d[MOST], was_aux[MOST];
    memcpy(was_d, p.d, sizeof was_d);
    memcpy(was_aux, memory[5], sizeof was_aux);
    const int n_run = library.n_run;
    const bool done = es_device_gemm(device, &p);
    if (done != offered || library.n_run - n_run != offered)
        return false;
    return offered ? is_right(&p, was_d, was_aux)
                   : memcmp(was_d, p.d, sizeof was_d) == 0 &&
                         memcmp(was_aux, memory[5], sizeof was_aux) == 0;
}

/* --- tests ---------------------------------------------------------------- */

static int n_failed;

static void report(bool passed, const char *name)
{
    passed = passed && library.n_illegal == 0;
    printf("%s %s\n", passed ? "ok" : "failed", name);
    n_failed += !passed;
    library.n_illegal = 0;
}

static es_device open_one(int major)
{
    es_device device = {};
    device.facts.major = major;
    library.n_queries = library.n_run = 0;
    library.refuses = NEVER;
    library.n_candidates = 0;
    memset(library.took, 0, sizeof library.took);
    return device;
}

/* Computes products with all combinations of properties. Returns true if all
 * results are correct. */
static bool check_all(es_device *device, int *n, int *n_offered)
{
    bool right = true;
    for (int i = 0; i < 4 * 2 * 2 * 2 * 2 * 3 * 3; i++) {
        int left = i;
        const auto next = [&left](int among) {
            const int chosen = left % among;
            left /= among;
            return chosen;
        };
        choice how = {};
        how.type = (es_gemm_type)next(4);
        how.wide = next(2);
        how.a_transposed = next(2);
        how.b_transposed = next(2);
        how.bias = next(2);
        how.c = next(3);
        how.epilogue = (es_gemm_epilogue)next(3);
        const bool narrow = how.type >= ES_GEMM_BF16 && !how.wide;
        const bool offered =
            how.epilogue == ES_GEMM_PLAIN ||
            (narrow && how.c == 0 && device->facts.major == 9 &&
             !(how.bias && how.epilogue == ES_GEMM_DGELU));
        right = check(device, &how, offered) && right;
        *n += 1;
        *n_offered += offered;
    }
    return right && !device->trouble;
}

static void test_products(int major)
{
    char name[100];
    int n = 0, n_offered = 0;
    es_device device = open_one(major);
    const bool right = check_all(&device, &n, &n_offered);
    snprintf(name, sizeof name,
             "with compute capability %d.x, %d of %d products are fused; all "
             "are correct",
             major, n_offered, n);
    report(right && library.n_run == n_offered, name);
    free_plans(device.plans);
}

static void test_plans(void)
{
    es_device device = open_one(9);
    choice how = {};
    how.type = ES_GEMM_BF16;
    how.bias = true;
    how.epilogue = ES_GEMM_GELU;
    bool right = check(&device, &how, true) && check(&device, &how, true);
    right = right && library.n_queries == 1;
    how.shift = 1;
    right = right && check(&device, &how, true) && library.n_queries == 2;
    how.shift = 0;
    es_gemm p = product_of(&how);
    p.aux = (char *)p.aux + 16;
    right = right && es_device_gemm(&device, &p) && library.n_queries == 3;
    p.bias = (const char *)p.bias + 16;
    right = right && es_device_gemm(&device, &p) && library.n_queries == 4;
    report(right, "each combination of alignments has a separate plan");
    p.aux = (char *)p.aux + 2;
    right = !es_device_gemm(&device, &p);
    p.aux = (char *)p.aux - 2;
    p.bias = (const char *)p.bias + 8;
    right = right && !es_device_gemm(&device, &p);
    p.bias = NULL;
    p.ldd = N + 4;
    report(
        right && !es_device_gemm(&device, &p) && library.n_queries == 4,
        "cuBLASLt receives no request to fuse products of unsuitable layout");
    free_plans(device.plans);
}

static void test_refusals(void)
{
    static const cublasStatus_t codes[] = {CUBLAS_STATUS_NOT_SUPPORTED,
                                           CUBLAS_STATUS_INVALID_VALUE,
                                           CUBLAS_STATUS_ARCH_MISMATCH};
    bool right = true;
    for (int kind = NONE_FOUND; kind <= WHEN_RUN; kind++)
        for (cublasStatus_t code : codes) {
            es_device device = open_one(9);
            choice how = {};
            how.type = ES_GEMM_FP16;
            library.refuses = (refusal)kind;
            library.code = code;
            right = right && check(&device, &how, true);
            how.bias = true;
            right = right && check(&device, &how, false);
            how.epilogue = ES_GEMM_GELU;
            right = right && check(&device, &how, false);
            right = right && check(&device, &how, false);
            right = right && library.n_queries == 3 && !device.trouble;
            free_plans(device.plans);
        }
    report(right, "every kind of refusal is returned to the caller");
    es_device device = open_one(9);
    choice how = {};
    how.bias = true;
    library.refuses = WHEN_RUN;
    library.code = CUBLAS_STATUS_EXECUTION_FAILED;
    es_gemm p = product_of(&how);
    report(es_device_gemm(&device, &p) && device.trouble,
           "an error during a run is reported and does not count as a refusal");
    free_plans(device.plans);
}

/* --- choices -------------------------------------------------------------- */

/* Number of times that a product is computed when it is timed: 6 times with
 * each of the 3 candidate algorithms. */
enum { TIMING = 3 * 6 };

static char path[4096];

static void write_text(const char *text)
{
    FILE *file = fopen(path, "w");
    fputs(text, file);
    fclose(file);
}

static void read_text(char *out, size_t size)
{
    FILE *file = fopen(path, "r");
    out[file ? fread(out, 1, size - 1, file) : 0] = 0;
    if (file)
        fclose(file);
}

static choice plain_choice(void)
{
    choice how = {};
    how.type = ES_GEMM_BF16;
    return how;
}

/* On a new device, computes a product whose candidate algorithms take the times
 * in `took`. Returns true if the number of runs, the candidate that ran last,
 * and the result are as expected. */
static bool run_with(const float took[3], const choice *how, int want_runs,
                     int want_candidate, bool captures)
{
    static float was_d[MOST], was_aux[MOST];
    es_device device = open_one(9);
    memcpy(library.took, took, 3 * sizeof *took);
    es_gemm p = product_of(how);
    memcpy(was_d, p.d, sizeof was_d);
    memcpy(was_aux, memory[5], sizeof was_aux);
    device.captures = captures;
    const bool right = es_device_gemm(&device, &p) &&
                       is_right(&p, was_d, was_aux) &&
                       library.n_run == want_runs &&
                       library.last == want_candidate && !device.trouble;
    free_plans(device.plans);
    return right;
}

/* Opens a new device. Returns true if its warning about the file with the
 * stored choices of algorithms contains `part`, or if there is no warning and
 * `part` is NULL. */
static bool note_has(const char *part)
{
    es_device device = open_one(9);
    const char *note = es_gemm_note(&device);
    const bool has =
        part ? strstr(note, part) && !strchr(note, '\n') : note[0] == 0;
    if (!has)
        fprintf(stderr, "note: %s\n", note);
    free_plans(device.plans);
    return has;
}

static void test_timing(void)
{
    static const float second[] = {5, 3, 4}, third[] = {5, 4.95f, 4};
    static const float close[] = {5, 4.95f, 5}, refuses[] = {0, 6, 5};
    const choice how = plain_choice();
    choice adds = how;
    adds.c = 2;
    remove(path);
    report(run_with(second, &how, TIMING + 1, 1, false) &&
               run_with(close, &how, 1, 1, false) && note_has(NULL),
           "the fastest candidate is chosen, and the choice is stored in the "
           "file");
    report(run_with(third, &adds, TIMING + 1, 2, false),
           "timing a product in place does not change its result");
    remove(path);
    report(run_with(close, &how, TIMING + 1, 0, false),
           "the first candidate is kept unless another is 2 % faster");
    remove(path);
    report(run_with(refuses, &how, TIMING - 6 + 1, 2, false),
           "a refused candidate is not chosen");
    remove(path);
    report(run_with(second, &how, 1, 0, true) &&
               run_with(second, &how, TIMING + 1, 1, false),
           "no product is timed while a CUDA graph is captured");
}

/* Writes `text` to the file with the stored choices of algorithms. Returns true
 * if this causes the warning `note`, and if the product is then timed again and
 * the file is corrected. */
static bool survives(const char *text, const char *note)
{
    static const float took[] = {5, 3, 4};
    const choice how = plain_choice();
    char now_there[1000];
    write_text(text);
    if (!note_has(note))
        return false;
    write_text(text);
    const bool right = run_with(took, &how, TIMING + 1, 1, false);
    read_text(now_there, sizeof now_there);
    return right && strcmp(text, now_there) != 0 && note_has(NULL);
}

static void test_files(void)
{
    static const float took[] = {5, 3, 4};
    const choice how = plain_choice();
    char good[1000], text[1100], *end;
    remove(path);
    bool right = run_with(took, &how, TIMING + 1, 1, false);
    read_text(good, sizeof good);
    right = right && survives("", "line 1 is malformed") &&
            survives("something else\n", "line 1 is malformed");
    snprintf(text, sizeof text, "%s", good);
    *strchr(strchr(text, '\n') + 1, ',') = '!';
    right = right && survives(text, "line 2 is malformed");
    const char *const last[] = {"%sx 1\n", "%s 1\n",   "%s7 8\n", "%s7 12\n",
                                "%s7\n",   "%s7 -1\n", "%s\n",    "%s7 1"};
    for (const char *format : last) {
        snprintf(text, sizeof text, format, good);
        right = right && survives(text, "line 4 is malformed");
    }
    end = strchr(strchr(good, '\n') + 1, '\n') + 1;
    snprintf(text, sizeof text, "%s%s", good, end);
    right = right && survives(text, "line 4 is malformed"); /* duplicate */
    memset(text, '7', sizeof text);
    text[sizeof text - 1] = 0;
    right = right && survives(text, "line 1 is malformed");
    report(right, "a file with an error is not used");
    snprintf(text, sizeof text, "%s", good);
    text[strlen(text) - 2] = '7';
    write_text(text);
    es_device device = open_one(9);
    library.n_candidates = 2;
    es_gemm p = product_of(&how);
    report(es_device_gemm(&device, &p) && library.n_run == TIMING - 6 + 1 &&
               !device.trouble,
           "a product is timed again if cuBLASLt lacks the stored algorithm");
    free_plans(device.plans);
}

static void test_places(void)
{
    static const float took[] = {5, 3, 4};
    const choice how = plain_choice();
    char folder[4096 + 20];
    snprintf(folder, sizeof folder, "%s.none/file", path);
    setenv("ENTROPY_TRAIN_TUNING", folder, 1);
    bool right =
        note_has("cannot be written, so matrix products are not timed") &&
        run_with(took, &how, 1, 0, false);
    setenv("ENTROPY_TRAIN_TUNING", "off", 1);
    right = right && note_has(NULL) && run_with(took, &how, 1, 0, false);
    unsetenv("ENTROPY_TRAIN_TUNING");
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    right = right && note_has("there is no cache folder") &&
            run_with(took, &how, 1, 0, false);
    snprintf(folder, sizeof folder, "%s.cache", path);
    setenv("XDG_CACHE_HOME", folder, 1);
    right = right && run_with(took, &how, TIMING + 1, 1, false) &&
            run_with(took, &how, 1, 1, false);
    report(right, "products are only timed if their choices can be stored");
}

/* --- the listing ---------------------------------------------------------- */

/* Runs three products: without bias and GELU, with bias, and with bias and
 * GELU. Returns the number of products that were computed. */
static int run_three(int major, refusal refuses)
{
    int n = 0;
    es_device device = open_one(major);
    choice how = plain_choice();
    library.refuses = refuses;
    library.code = CUBLAS_STATUS_NOT_SUPPORTED;
    for (int i = 0; i < 3; i++) {
        how.bias = i > 0;
        how.epilogue = i > 1 ? ES_GEMM_GELU : ES_GEMM_PLAIN;
        es_gemm p = product_of(&how);
        n += es_device_gemm(&device, &p);
    }
    free_plans(device.plans);
    return n;
}

static void test_listing(void)
{
    static const char *const wanted =
        "m 7 n 16 k 5 bf16 nn bias gelu: fused, candidate 0 of 8\n"
        "m 7 n 16 k 5 bf16 nn bias: fused, candidate 0 of 8\n"
        "m 7 n 16 k 5 bf16 nn: nothing to fuse, candidate 0 of 8\n"
        "m 7 n 16 k 5 bf16 nn bias gelu: not fused, not requested\n"
        "m 7 n 16 k 5 bf16 nn bias: not fused, no algorithm\n"
        "m 7 n 16 k 5 bf16 nn: nothing to fuse, candidate 0 of 8\n"
        "m 7 n 16 k 5 bf16 nn bias gelu: not fused, refused\n"
        "m 7 n 16 k 5 bf16 nn bias: not fused, refused\n"
        "m 7 n 16 k 5 bf16 nn: nothing to fuse, candidate 0 of 8\n";
    char text[1000], folder[4096 + 20];
    remove(path);
    setenv("ENTROPY_TRAIN_PLANS", path, 1);
    bool right = run_three(9, NEVER) == 3 && run_three(8, NONE_FOUND) == 1 &&
                 run_three(9, WHEN_RUN) == 1;
    read_text(text, sizeof text);
    right = right && strcmp(text, wanted) == 0;
    if (!right)
        fputs(text, stderr);
    snprintf(folder, sizeof folder, "%s.none/file", path);
    setenv("ENTROPY_TRAIN_PLANS", folder, 1);
    report(right &&
               note_has(
                   "cannot be written; the matrix products will not be listed"),
           "the plans of all products are listed");
    unsetenv("ENTROPY_TRAIN_PLANS");
}

int main(int argc, char **argv)
{
    snprintf(path, sizeof path, "%s/choices", argc > 1 ? argv[1] : ".");
    setenv("ENTROPY_TRAIN_TUNING", path, 1);
    test_timing();
    test_files();
    test_places();
    setenv("ENTROPY_TRAIN_TUNING", "off", 1);
    test_products(9);
    test_products(8);
    test_plans();
    test_refusals();
    test_listing();
    return n_failed != 0;
}
