/* Defines the fixed colours of the light and the dark theme, for all charts. */
#include "render/figures/theme.h"

#include <string.h>

static const es_colors themes[] = {
    [ES_THEME_LIGHT] = {.paper = {255, 255, 255, 255},
                        .ink = {34, 34, 34, 255},
                        .muted = {102, 102, 102, 255},
                        .grid = {225, 225, 225, 255},
                        .alarm = {200, 30, 45, 255},
                        .hatched = {250, 240, 240, 255},
                        .hatching = {205, 90, 95, 255}},
    [ES_THEME_DARK] = {.paper = {24, 26, 30, 255},
                       .ink = {232, 232, 232, 255},
                       .muted = {160, 164, 170, 255},
                       .grid = {54, 58, 64, 255},
                       .alarm = {255, 95, 95, 255},
                       .hatched = {52, 32, 36, 255},
                       .hatching = {214, 96, 100, 255}},
};

/* The colours of Okabe and Ito in another order, in which dark and light
 * colours alternate. The original order begins with black, and its yellow is
 * invisible on white. */
static const es_color categories[][ES_N_CATEGORIES] = {
    [ES_THEME_LIGHT] = {{0, 114, 178, 255},
                        {230, 159, 0, 255},
                        {0, 0, 0, 255},
                        {86, 180, 233, 255},
                        {213, 94, 0, 255},
                        {0, 158, 115, 255},
                        {120, 60, 110, 255},
                        {204, 121, 167, 255}},
    [ES_THEME_DARK] = {{86, 180, 233, 255},
                       {240, 228, 66, 255},
                       {213, 94, 0, 255},
                       {255, 255, 255, 255},
                       {0, 158, 115, 255},
                       {230, 159, 0, 255},
                       {60, 130, 220, 255},
                       {204, 121, 167, 255}},
};

es_status es_theme_parse(es_theme *out, const char *text)
{
    if (strcmp(text, "light") == 0)
        *out = ES_THEME_LIGHT;
    else if (strcmp(text, "dark") == 0)
        *out = ES_THEME_DARK;
    else
        return es_fail(ES_EUSAGE,
                       "unknown theme '%.40s': expected light or dark", text);
    return ES_OK;
}

const es_colors *es_theme_colors(es_theme theme)
{
    return &themes[theme];
}

es_color es_theme_level(es_theme theme, es_level level)
{
    static const es_color warning[] = {{230, 159, 0, 255}, {240, 200, 90, 255}};
    static const es_color error[] = {{213, 94, 0, 255}, {235, 130, 50, 255}};
    switch (level) {
    case ES_LEVEL_CRITICAL:
        return themes[theme].alarm;
    case ES_LEVEL_ERROR:
        return error[theme];
    case ES_LEVEL_WARNING:
        return warning[theme];
    default:
        return themes[theme].muted;
    }
}

es_color es_theme_category(es_theme theme, size_t i)
{
    return categories[theme][i % ES_N_CATEGORIES];
}

/* Returns the colour for text on a filled area. Chooses it by lightness, not by
 * contrast ratio, which would require black on blue-green, where white is
 * easier to read. */
es_color es_text_on(es_color fill)
{
    const es_colors *light = &themes[ES_THEME_LIGHT];
    return es_color_luminance(fill) < 0.26 ? light->paper : light->ink;
}
