/** Includes cmocka and the headers that must precede it. */
#ifndef ES_TESTS_CMOCKA_ALL_H
#define ES_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* Disables the warning about unused parameters: cmocka passes a state to every
   test, and most tests do not use it. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/** Skips the test and prints what is missing: es_skip("no GPU"). */
#define es_skip(reason) (print_message("# skipped: " reason "\n"), skip())

/**
 * 1 in builds with sanitizers, which are slow; tests may then do fewer
 * repetitions.
 */
#if defined(__SANITIZE_ADDRESS__)
#define SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
