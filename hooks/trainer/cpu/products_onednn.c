/* Computes products with oneDNN 2 on processors with AVX-512, and in bfloat16
 * on processors with AMX. The program loads the library on demand, so it also
 * starts on a machine without oneDNN. If the program is built without oneDNN's
 * headers, it reports that oneDNN is unavailable. Creating a oneDNN primitive
 * (a prepared product of one shape) takes far longer than computing a small
 * product, so each thread caches its primitives. */
#include "hooks/trainer/cpu/products.h"

#include "hooks/trainer/cpu/transpose.h"

#include <stdlib.h>

#define ENVIRONMENT "ENTROPY_TRAIN_ONEDNN"

#if __has_include(<oneapi/dnnl/dnnl.h>)
#include <oneapi/dnnl/dnnl.h>
#endif

#if defined(DNNL_VERSION_MAJOR) && DNNL_VERSION_MAJOR == 2 &&                  \
    DNNL_CPU_RUNTIME == DNNL_RUNTIME_OMP
#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#define SONAME "libdnnl.so.2"
#define ALIGNMENT 64

#define FUNCTIONS(F)                                                           \
    F(version)                                                                 \
    F(get_effective_cpu_isa)                                                   \
    F(engine_create)                                                           \
    F(stream_create)                                                           \
    F(stream_destroy)                                                          \
    F(memory_desc_init_by_strides)                                             \
    F(memory_desc_get_size)                                                    \
    F(memory_create)                                                           \
    F(memory_set_data_handle)                                                  \
    F(memory_destroy)                                                          \
    F(matmul_desc_init)                                                        \
    F(post_ops_create)                                                         \
    F(post_ops_destroy)                                                        \
    F(post_ops_append_sum)                                                     \
    F(post_ops_append_binary)                                                  \
    F(primitive_attr_create)                                                   \
    F(primitive_attr_destroy)                                                  \
    F(primitive_attr_set_post_ops)                                             \
    F(primitive_attr_set_scratchpad_mode)                                      \
    F(primitive_desc_create)                                                   \
    F(primitive_desc_query)                                                    \
    F(primitive_desc_query_md)                                                 \
    F(primitive_desc_destroy)                                                  \
    F(primitive_create)                                                        \
    F(primitive_execute)                                                       \
    F(primitive_destroy)

/* Pointers to the functions of the loaded library: onednn.NAME points to
 * dnnl_NAME. */
#define MEMBER(name) __typeof__(dnnl_##name) *name;
static struct {
    FUNCTIONS(MEMBER)
    void (*set_n_threads)(int); /* omp_set_num_threads, which applies to the
                                 * calling thread */
    dnnl_engine_t engine;
} onednn;

/* --- opening -------------------------------------------------------------- */

static bool find_symbol(void *library, const char *name, void *function)
{
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, sizeof symbol);
    return symbol != NULL;
}

static bool find_all(void *library)
{
#define FIND(name) &&find_symbol(library, "dnnl_" #name, &onednn.name)
    /* oneDNN itself loads the OpenMP library, which defines
     * omp_set_num_threads. */
    return true FUNCTIONS(FIND) &&
           find_symbol(library, "omp_set_num_threads", &onednn.set_n_threads);
}

#define REMEDY "use --products openblas"

/* Returns ES_OK if the program can use the loaded library, otherwise an error
 * that states why not. */
static es_status check_library(void *library, const char *path)
{
    if (!find_all(library))
        return es_fail(ES_EIO, "%s: not oneDNN 2 with OpenMP: " REMEDY, path);
    const int major = onednn.version()->major;
    if (major != DNNL_VERSION_MAJOR)
        return es_fail(
            ES_EVERSION,
            "%s: oneDNN %d, but this program is built for version %d: " REMEDY,
            path, major, DNNL_VERSION_MAJOR);
    if (onednn.engine_create(&onednn.engine, dnnl_cpu, 0) != dnnl_success)
        return es_fail(ES_EIO, "%s: oneDNN cannot create a CPU engine: " REMEDY,
                       path);
    return ES_OK;
}

/* Loads the library. The library is never unloaded, not even if the program
 * cannot use it, because threads that the library has started need its code. */
static es_status load_library(void)
{
    const char *given = getenv(ENVIRONMENT);
    const char *path = given && *given ? given : SONAME;
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) { /* dlerror's message usually begins with the path */
        const char *why = dlerror();
        const bool is_named = why && strncmp(why, path, strlen(path)) == 0;
        return es_fail(ES_EIO, "%s%s%s: install libdnnl2, or " REMEDY,
                       is_named ? "" : path, is_named ? "" : ": ",
                       why ? why : "cannot be loaded");
    }
    return check_library(library, path);
}

/* --- a thread's primitives ------------------------------------------------ */

enum { NO_RESIDUAL, OTHER_RESIDUAL, ADDS, N_KEY = 12 };

/* A oneDNN primitive for one shape and kind of product, and the key under which
 * it is cached. */
typedef struct prepared {
    int key[N_KEY];
    unsigned long used;         /* value of n_calls when the primitive was
                                 * last used */
    bool is_known;              /* true if `key` and the members below are
                                 * set */
    dnnl_primitive_t primitive; /* NULL if oneDNN has no code for this
                                 * product */
    dnnl_memory_t a, b, c, bias, residual, scratch;
} prepared;

/* Size of a thread's cache: N_SETS sets of N_WAYS slots each. A product's key
 * selects the set in which its primitive is stored. */
enum { N_SETS = 64, N_WAYS = 8 };

typedef struct own {
    prepared sets[N_SETS][N_WAYS];
    unsigned long n_calls;
    dnnl_stream_t stream;
    void *scratch; /* scratch memory that all primitives share */
    size_t scratch_size;
    es_bfloat *turned; /* buffer of multiply_turned */
    size_t turned_size;
} own;

static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key_of_own;
static es_status opened = ES_EIO;
static char trouble[ES_MESSAGE_MAX]; /* reason why the library could not be
                                      * opened */
static atomic_bool is_exhausted;     /* true if a product has run out of
                                      * memory */

static void clear_slot(prepared *slot)
{
    dnnl_memory_t const memories[] = {
        slot->a, slot->b, slot->c, slot->bias, slot->residual, slot->scratch};
    for (size_t i = 0; i < sizeof memories / sizeof *memories; i++)
        onednn.memory_destroy(memories[i]);
    onednn.primitive_destroy(slot->primitive);
    *slot = (prepared){.is_known = false};
}

static void free_own(void *pointer)
{
    own *mine = pointer;
    for (size_t i = 0; i < N_SETS * N_WAYS; i++)
        clear_slot(&mine->sets[i / N_WAYS][i % N_WAYS]);
    onednn.stream_destroy(mine->stream);
    free(mine->scratch);
    free(mine->turned);
    free(mine);
}

static void open_once(void)
{
    opened = load_library();
    if (opened == ES_OK && pthread_key_create(&key_of_own, free_own) != 0)
        opened = es_fail(ES_ENOMEM,
                         "no thread-specific key left for oneDNN: " REMEDY);
    if (opened != ES_OK)
        snprintf(trouble, sizeof trouble, "%s", es_message());
}

/* Returns the calling thread's cache, or NULL if there is not enough memory. */
static own *find_own(void)
{
    own *mine = pthread_getspecific(key_of_own);
    if (mine)
        return mine;
    mine = calloc(1, sizeof *mine);
    if (mine &&
        (onednn.stream_create(&mine->stream, onednn.engine,
                              dnnl_stream_default_flags) != dnnl_success ||
         pthread_setspecific(key_of_own, mine) != 0)) {
        onednn.stream_destroy(mine->stream);
        free(mine);
        mine = NULL;
    }
    if (mine) /* oneDNN must not start threads for calls of this thread */
        onednn.set_n_threads(1);
    return mine;
}

/* --- primitives ----------------------------------------------------------- */

/* oneDNN's descriptions of the operands of a call. */
typedef struct operands {
    dnnl_memory_desc_t a, b, bias, c;
} operands;

static dnnl_status_t describe_matrix(dnnl_memory_desc_t *out, int n_rows,
                                     int n_columns, int stride, bool transposed,
                                     es_number_type type)
{
    const dnnl_dims_t dims = {n_rows, n_columns};
    const dnnl_dims_t strides = {transposed ? 1 : stride,
                                 transposed ? stride : 1};
    return onednn.memory_desc_init_by_strides(
        out, 2, dims, type == ES_NUMBER_F32 ? dnnl_f32 : dnnl_bf16, strides);
}

static dnnl_status_t describe_operands(operands *out, const es_product *p)
{
    dnnl_status_t status;
    if ((status = describe_matrix(&out->a, p->m, p->k, p->a_stride,
                                  p->a_transposed, p->in)) != dnnl_success ||
        (status = describe_matrix(&out->b, p->k, p->n, p->b_stride,
                                  p->b_transposed, p->in)) != dnnl_success ||
        (status = describe_matrix(&out->bias, 1, p->n, p->n, false,
                                  ES_NUMBER_F32)) != dnnl_success)
        return status;
    return describe_matrix(&out->c, p->m, p->n, p->c_stride, false, p->out);
}

/* Creates attributes which add the operand `residual` to the product, and which
 * make oneDNN use scratch memory provided by the caller, since oneDNN's own
 * scratch memory would be shared between threads. */
static dnnl_status_t make_attributes(dnnl_primitive_attr_t *out, int residual,
                                     const dnnl_memory_desc_t *c)
{
    dnnl_post_ops_t after = NULL;
    dnnl_status_t status = onednn.primitive_attr_create(out);
    if (status == dnnl_success)
        status = onednn.primitive_attr_set_scratchpad_mode(
            *out, dnnl_scratchpad_mode_user);
    if (status == dnnl_success)
        status = onednn.post_ops_create(&after);
    if (status == dnnl_success && residual == ADDS)
        status = onednn.post_ops_append_sum(after, 1);
    if (status == dnnl_success && residual == OTHER_RESIDUAL)
        status = onednn.post_ops_append_binary(after, dnnl_binary_add, c);
    if (status == dnnl_success)
        status = onednn.primitive_attr_set_post_ops(*out, after);
    onednn.post_ops_destroy(after);
    return status;
}

static dnnl_status_t describe_product(dnnl_primitive_desc_t *out,
                                      operands *memory, const es_product *p,
                                      bool has_bias, int residual)
{
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_matmul_desc_t product;
    dnnl_status_t status = describe_operands(memory, p);
    if (status == dnnl_success)
        status = make_attributes(&attributes, residual, &memory->c);
    if (status == dnnl_success)
        status = onednn.matmul_desc_init(&product, &memory->a, &memory->b,
                                         has_bias ? &memory->bias : NULL,
                                         &memory->c);
    if (status == dnnl_success)
        status = onednn.primitive_desc_create(out, &product, attributes,
                                              onednn.engine, NULL);
    onednn.primitive_attr_destroy(attributes);
    return status;
}

/* Returns true if oneDNN implements the primitive by its reference loops, which
 * are slower than OpenBLAS. */
static bool is_plain(dnnl_primitive_desc_t description)
{
    const char *name = "ref";
    onednn.primitive_desc_query(description, dnnl_query_impl_info_str, 0,
                                (void *)&name);
    return strncmp(name, "ref", 3) == 0;
}

static dnnl_status_t make_memory(dnnl_memory_t *out,
                                 const dnnl_memory_desc_t *description)
{
    return onednn.memory_create(out, description, onednn.engine,
                                DNNL_MEMORY_NONE);
}

/* Enlarges *memory to at least `size` bytes. If it must be enlarged, its
 * contents are lost. */
static bool grow_memory(void *memory, size_t *has, size_t size)
{
    void **pointer = memory;
    if (size <= *has)
        return true;
    size = (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    void *larger = aligned_alloc(ALIGNMENT, size);
    if (!larger)
        return false;
    free(*pointer);
    *pointer = larger;
    *has = size;
    return true;
}

/* Enlarges the thread's scratch memory if the primitive needs more. */
static dnnl_status_t reserve_scratch(own *mine, prepared *slot,
                                     dnnl_primitive_desc_t description)
{
    const dnnl_memory_desc_t *needs = onednn.primitive_desc_query_md(
        description, dnnl_query_scratchpad_md, 0);
    if (!grow_memory(&mine->scratch, &mine->scratch_size,
                     onednn.memory_desc_get_size(needs)))
        return dnnl_out_of_memory;
    return make_memory(&slot->scratch, needs);
}

static dnnl_status_t make_memories(prepared *slot, const operands *memory)
{
    dnnl_status_t status;
    if ((status = make_memory(&slot->a, &memory->a)) != dnnl_success ||
        (status = make_memory(&slot->b, &memory->b)) != dnnl_success ||
        (status = make_memory(&slot->c, &memory->c)) != dnnl_success ||
        (status = make_memory(&slot->bias, &memory->bias)) != dnnl_success)
        return status;
    return make_memory(&slot->residual, &memory->c);
}

/* Prepares a primitive for the product. Leaves the slot without a primitive if
 * oneDNN does not implement the product. */
static dnnl_status_t prepare_primitive(own *mine, prepared *slot,
                                       const es_product *p, bool has_bias,
                                       int residual)
{
    operands memory;
    dnnl_primitive_desc_t description = NULL;
    dnnl_status_t status =
        describe_product(&description, &memory, p, has_bias, residual);
    if (status == dnnl_unimplemented ||
        (status == dnnl_success && is_plain(description))) {
        onednn.primitive_desc_destroy(description);
        return dnnl_success;
    }
    if (status == dnnl_success)
        status = reserve_scratch(mine, slot, description);
    if (status == dnnl_success)
        status = make_memories(slot, &memory);
    if (status == dnnl_success)
        status = onednn.primitive_create(&slot->primitive, description);
    onednn.primitive_desc_destroy(description);
    return status;
}

/* --- calls ---------------------------------------------------------------- */

static unsigned hash_of(const int key[N_KEY])
{
    unsigned hash = 2166136261u;
    for (int i = 0; i < N_KEY; i++)
        hash = (hash ^ (unsigned)key[i]) * 16777619u;
    return hash ^ hash >> 15;
}

/* Returns the slot that contains the key, or the least recently used slot of
 * the key's set. */
static prepared *find_slot(own *mine, const int key[N_KEY])
{
    prepared *set = mine->sets[hash_of(key) % N_SETS], *oldest = set;
    for (int i = 0; i < N_WAYS; i++) {
        if (set[i].is_known && memcmp(set[i].key, key, sizeof set->key) == 0)
            return &set[i];
        if (set[i].used < oldest->used)
            oldest = &set[i];
    }
    clear_slot(oldest);
    return oldest;
}

/* Returns the prepared primitive for the call, or NULL if there is not enough
 * memory. */
static prepared *find_prepared(own *mine, const es_product_call *call)
{
    const es_product *p = &call->shape;
    const int residual = !call->residual             ? NO_RESIDUAL
                         : call->residual == call->c ? ADDS
                                                     : OTHER_RESIDUAL;
    const int key[N_KEY] = {p->m,
                            p->n,
                            p->k,
                            p->a_transposed,
                            p->b_transposed,
                            p->a_stride,
                            p->b_stride,
                            p->c_stride,
                            (int)p->in,
                            (int)p->out,
                            call->bias != NULL,
                            residual};
    prepared *slot = find_slot(mine, key);
    slot->used = ++mine->n_calls;
    if (slot->is_known)
        return slot;
    if (prepare_primitive(mine, slot, p, call->bias != NULL, residual) !=
        dnnl_success) {
        clear_slot(slot);
        return NULL;
    }
    memcpy(slot->key, key, sizeof slot->key);
    slot->is_known = true;
    return slot;
}

static bool execute_primitive(const own *mine, const prepared *slot,
                              const es_product_call *call)
{
    const struct {
        int argument;
        dnnl_memory_t memory;
        const void *numbers;
    } given[] = {{DNNL_ARG_DST, slot->c, call->c},
                 {DNNL_ARG_SRC, slot->a, call->a},
                 {DNNL_ARG_WEIGHTS, slot->b, call->b},
                 {DNNL_ARG_SCRATCHPAD, slot->scratch, mine->scratch},
                 {DNNL_ARG_BIAS, slot->bias, call->bias},
                 {DNNL_ARG_ATTR_MULTIPLE_POST_OP(0) | DNNL_ARG_SRC_1,
                  slot->residual,
                  call->residual == call->c ? NULL : call->residual}};
    enum { N = sizeof given / sizeof *given };
    dnnl_exec_arg_t arguments[N];
    int n = 0;
    for (int i = 0; i < N; i++) {
        if (!given[i].numbers)
            continue;
        /* The cast is safe, because oneDNN writes only to the arguments DST and
         * SCRATCHPAD. */
        onednn.memory_set_data_handle(given[i].memory,
                                      (void *)given[i].numbers);
        arguments[n++] = (dnnl_exec_arg_t){given[i].argument, given[i].memory};
    }
    return onednn.primitive_execute(slot->primitive, mine->stream, n,
                                    arguments) == dnnl_success;
}

static void multiply_given(own *mine, const es_product_call *call)
{
    prepared *slot = mine ? find_prepared(mine, call) : NULL;
    if (slot && slot->primitive && execute_primitive(mine, slot, call))
        return;
    if (!slot || slot->primitive)
        is_exhausted = true;
    es_products_openblas.multiply(call);
}

/* If A is a transposed bf16 matrix and C has many columns, A is transposed here
 * before the product. oneDNN itself would transpose A more slowly, and the time
 * would grow with the number of columns of C. C is computed in panels of rows,
 * so that the copied part of A has at most TURNED_SIZE bytes (but at least one
 * row). */
#define TURNED_SIZE ((size_t)2 << 20)

static bool is_turned(const es_product *p)
{
    return p->a_transposed && p->in == ES_NUMBER_BF16 && p->n >= 512;
}

static void multiply_turned(own *mine, es_product_call call)
{
    es_product *p = &call.shape;
    const size_t k = (size_t)p->k, m = (size_t)p->m;
    const size_t most = TURNED_SIZE / sizeof(es_bfloat) / k;
    const size_t panel = most < 1 ? 1 : most < m ? most : m;
    const size_t row = (size_t)p->c_stride * es_number_size(p->out);
    const es_bfloat *a = call.a;
    if (!grow_memory(&mine->turned, &mine->turned_size,
                     panel * k * sizeof *a)) {
        is_exhausted = true;
        es_products_openblas.multiply(&call);
        return;
    }
    p->a_transposed = false;
    for (size_t i = 0; i < m; i += panel) {
        const size_t n = m - i < panel ? m - i : panel;
        es_cpu_transpose(mine->turned, a + i, (size_t)p->a_stride, k, n);
        es_product_call part = call;
        part.shape.m = (int)n;
        part.shape.a_stride = p->k;
        part.a = mine->turned;
        part.c = (char *)call.c + i * row;
        if (call.residual)
            part.residual = (const char *)call.residual + i * row;
        multiply_given(mine, &part);
    }
}

static void multiply(const es_product_call *call)
{
    own *mine = find_own();
    if (mine && is_turned(&call->shape))
        multiply_turned(mine, *call);
    else
        multiply_given(mine, call);
}

static es_status open_library(void)
{
    pthread_once(&once, open_once);
    return opened == ES_OK ? ES_OK : es_fail(opened, "%s", trouble);
}

static void version(char *out, size_t size)
{
    const dnnl_version_t *it = onednn.version();
    snprintf(out, size, "oneDNN %d.%d.%d", it->major, it->minor, it->patch);
}

static const char *kernels(void)
{
    const dnnl_cpu_isa_t isa = onednn.get_effective_cpu_isa();
    static const struct {
        dnnl_cpu_isa_t isa;
        const char *name;
    } names[] = {{dnnl_cpu_isa_sse41, "sse41"},
                 {dnnl_cpu_isa_avx, "avx"},
                 {dnnl_cpu_isa_avx2, "avx2"},
                 {dnnl_cpu_isa_avx2_vnni, "avx2_vnni"},
                 {dnnl_cpu_isa_avx512_core, "avx512_core"},
                 {dnnl_cpu_isa_avx512_core_vnni, "avx512_core_vnni"},
                 {dnnl_cpu_isa_avx512_core_bf16, "avx512_core_bf16"},
                 {dnnl_cpu_isa_avx512_core_amx, "avx512_core_amx"}};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (names[i].isa == isa)
            return names[i].name;
    return "unknown";
}

static es_status status_of(void)
{
    return is_exhausted
               ? es_fail(ES_ENOMEM, "out of memory for products by oneDNN: use "
                                    "--products openblas")
               : ES_OK;
}

const es_products es_products_onednn = {.name = "onednn",
                                        .open = open_library,
                                        .version = version,
                                        .kernels = kernels,
                                        .multiply = multiply,
                                        .status = status_of};

#else /* this branch is compiled without oneDNN's headers */

static es_status open_library(void)
{
    return es_fail(ES_EIO, "this program is built without oneDNN: use "
                           "--products openblas");
}

const es_products es_products_onednn = {.name = "onednn", .open = open_library};

#endif
