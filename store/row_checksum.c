/* Lists the tables whose rows have checksums (run, series and event), and
   computes the checksum of a row. The writer stores the checksum, with which
   readers detect that a row was changed after the recording. */
#include "store/crc32c.h"
#include "store/store_internal.h"

const char *es_row_table_name(es_row_table table)
{
    static const char *const names[] = {"", "run", "series", "event"};
    return names[table];
}

int32_t es_checksum_of_columns(sqlite3_stmt *statement, int first, int n)
{
    uint32_t crc = 0;
    for (int i = first; i < first + n; i++) {
        const unsigned char type =
            (unsigned char)sqlite3_column_type(statement, i);
        crc = es_crc32c(crc, &type, 1);
        if (type == SQLITE_NULL)
            continue;
        const void *bytes = /* NULL if the text is empty; `number` is then 0 */
            type == SQLITE_INTEGER ? NULL : sqlite3_column_blob(statement, i);
        const int64_t number = bytes ? sqlite3_column_bytes(statement, i)
                                     : sqlite3_column_int64(statement, i);
        crc = es_crc32c(crc, &number, sizeof number);
        if (bytes)
            crc = es_crc32c(crc, bytes, (size_t)number);
    }
    return (int32_t)crc;
}
