/* Adds the function es_values (values.inc.h) to the connections that this
   program opens. */
#include "store/sql/source.h"

#include "store/sql/values.inc.h"

int es_sql_add_values(sqlite3 *handle, es_sql_sources *sources)
{
    return sqlite3_create_module_v2(handle, "es_values", &values_module,
                                    sources, NULL);
}
