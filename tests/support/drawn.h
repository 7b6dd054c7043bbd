/** Pictures that tests draw: checked, compared, searched. Include cmocka
 *  first. */
#ifndef ES_TESTS_DRAWN_H
#define ES_TESTS_DRAWN_H

#include "tests/support/pictures.h"

/** The picture that a call drew. Fails the test unless it did, every number is
 *  finite and no texts touch. */
es_picture *sound_picture(es_status status, es_picture *const *picture);

/** Fails the test unless both are the same as SVG; frees both. */
void assert_same_picture(es_picture *a, es_picture *b);

/** Fails the test, naming the text, unless all, or none, of the texts given
 *  are in the picture. */
#define ASSERT_SAYS(picture, ...)                                              \
    assert_says(picture, true, (const char *const[]){__VA_ARGS__, NULL})
#define ASSERT_SAYS_NOT(picture, ...)                                          \
    assert_says(picture, false, (const char *const[]){__VA_ARGS__, NULL})
void assert_says(const es_picture *picture, bool said,
                 const char *const *texts);

#endif
