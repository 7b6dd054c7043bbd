/* Guesses which numbers in a name are the layer and the head. In a name with
   two numbers, the first is the layer and the second the head, unless the words
   before them indicate otherwise. In a name with more than two numbers, the
   layer and the head are the two numbers that differ between names. */
#include "cli/exchange/tag_guess.h"

#include <ctype.h>
#include <string.h>

enum { MAX_NUMBERS = 8 };

/* Offset and number of digits of each number in a name. */
typedef struct numbers {
    size_t at[MAX_NUMBERS], n_digits[MAX_NUMBERS];
    size_t n; /* how many numbers the name has; MAX_NUMBERS + 1 if there are
                 more than MAX_NUMBERS */
} numbers;

static bool is_digit(char c)
{
    return isdigit((unsigned char)c) != 0;
}

static bool is_letter(char c)
{
    return isalpha((unsigned char)c) != 0;
}

static numbers find_numbers(const char *tag)
{
    numbers found = {.n = 0};
    for (size_t i = 0; tag[i] && found.n <= MAX_NUMBERS; i++) {
        if (!is_digit(tag[i]))
            continue;
        const size_t n = strspn(tag + i, "0123456789");
        if (found.n < MAX_NUMBERS) {
            found.at[found.n] = i;
            found.n_digits[found.n] = n;
        }
        found.n++;
        i += n - 1;
    }
    return found;
}

/* Returns true if the name contains "entrop" in upper or lower case, as in
   "Entropies", or "ent" as a separate word. */
static bool is_of_entropy(const char *tag)
{
    if (strcasestr(tag, "entrop"))
        return true;
    for (const char *c = tag; (c = strcasestr(c, "ent")); c++)
        if ((c == tag || !is_letter(c[-1])) && !is_letter(c[3]))
            return true;
    return false;
}

/* Returns true if the name can be part of a pattern in single quotes on a shell
   command line. */
static bool is_plain(const char *tag)
{
    for (const char *c = tag; *c; c++)
        if (!isprint((unsigned char)*c) || strchr("{}'", *c))
            return false;
    return true;
}

/* Marks the numbers of name `a` that differ from the numbers of name `b`, if
   the names are otherwise equal. */
static void compare_names(bool *differs, const char *a, const numbers *of_a,
                          const char *b)
{
    const numbers of_b = find_numbers(b);
    bool here[MAX_NUMBERS] = {false};
    size_t end_a = 0, end_b = 0;
    if (of_b.n != of_a->n)
        return;
    for (size_t i = 0; i < of_a->n; i++) {
        const size_t n = of_a->at[i] - end_a;
        if (of_b.at[i] - end_b != n || strncmp(a + end_a, b + end_b, n) != 0)
            return;
        here[i] =
            of_a->n_digits[i] != of_b.n_digits[i] ||
            strncmp(a + of_a->at[i], b + of_b.at[i], of_a->n_digits[i]) != 0;
        end_a = of_a->at[i] + of_a->n_digits[i];
        end_b = of_b.at[i] + of_b.n_digits[i];
    }
    if (strcmp(a + end_a, b + end_b) != 0)
        return;
    for (size_t i = 0; i < of_a->n; i++)
        differs[i] = differs[i] || here[i];
}

/* Returns the first letter, in lower case, of the word before a number; 0 if no
   word precedes the number. */
static int word_before(const char *tag, size_t at)
{
    while (at > 0 && !is_letter(tag[at - 1]) && !is_digit(tag[at - 1]))
        at--;
    if (at == 0 || !is_letter(tag[at - 1]))
        return 0;
    while (at > 0 && is_letter(tag[at - 1]))
        at--;
    return tolower((unsigned char)tag[at]);
}

/* Chooses which numbers of the name are the layer and the head. If the name has
   only one number, this number is the layer. */
static void choose_numbers(size_t *layer, size_t *head, const char *tag,
                           const numbers *of, const bool *differs)
{
    size_t n = 0, chosen[MAX_NUMBERS];
    for (size_t i = 0; i < of->n; i++)
        if (differs[i])
            chosen[n++] = i;
    if (n != 2)
        for (n = 0; n < 2 && n < of->n; n++)
            chosen[n] = of->n <= 2 ? n : of->n - 2 + n;
    *layer = chosen[0];
    *head = n == 2 ? chosen[1] : SIZE_MAX;
    if (n != 2 || word_before(tag, of->at[chosen[0]]) != 'h')
        return;
    const int second = word_before(tag, of->at[chosen[1]]);
    if (second == 'l' || second == 'b') { /* the head precedes the layer, as in
                                             head3.layer0 or h3.block0 */
        *layer = chosen[1];
        *head = chosen[0];
    }
}

static bool print_pattern(char out[ES_TAG_MAX], const char *tag,
                          const numbers *of, size_t layer, size_t head)
{
    size_t end = 0, n = 0;
    for (size_t i = 0; i < of->n; i++) {
        if (i != layer && i != head)
            continue;
        n += (size_t)snprintf(out + n, ES_TAG_MAX - n, "%.*s%s",
                              (int)(of->at[i] - end), tag + end,
                              i == layer ? "{layer}" : "{head}");
        end = of->at[i] + of->n_digits[i];
        if (n >= ES_TAG_MAX)
            return false;
    }
    n += (size_t)snprintf(out + n, ES_TAG_MAX - n, "%s", tag + end);
    return n < ES_TAG_MAX;
}

/* Returns the alphabetically first entropy name with two or more numbers.
   Without such a name, returns the first entropy name with one number, or NULL
   if no entropy name has a number. */
static const char *find_example(const char *const *tags, size_t n)
{
    const char *found = NULL;
    bool found_two = false;
    for (size_t i = 0; i < n; i++) {
        if (!tags[i] || strlen(tags[i]) > ES_TAG_GUESS_MAX)
            continue;
        const size_t count = find_numbers(tags[i]).n;
        const bool is_two = count > 1;
        if (count == 0 || count > MAX_NUMBERS || !is_of_entropy(tags[i]) ||
            !is_plain(tags[i]))
            continue;
        if (!found || is_two > found_two ||
            (is_two == found_two && strcmp(tags[i], found) < 0)) {
            found = tags[i];
            found_two = is_two;
        }
    }
    return found;
}

bool es_tag_guess(char out[ES_TAG_MAX], const char **tag,
                  const char *const *tags, size_t n)
{
    bool differs[MAX_NUMBERS] = {false};
    size_t layer, head;
    es_phase phase;
    es_tag of;
    *tag = find_example(tags, n);
    if (!*tag)
        return false;
    const char *name = es_tag_without_phase(&phase, *tag);
    const numbers of_name = find_numbers(name);
    for (size_t i = 0; i < n; i++)
        if (tags[i])
            compare_names(differs, name, &of_name,
                          es_tag_without_phase(&phase, tags[i]));
    choose_numbers(&layer, &head, name, &of_name, differs);
    const es_tag_rules rules = {out, "entropy", false};
    return print_pattern(out, name, &of_name, layer, head) &&
           es_tag_parse(&of, *tag, &rules) && of.shape != ES_SHAPE_RUN;
}
