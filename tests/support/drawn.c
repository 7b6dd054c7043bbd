/* Pictures that tests draw: checked, compared, searched. */
#include "tests/support/cmocka_all.h"

#include "tests/support/drawn.h"

#include <stdlib.h>

es_picture *sound_picture(es_status status, es_picture *const *picture)
{
    if (status != ES_OK)
        fail_msg("%s", es_message());
    assert_true(picture_is_finite(*picture));
    assert_true(picture_texts_are_apart(*picture));
    return *picture;
}

void assert_same_picture(es_picture *a, es_picture *b)
{
    size_t n_a, n_b;
    char *x = picture_bytes(&n_a, a, ES_FORMAT_SVG, 1, NULL, 0);
    char *y = picture_bytes(&n_b, b, ES_FORMAT_SVG, 1, NULL, 0);
    assert_true(x && y);
    assert_int_equal(n_a, n_b);
    assert_memory_equal(x, y, n_b);
    free(x);
    free(y);
    es_picture_free(a);
    es_picture_free(b);
}

void assert_says(const es_picture *picture, bool said, const char *const *texts)
{
    for (; *texts; texts++)
        if (picture_says(picture, *texts) != said)
            fail_msg("'%s' is %sin the picture", *texts, said ? "not " : "");
}
