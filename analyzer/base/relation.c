/* Reads and evaluates relations such as "<=", for the conditions of --where and
   the conditions in a database URL. */
#include "analyzer/base/relation.h"

#include <string.h>

const char *es_relation_read(unsigned *out, const char *text, size_t n)
{
    static const struct {
        const char *sign;
        unsigned relation;
    } relations[] = {{"!=", ES_BELOW | ES_ABOVE | ES_NEITHER},
                     {"<=", ES_BELOW | ES_EQUAL},
                     {">=", ES_ABOVE | ES_EQUAL},
                     {"=", ES_EQUAL},
                     {"<", ES_BELOW},
                     {">", ES_ABOVE}};
    for (size_t i = 0; i < sizeof relations / sizeof *relations; i++)
        if (strlen(relations[i].sign) == n &&
            strncmp(text, relations[i].sign, n) == 0) {
            *out = relations[i].relation;
            return relations[i].sign;
        }
    return NULL;
}

unsigned es_relation_of(double x, double y)
{
    return x < y ? ES_BELOW : x > y ? ES_ABOVE : x == y ? ES_EQUAL : ES_NEITHER;
}
