"""Writes random invalid values into the rows of a database, for hostile_rows.sh, and
judges how entropy-scan handles them.

usage: hostile_rows.py SCAN URL COUNT SEED FOLDER
"""
import os
import random
import re
import subprocess
import sys

PATIENCE = 60  # seconds
WHOLE = ["NULL", "-1", "0", "1", "2147483647", "-2147483648",
         "9223372036854775807", "-9223372036854775808", "1073741824", "32767"]
REAL = ["NULL", "'NaN'", "'Infinity'", "'-Infinity'", "1e308", "-1e-308", "0"]
TEXT = ["NULL", "''", "E'\\x1b[31mred'", "E'a\\nb'", "E'\\x07\\x7f'",
        "'<script>alert(1)</script>'", "repeat('x', 2000000)", "'../../etc'",
        "U&'\\202Egnp'", "'%s%n'", "'{\"a\":'", "'0c1b1e05'", "'finished'"]
BYTES = ["NULL", "''", "'\\x00'", "'\\x0000c07f'", "'\\x000102'",
         "decode(repeat('ff', 1000000), 'hex')", "'\\xa207c07f0000807f'"]
JSON = ["NULL", "'null'", "'[]'", "'{}'", "'\"a\"'", "'{\"steps\":-1}'",
        "'{\"layers\":[1,{},null]}'", "'{\"steps\":1e300}'",
        "('[' || repeat('1,', 100000) || '1]')::{type}"]
VALUES = {"smallint": WHOLE, "integer": WHOLE, "bigint": WHOLE, "text": TEXT,
          "real": REAL, "double precision": REAL, "bytea": BYTES,
          "json": JSON, "jsonb": JSON, "uuid": ["NULL", "gen_random_uuid()"],
          "boolean": ["NULL", "true", "false"], "date": ["NULL", "'infinity'",
                                                          "'0001-01-01'"],
          "timestamp with time zone": ["NULL", "'infinity'", "'-infinity'",
                                       "'0001-01-01'"]}
COMMANDS = [["{}"], ["{}", "--json"], ["{}", "--compare"],
            ["{}", "--heatmap=h.svg", "-q"], ["export", "{}", "-o", "e.csv"],
            ["report", "{}", "-o", "r.html", "-q"],
            ["watch", "--once", "{}", "--state=s.state"]]


def psql(statement, database=None):
    ended = subprocess.run(
        ["psql", "-XAtq", "-v", "ON_ERROR_STOP=1", "-c", statement],
        capture_output=True, text=True,
        env={**os.environ, **({"PGDATABASE": database} if database else {})})
    return ended.returncode == 0, ended.stdout + ended.stderr


def columns():
    good, text = psql(
        "SELECT table_schema || '.' || table_name, column_name, data_type"
        " FROM information_schema.columns JOIN information_schema.tables"
        " USING (table_schema, table_name)"
        " WHERE table_schema NOT IN ('pg_catalog', 'information_schema')"
        " AND table_type = 'BASE TABLE'")
    found = [line.split("|") for line in text.splitlines()]
    return [column for column in found if column[2] in VALUES]


def judge(ended, out):
    if ended.returncode not in (0, 3, 4):
        return "exit %d: %s" % (ended.returncode, ended.stderr[-300:])
    for text in (ended.stderr, out):
        control = re.search(b"[\x00-\x08\x0b-\x1f\x7f]", text)
        if control:
            return "a control byte: %r" % text[max(
                control.start() - 60, 0):][:120]
    lines = ended.stderr.splitlines()
    if ended.returncode and not lines:
        return "exit %d, without a message" % ended.returncode
    strange = [line for line in lines
               if not line.startswith(b"entropy-scan: ")]
    return "a message of several lines: %r" % strange[:2] if strange else ""


def main():
    scan, url, count, seed, folder = sys.argv[1:]
    draw = random.Random(seed)
    every = columns()
    base = os.environ["PGDATABASE"]
    broken = refused = 0
    for number in range(int(count)):
        name = "hostile%d" % (number % 2)
        psql('DROP DATABASE IF EXISTS %s' % name, "template1")
        good, why = psql('CREATE DATABASE %s TEMPLATE "%s"' % (name, base),
                         "template1")
        if not good:
            sys.exit(why)
        done = []
        for _ in range(draw.randint(1, 4)):
            table, column, kind = draw.choice(every)
            value = draw.choice(VALUES[kind]).replace("{type}", kind)
            where = draw.choice(["", " WHERE random() < 0.3"])
            if draw.random() < 0.15:
                statement = "DELETE FROM %s%s" % (table, where)
            else:
                statement = 'UPDATE %s SET "%s" = %s%s' % (
                    table, column, value, where)
            good, _ = psql(statement, name)
            done += [statement] if good else []
        refused += not done
        there = re.sub("/[^/?]*($|\\?)", "/%s\\1" % name, url)
        for words in COMMANDS:
            command = [scan, *(word.format(there) for word in words)]
            try:
                ended = subprocess.run(command, capture_output=True,
                                       cwd=folder, timeout=PATIENCE,
                                       stdin=subprocess.DEVNULL)
                why = judge(ended, ended.stdout)
            except subprocess.TimeoutExpired:
                why = "did not end"
            if why:
                broken += 1
                print("%s: %s: %s" % ("; ".join(done), " ".join(
                    words), why))
    print("soak: %s hostile databases (%d refused them), %d broken" % (
        count, refused, broken))
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
