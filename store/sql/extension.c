/* Implements entropyscan_sqlite.so, which makes es_values available in any
   program that loads SQLite extensions, such as sqlite3 with .load. The
   extension uses the SQLite of the program that loads it and is not linked with
   SQLite. */
#include <sqlite3ext.h>
SQLITE_EXTENSION_INIT1

#include "store/sql/values.inc.h"

ES_API int sqlite3_entropyscan_init(sqlite3 *handle, char **message,
                                    const sqlite3_api_routines *api);
ES_API int sqlite3_extension_init(sqlite3 *handle, char **message,
                                  const sqlite3_api_routines *api);

int sqlite3_entropyscan_init(sqlite3 *handle, char **message,
                             const sqlite3_api_routines *api)
{
    SQLITE_EXTENSION_INIT2(api);
    if (sqlite3_libversion_number() < 3031000) {
        *message = sqlite3_mprintf(
            "es_values needs SQLite 3.31 or later, but this is %s",
            sqlite3_libversion());
        return SQLITE_ERROR;
    }
    return sqlite3_create_module_v2(handle, "es_values", &values_module, NULL,
                                    NULL);
}

/* SQLite calls this function when it loads the extension without a named entry
 * point. */
int sqlite3_extension_init(sqlite3 *handle, char **message,
                           const sqlite3_api_routines *api)
{
    return sqlite3_entropyscan_init(handle, message, api);
}
