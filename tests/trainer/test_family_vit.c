/* Tests which settings family vit refuses. */
#include "hooks/trainer/cpu/cpu.h"
#include "tests/support/families.h"
#include "tests/support/small_model.h"
#include "tests/support/test.h"

static es_model_config vit(void)
{
    es_model_config config = es_small_config("SM+LN+G");
    config.family = ES_FAMILY_VIT;
    config.image =
        (es_image){.size = 6, .patch = 3, .channels = 2, .classes = 4};
    config.ctx = 5;
    return config;
}

/* --- refusals ------------------------------------------------------------- */

TEST(sizes_that_do_not_fit_are_refused_by_name)
{
    es_model_config config = vit();
    es_assert_ok(es_model_config_check(&config));
    config.image.patch = 4;
    es_expect_config_refused(&config,
                             "--patch-size 4 does not divide --image-size 6");
    config.image.patch = 0;
    es_expect_config_refused(&config, "--patch-size 0");
    config = vit();
    config.image.classes = 0;
    es_expect_config_refused(&config, "--classes 0");
    config = vit();
    config.ctx = 7;
    es_expect_config_refused(&config, "--ctx 7: an image has 4 patches");
    config = vit();
    config.padding = 3;
    es_expect_config_refused(&config, "--padding");
    config = vit();
    config.image.size = 4096;
    config.image.patch = 4096;
    config.image.channels = 64;
    config.ctx = 2;
    es_expect_config_refused(&config, "at most 67108864 pixels");
    config = es_small_config("SM+LN+G");
    config.image.size = 6;
    es_expect_config_refused(&config, "--image-size: only for --family vit");
}

TEST(parts_that_the_family_lacks_are_refused_by_name)
{
    es_model_config config = vit();
    es_ops ops = es_cpu_ops;
    es_model *model = NULL;
    config.arch.layer_norm = false;
    es_expect_config_refused(&config, "architecture without 'LN'");
    config = vit();
    config.arch.gate = true;
    es_expect_config_refused(&config, "'SM(gate)'");
    config = vit();
    ops.cut_patches = NULL;
    assert_int_equal(es_model_new(&model, &config, &ops, 1), ES_EUSAGE);
    assert_non_null(
        strstr(es_message(), "--family vit: not supported by back-end"));
}

/* A pixel value that is not below the number of levels, or a class that does
 * not exist, is refused. */
TEST(pixels_and_classes_are_checked)
{
    const es_model_config config = vit();
    es_model *model = NULL;
    es_losses losses;
    int32_t pixels[2 * 72], targets[2 * 5];
    for (int i = 0; i < 2 * 72; i++)
        pixels[i] = i % config.vocab;
    for (int i = 0; i < 2 * 5; i++)
        targets[i] = i % 5 == 0 ? 3 : ES_NO_TARGET;
    es_assert_ok(es_model_new(&model, &config, &es_cpu_ops, 1));
    es_assert_ok(es_model_forward(model, &losses, pixels, targets, true, true));
    assert_true(losses.ce > 0);
    targets[5] = 4;
    assert_int_equal(
        es_model_forward(model, &losses, pixels, targets, true, true),
        ES_EFORMAT);
    targets[5] = 0;
    pixels[143] = config.vocab;
    assert_int_equal(
        es_model_forward(model, &losses, pixels, targets, true, true),
        ES_EFORMAT);
    es_model_free(model);
}
