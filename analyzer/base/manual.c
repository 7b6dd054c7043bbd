/*
 * Prints manual pages in roff. The description and the options come from the
 * command's row in the program table; the parts common to all commands come
 * from the program's row.
 */
#include "analyzer/base/manual.h"

#include <ctype.h>
#include <string.h>

static void print_bytes(FILE *out, const char *text, size_t n)
{
    bool start = true;
    for (size_t i = 0; i < n; start = text[i] == '\n', i++) {
        if (start && (text[i] == '.' || text[i] == '\''))
            fputs("\\&", out);
        if (text[i] == '-' || text[i] == '\\')
            fputs(text[i] == '-' ? "\\-" : "\\e", out);
        else
            fputc(text[i], out);
    }
}

void es_manual_text(FILE *out, const char *text)
{
    print_bytes(out, text, strlen(text));
}

void es_manual_name(char *out, size_t size, const es_command *command)
{
    snprintf(out, size, "%s", command->name);
    for (; *out; out++)
        if (*out == ' ')
            *out = '-';
}

static void print_title(FILE *out, const es_command *command)
{
    char name[64], capitals[64];
    es_manual_name(name, sizeof name, command);
    for (size_t i = 0; i <= strlen(name); i++)
        capitals[i] = (char)toupper((unsigned char)name[i]);
    fputs(".TH ", out);
    es_manual_text(out, capitals);
    fputs(" 1 \"\" \"entropy\\-scan " ES_VERSION "\"\n.ad l\n.nh\n.SH NAME\n",
          out);
    es_manual_text(out, name);
    fputs(" \\- ", out);
    es_manual_text(out, command->summary);
    fputs("\n.SH SYNOPSIS\n.nf\n.B ", out);
    es_manual_text(out, command->name);
    fputc(' ', out);
    es_manual_text(out, command->synopsis);
    fputs("\n.fi\n", out);
}

/* Prints an entry of a list: a word and the sentence that explains it. */
static void print_entry(FILE *out, const char *word, const char *sentence)
{
    fputs(".TP\n.B ", out);
    es_manual_text(out, word);
    fputc('\n', out);
    es_manual_text(out, sentence);
    fputs(".\n", out);
}

static void print_options(FILE *out, const es_command *command)
{
    fputs(".SH OPTIONS\n", out);
    for (size_t i = 0; i < command->n_options; i++) {
        char names[128], sentence[512];
        const es_option *option = &command->options[i];
        if (!es_command_shows(command, option))
            continue;
        es_option_print_names(names, sizeof names, option);
        es_option_print_sentence(sentence, sizeof sentence, command, option);
        print_entry(out, names + strspn(names, " "), sentence);
    }
}

static void print_list(FILE *out, const char *title, const es_named_text *list)
{
    if (!list || !list->name)
        return;
    fprintf(out, ".SH %s\n", title);
    for (; list->name; list++)
        print_entry(out, list->name, list->text);
}

/* Prints each example: first its description, then the command line. */
static void print_examples(FILE *out, const es_named_text *examples)
{
    if (!examples || !examples->name)
        return;
    fputs(".SH EXAMPLES\n", out);
    for (; examples->name; examples++) {
        fputs(".PP\n", out);
        es_manual_text(out, examples->text);
        fputs(":\n.PP\n.RS 4\n.nf\n", out);
        es_manual_text(out, examples->name);
        fputs("\n.fi\n.RE\n", out);
    }
}

static void print_verbs(FILE *out, const es_program *program)
{
    fputs(".SH VERBS\n", out);
    for (size_t i = 1; i < program->n; i++)
        print_entry(out, es_command_verb(program->commands[i]),
                    program->commands[i]->summary);
}

/* Prints the section SEE ALSO. A verb's page refers to the program's page, and
   the program's page refers to the pages of all verbs. */
static void print_others(FILE *out, const es_program *program,
                         const es_command *command)
{
    const bool is_program = command == program->commands[0];
    const size_t n = is_program ? program->n : 1;
    char name[64];
    fputs(".SH SEE ALSO\n", out);
    for (size_t i = is_program; i < n; i++) {
        es_manual_name(name, sizeof name, program->commands[i]);
        fputs(".BR ", out);
        es_manual_text(out, name);
        fprintf(out, " (1)%s\n", i + 1 < n ? "," : "");
    }
}

/* Prints the paragraphs of `text`. Indented lines keep their line breaks; all
   other lines are joined and filled. An empty line separates paragraphs. */
static void print_details(FILE *out, const char *text)
{
    bool indented = false;
    fputs(".PP\n", out);
    while (*text) {
        const size_t n = strcspn(text, "\n");
        if ((n > 0 && text[0] == ' ') != indented) {
            fputs(indented ? ".fi\n" : ".nf\n", out);
            indented = !indented;
        }
        if (n == 0)
            fputs(".PP", out);
        print_bytes(out, text, n);
        fputc('\n', out);
        text += n + (text[n] == '\n');
    }
    if (indented)
        fputs(".fi\n", out);
}

void es_manual_print(FILE *out, const es_program *program,
                     const es_command *command)
{
    print_title(out, command);
    fprintf(out, ".SH DESCRIPTION\n%c",
            toupper((unsigned char)command->summary[0]));
    es_manual_text(out, command->summary + 1);
    fputs(".\n", out);
    if (command->details)
        print_details(out, command->details);
    if (command->further)
        print_details(out, command->further);
    if (command == program->commands[0])
        print_verbs(out, program);
    print_options(out, command);
    print_list(out, "EXIT STATUS", program->exits);
    print_list(out, "ENVIRONMENT", program->environment);
    print_list(out, "FILES", program->files);
    print_examples(out, command->examples);
    print_others(out, program, command);
}
