/* Prints the versions of the drawing libraries that are loaded, for
 * --version. */
#include "render/picture.h"

#include <cairo.h>
#include <fribidi.h>
#include <ft2build.h>
#include FT_FREETYPE_H
#include <png.h>

void es_picture_libraries(char *out, size_t size)
{
    FT_Library freetype;
    int major = 0, minor = 0, patch = 0;
    if (FT_Init_FreeType(&freetype) == 0) {
        FT_Library_Version(freetype, &major, &minor, &patch);
        FT_Done_FreeType(freetype);
    }
    snprintf(out, size,
             "cairo %s, libpng %s, FreeType %d.%d.%d, FriBidi " FRIBIDI_VERSION,
             cairo_version_string(), png_get_libpng_ver(NULL), major, minor,
             patch);
}
