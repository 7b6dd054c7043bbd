/* Emulates tensor-core instructions: collects the operands from the registers
 * of all lanes, multiplies complete matrices in loops, and returns each lane's
 * part of the result. */
#include "hooks/trainer/cuda/mma.h"
#include "tests/emulation/host.h"

enum { M = 16, N = 8, K = 16 };

/* Excludes a function from sanitizers. Sanitizer builds would spend a seventh
 * of a test's time in these loops, which only access arrays that are declared
 * in this file. */
#define PLAIN __attribute__((no_sanitize("address", "undefined")))

/* A lane's part of the operands. d also holds the lane's part of the result. */
typedef struct share {
    uint32_t a[4], b[2];
    float d[4];
} share;

static_assert(sizeof(share) <= ES_HOST_SLOT,
              "the operands of a lane must fit in a slot");

static float fp16_of_bits(uint16_t bits)
{
    int exponent = bits >> 10 & 31, mantissa = bits & 1023;
    float size = exponent == 31 ? (mantissa ? NAN : INFINITY)
                 : exponent == 0
                     ? ldexpf((float)mantissa, -24)
                     : ldexpf((float)(mantissa + 1024), exponent - 25);
    return bits >> 15 ? -size : size;
}

PLAIN float es_host_half(uint16_t bits, bool bf16)
{
    static float table[1 << 16];
    static bool is_there;
    if (bf16)
        return es_host_bits<float>((uint32_t)bits << 16);
    for (uint32_t i = 0; !is_there && i < 1 << 16; i++)
        table[i] = fp16_of_bits((uint16_t)i);
    is_there = true;
    return table[bits];
}

/* Returns element i (0 or 1) of a register that holds a pair, as f32. */
PLAIN static float element(uint32_t pair, int i, bool bf16)
{
    return es_host_half((uint16_t)(pair >> (16 * i)), bf16);
}

/* Collects the matrices a, b and d from all lanes. The PTX manual defines the
 * position of each lane's elements. */
PLAIN static void gather(float a[M][K], float b[K][N], float d[M][N],
                         const share *lanes, bool bf16)
{
    for (int lane = 0; lane < warpSize; lane++) {
        const share *mine = (const share *)(const void *)((const char *)lanes +
                                                          lane * ES_HOST_SLOT);
        int g = lane / 4, t = lane % 4;
        for (int i = 0; i < 8; i++) {
            int row = g + 8 * (i / 2 % 2), column = 2 * t + i % 2 + 8 * (i / 4);
            a[row][column] = element(mine->a[i / 2], i % 2, bf16);
        }
        for (int i = 0; i < 4; i++) {
            b[2 * t + i % 2 + 8 * (i / 2)][g] =
                element(mine->b[i / 2], i % 2, bf16);
            d[g + 8 * (i / 2)][2 * t + i % 2] = mine->d[i];
        }
    }
}

/* Adds the matrix product a * b to d. The terms of each element are added in
 * the order of k, and the loop over a row of d can be vectorised. */
PLAIN static void multiply_add(float (*__restrict d)[N], const float (*a)[K],
                               const float (*b)[N])
{
    for (int row = 0; row < M; row++)
        for (int k = 0; k < K; k++)
            for (int column = 0; column < N; column++)
                d[row][column] += a[row][k] * b[k][column];
}

static void multiply(unsigned char *slots, bool bf16)
{
    float a[M][K], b[K][N], d[M][N];
    gather(a, b, d, (const share *)(const void *)slots, bf16);
    multiply_add(d, a, b);
    for (int lane = 0; lane < warpSize; lane++) {
        share *mine = (share *)(void *)(slots + lane * ES_HOST_SLOT);
        for (int i = 0; i < 4; i++)
            mine->d[i] = d[lane / 4 + 8 * (i / 2)][2 * (lane % 4) + i % 2];
    }
}

static void multiply_bf16(unsigned char *slots)
{
    multiply(slots, true);
}

static void multiply_fp16(unsigned char *slots)
{
    multiply(slots, false);
}

void es_host_mma(float *d, const uint32_t *a, const uint32_t *b, bool bf16)
{
    share mine;
    memcpy(mine.a, a, sizeof mine.a);
    memcpy(mine.b, b, sizeof mine.b);
    memcpy(mine.d, d, sizeof mine.d);
    unsigned char *slots = es_host_warp("mma", 0, &mine, sizeof mine,
                                        bf16 ? multiply_bf16 : multiply_fp16);
    memcpy(&mine, slots + es_host_lane() * ES_HOST_SLOT, sizeof mine);
    memcpy(d, mine.d, sizeof mine.d);
}

uint32_t es_host_shared_address(const void *shared)
{
    const unsigned char *first = (const unsigned char *)es_host_shared();
    es_host_check_shared("uses an address outside the block's shared memory",
                         shared, 1);
    return (uint32_t)((const unsigned char *)shared - first);
}

void es_host_ldmatrix(uint32_t *out, uint32_t address, bool transposed)
{
    const int lane = es_host_lane();
    const unsigned char *row =
        (const unsigned char *)es_host_shared() + address;
    es_host_check_shared("ldmatrix reads outside shared memory", row, 16);
    if ((uintptr_t)row % 16 != 0)
        es_host_abort("ldmatrix reads a row that is not aligned");
    unsigned char *slots = es_host_warp(
        transposed ? "ldmatrix.trans" : "ldmatrix", 0, &row, sizeof row, NULL);
    for (int i = 0; i < 4; i++) {
        uint16_t pair[2];
        for (int j = 0; j < 2; j++) {
            int from_row = transposed ? 2 * (lane % 4) + j : lane / 4;
            int column = transposed ? lane / 4 : 2 * (lane % 4) + j;
            const uint16_t *elements;
            memcpy(&elements, slots + (8 * i + from_row) * ES_HOST_SLOT,
                   sizeof elements);
            pair[j] = elements[column];
        }
        out[i] = pair[0] | (uint32_t)pair[1] << 16;
    }
}
