/** cmocka with the headers that it wants to see first. */
#ifndef ES_TESTS_CMOCKA_ALL_H
#define ES_TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

/* cmocka gives every test a state, which most of them do not use. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

#endif
