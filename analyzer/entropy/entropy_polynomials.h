/**
 * What the vector kernels share below entropy_kernels.h. Included by each
 * after its vec, vec_set and vec_fma.
 */
#ifndef ES_ENTROPY_POLYNOMIALS_H
#define ES_ENTROPY_POLYNOMIALS_H

/** 2^f for 0 <= f < 1: minimax polynomial of degree 6, exact at 0; 2e-9. */
static inline vec exp2_polynomial(vec f)
{
    vec p = vec_set(2.1612915E-4F);
    p = vec_fma(p, f, vec_set(1.2467846E-3F));
    p = vec_fma(p, f, vec_set(9.6754716E-3F));
    p = vec_fma(p, f, vec_set(5.5485281E-2F));
    p = vec_fma(p, f, vec_set(2.4022931E-1F));
    p = vec_fma(p, f, vec_set(6.9314704E-1F));
    return vec_fma(p, f, vec_set(1));
}

/** k + log2(1 + r) for -1/4 <= r < 1/2: minimax polynomial of degree 8. */
static inline vec log2_polynomial(vec r, vec k)
{
    vec p = vec_set(-7.7694434E-2F);
    p = vec_fma(p, r, vec_set(1.9017744E-1F));
    p = vec_fma(p, r, vec_set(-2.5153362E-1F));
    p = vec_fma(p, r, vec_set(2.9219950E-1F));
    p = vec_fma(p, r, vec_set(-3.6040031E-1F));
    p = vec_fma(p, r, vec_set(4.8074484E-1F));
    p = vec_fma(p, r, vec_set(-7.2134845E-1F));
    p = vec_fma(p, r, vec_set(1.4426966F));
    return vec_fma(p, r, k);
}

static inline vec vec_add(vec a, vec b)
{
    return a + b;
}

#endif
