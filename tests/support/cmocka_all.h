/** cmocka with the headers that it needs first. */
#ifndef ES_TESTS_CMOCKA_ALL_H
#define ES_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* cmocka passes every test a state, which most of them do not use. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

/** Skips the test and prints what the machine lacks: es_skip("no GPU"). */
#define es_skip(reason) (print_message("# skipped: " reason "\n"), skip())

/**
 * 1 in the pass with sanitizers, which is slow; a test may then do fewer
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
