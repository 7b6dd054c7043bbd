#!/usr/bin/env python3
"""usage: draw_texts.py [--seed N] [--comments N] [--messages N] [--paragraphs
N]

Prints random comments, messages and paragraphs of the repository, to be judged
by a reader who does not know the code. Each is printed with its place; a
comment is printed with the line of code on or above which it stands. At least
57 of 60 texts should be clear at once. The same seed draws the same texts from
the same sources.
"""
import argparse
import ast
import random
import re
import subprocess
import textwrap

C = r"\.(c|h|cu|cuh|cc)$"
SCRIPT = r"\.(py|sh|mk)$|Makefile$"
TOKEN = re.compile(r'/\*.*?\*/|(?://[^\n]*\n\s*)+|"(?:\\.|[^"\\\n])*"'
                   r"|'(?:\\.|[^'\\\n])*'", re.S)
WORDS_LEAST = 3


def files():
    listed = subprocess.run(["git", "ls-files"], capture_output=True, text=True,
                            check=True).stdout.split("\n")
    return [path for path in listed if path and
            not path.startswith(("tests/golden/", "tests/fuzz/seeds/"))]


def is_text(words):
    """Returns true for a sentence or phrase, false for a line of dashes, a section's
    title, a picture, a path or a piece of JSON."""
    return len(re.findall(r"(?<!\S)\W?[A-Za-z]{2,}\W?(?!\S)", words)) >= WORDS_LEAST and \
        not re.match(r"\W*-{3}|!\[", words)


def code_of(text, start, end):
    """Returns the code before a comment on the same line, or else the next
    line of code."""
    before = text[text.rfind("\n", 0, start) + 1:start].strip()
    if before:
        return before
    for line in text[end:].split("\n"):
        if line.strip(" \t*/;,") and not line.lstrip().startswith(("/*", "//", "# ", "#!")):
            return line.strip()
    return ""


def line_of(text, position):
    return text.count("\n", 0, position) + 1


def from_c(path, text):
    """Yields comments and messages; consecutive string literals are one
    message."""
    message, start = "", 0
    previous = None
    for match in TOKEN.finditer(text):
        token = match[0]
        if token.startswith("/") and is_text(token):
            yield "comment", path, line_of(text, match.start()), token, \
                code_of(text, match.start(), match.end())
        elif token.startswith('"'):
            between = text[previous:match.start()] if previous else "x"
            if message and not between.strip(" \n\t\\"):
                message += token[1:-1]
            else:
                if is_text(message):
                    yield "message", path, line_of(text, start), message, ""
                message, start = token[1:-1], match.start()
            previous = match.end()
    if is_text(message):
        yield "message", path, line_of(text, start), message, ""


def from_script(path, text):
    """Yields blocks of # lines; for Python also docstrings and messages."""
    for match in re.finditer(r"(?m)(?:^[ \t]*#(?!!).*\n)+", text):
        if is_text(match[0]):
            yield "comment", path, line_of(text, match.start()), match[0], \
                code_of(text, match.start(), match.end())
    if not path.endswith(".py"):
        return
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef, ast.Module)):
            words = ast.get_docstring(node)
            if words and is_text(words):
                name = getattr(node, "name", path)
                yield "comment", path, getattr(node, "lineno", 1), words, name
        elif isinstance(node, ast.Raise):
            for part in ast.walk(node):
                if isinstance(part, ast.Constant) and isinstance(part.value, str) \
                        and is_text(part.value):
                    yield "message", path, part.lineno, part.value, ""


def from_markdown(path, text):
    text = re.sub(r"(?s)```.*?```", lambda m: re.sub(r"[^\n]", "", m[0]), text)
    # A paragraph or an item of a list, with its indented lines.
    for match in re.finditer(r"(?m)^(?! {4}|\||#)\S.*\n?"
                             r"(?:^(?! {4}|\||#|- |\d+\. ) {0,3}\S.*\n?)*", text):
        if is_text(match[0]):
            yield "paragraph", path, line_of(text, match.start()), match[0], ""


def texts():
    for path in files():
        reader = (from_c if re.search(C, path) else
                  from_script if re.search(SCRIPT, path) else
                  from_markdown if path.endswith(".md") else None)
        if reader:
            with open(path, encoding="utf-8", errors="replace") as file:
                yield from reader(path, file.read())


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--comments", type=int, default=36)
    parser.add_argument("--messages", type=int, default=14)
    parser.add_argument("--paragraphs", type=int, default=10)
    given = parser.parse_args()
    kinds = {"comment": [], "message": [], "paragraph": []}
    for kind, *rest in texts():
        kinds[kind].append(rest)
    chance, number = random.Random(given.seed), 0
    for kind, count in (("comment", given.comments), ("message", given.messages),
                        ("paragraph", given.paragraphs)):
        for path, line, words, below in chance.sample(kinds[kind], count):
            number += 1
            print(f"{number}. {kind}, {path}:{line}")
            print(textwrap.indent(textwrap.dedent(words).strip("\n"), "    "))
            if below:
                print(f"    > {below}")
            print()


if __name__ == "__main__":
    main()
