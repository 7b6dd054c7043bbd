/* Implements the command line of entropy-scan serve. */
#include "cli/program/command.h"
#include "cli/serve/address.h"
#include "cli/serve/server.h"

#include <stdlib.h>
#include <string.h>

typedef struct arguments {
    es_serve_options serve;
    es_rules_file rules;
    char **roots, **hosts; /* (n_roots), (n_hosts) */
    size_t n_roots, n_hosts;
    const char *token_file, *base;
} arguments;

static const es_option options[] = {
    {.name = NULL, ES_OPT_LIST(arguments, roots, n_roots)},
    {"port", 0, "N", "port; 0 for any free port",
     ES_OPT_INT(arguments, serve.port, 0, 65535), .value = "6007"},
    {"bind", 0, "ADDRESS",
     "listen on ADDRESS; other machines need --token-file",
     ES_OPT_TEXT(arguments, serve.address), .value = "127.0.0.1"},
    {"token-file", 0, "FILE",
     "read the token from FILE, which only you may read; FILE is created if it "
     "does not exist (default: a new token at each start)",
     ES_OPT_TEXT(arguments, token_file)},
    {"host", 0, "NAME",
     "also answer requests for the host NAME, such as that of a proxy; may be "
     "repeated",
     ES_OPT_LIST(arguments, hosts, n_hosts)},
    {"base-path", 0, "PATH", "path of the page behind a proxy",
     ES_OPT_TEXT(arguments, base), .value = "/"},
    {"allow-stop", 0, NULL,
     "let the page request that a training run stop, through RUN.db.stop",
     ES_OPT_FLAG(arguments, serve.can_stop)},
    {"until-eof", 0, NULL,
     "end when standard input ends, for example when the parent program exits",
     ES_OPT_FLAG(arguments, serve.until_eof)},
    {"open", 0, NULL, "open the page in a browser",
     ES_OPT_FLAG(arguments, serve.opens)},
    {"rules", 0, "FILE", ES_RULES_HELP,
     ES_OPT_CALL(arguments, rules, es_command_rules)},
    ES_HELP_OPTION,
};

static int serve_main(int argc, char **argv);

static const es_named_text examples[] = {
    {"entropy-scan serve runs",
     "Show the runs below a folder, and those that appear"},
    {NULL, NULL}};

const es_command es_serve_command = {
    .name = "entropy-scan serve",
    .synopsis = "RUN.db|DIR|URL... [OPTION...]",
    .examples = examples,
    .summary = "show runs in a browser while they are written",
    .details =
        "Prints the address of a page that shows what `report` writes, live:\n"
        "the given run files, all run files (*.db, *.esf) below the given\n"
        "folders, including new ones, and the runs in databases. Alerts\n"
        "appear as they arise. SIGINT or SIGTERM ends the program.\n"
        "\n"
        "The page is visible on this machine only, and needs the token in the\n"
        "address. It can be opened through a forwarded port, in VS Code or\n"
        "with ssh -L 6007:localhost:6007. Nothing is written into the "
        "folders,\n"
        "except RUN.db.stop with --allow-stop.\n"
        "\n"
        "Connections are not encrypted: with --bind, use a network that you\n"
        "trust or a proxy with TLS.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .main = serve_main,
};

/* Sets the path of the page (--base-path), without slashes at its end. */
static es_status set_base(arguments *given, char *out, size_t size)
{
    const char *base = given->base;
    size_t n = strlen(base);
    while (n && base[n - 1] == '/')
        n--;
    if (base[0] != '/' || n >= size ||
        strcspn(base, "?#%\\\" <>") != strlen(base))
        return es_fail(ES_EUSAGE,
                       "--base-path: '%s': expected a path such as "
                       "/proxy/6007",
                       base);
    memcpy(out, base, n);
    out[n] = '\0';
    given->serve.base = out;
    return ES_OK;
}

static es_status parse(arguments *given, char *base, size_t size, int argc,
                       char **argv)
{
    es_serve_access *access = &given->serve.access;
    es_rules_file_default(&given->rules);
    es_status status =
        es_command_parse(given, NULL, &es_serve_command, argc, argv);
    if (status != ES_OK)
        return status;
    if (!given->n_roots)
        return es_fail(ES_EUSAGE, "nothing to show: name run files or folders");
    if ((status = set_base(given, base, size)) < 0 ||
        (status = es_serve_is_local(&access->is_local, given->serve.address)) <
            0)
        return status;
    if (!access->is_local && !given->token_file)
        return es_fail(ES_EUSAGE,
                       "--bind %s: other machines can connect: give "
                       "--token-file FILE",
                       given->serve.address);
    given->serve.roots = given->roots;
    given->serve.n_roots = given->n_roots;
    access->hosts = given->hosts;
    access->n_hosts = given->n_hosts;
    if (es_rules_file_is_set(&given->rules))
        given->serve.rules = &given->rules;
    return es_serve_access_set_token(access, given->token_file);
}

static int serve_main(int argc, char **argv)
{
    arguments given = {.token_file = NULL};
    char base[256];
    es_status status = parse(&given, base, sizeof base, argc, argv);
    if (status == ES_OK)
        status = es_serve_run(&given.serve);
    const int code = es_command_exit(status);
    es_rules_file_free(&given.rules);
    free(given.roots);
    free(given.hosts);
    return code;
}
