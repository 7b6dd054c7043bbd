"""What all runs of a folder have in common: commit, corpus, rules; one of each.

For replicate.py and thresholds.py. Names of the environment's variables begin
with a prefix, REPLICATE or THRESHOLDS.
"""
import json
import os
import signal
import subprocess
import sys

import report
from runs import Refused, data_checksum

HERE = os.path.dirname(os.path.abspath(__file__))


def git(*arguments):
    said = subprocess.run(["git", "-C", HERE, *arguments], capture_output=True, text=True)
    return said.stdout.strip() if said.returncode == 0 else None


def sources(prefix, strict=True):
    """The commit, and whether what lies here is another thing: then refused if strict."""
    commit = git("rev-parse", "HEAD")
    changed = git("status", "--porcelain", "--", ":/", ":!/samples/results")
    dirty = commit is None or bool(changed)
    if dirty and strict and os.environ.get(f"{prefix}_DIRTY") != "1":
        raise Refused(
            "no git commit says what these sources are: clone the repository, or set "
            f"{prefix}_DIRTY=1, which the results say" if commit is None else
            f"{changed.splitlines()[0].split(maxsplit=1)[1]}: differs from the commit: commit "
            f"it, or set {prefix}_DIRTY=1, which the results say")
    return {"commit": commit or "unknown", "dirty": dirty}


def corpus(build, folder, sha256, given=None):
    """The token file and its SHA-256: of corpus.list, by samples/corpus/debian.sh.

    It has to have the one that is wanted, unless it is given.
    """
    if given:
        return given, data_checksum(given)
    data = os.path.join(folder, "corpus.tok")
    if not os.path.exists(data):
        made = subprocess.run(
            [os.path.join(HERE, "..", "corpus", "debian.sh"),
             "--list", os.path.join(HERE, "corpus.list"), "--cache",
             os.path.join(folder, "packages"), "-o", os.path.abspath(data) + ".new"],
            env={**os.environ, "BUILD": build})
        if made.returncode:
            raise Refused(f"{data}: not made, for the reason above")
        os.replace(data + ".new", data)
    checksum = data_checksum(data)
    if checksum != sha256:
        raise Refused(f"{data}: its SHA-256 is {checksum}, not that of the rules: remove it, "
                      "it is then made of samples/truth/corpus.list")
    return data, checksum


def recorded(folder):
    """What its runs are of; None before the first."""
    path = os.path.join(folder, "edition.json")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except ValueError:
        raise Refused(f"{path}: damaged: remove {folder} and begin anew") from None


def begin(folder, prefix, edition, strict=True):
    """Refuses a folder of another edition; dirty once is dirty for good."""
    there = recorded(folder) or edition
    for key in ("commit", "corpus", "rules") if strict else ():
        if there.get(key) != edition[key]:
            raise Refused(f"{folder}: its runs are of {key} {there.get(key)}, this is "
                          f"{edition[key]}: go back to it, or begin anew with another "
                          f"{prefix}_DIR")
    edition["dirty"] = edition["dirty"] or bool(there.get("dirty"))
    report.replace_file(os.path.join(folder, "edition.json"),
                        json.dumps(edition, indent=1) + "\n")


def whole(name, default, least, most):
    """A number of the environment."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or not least <= int(text) <= most:
        raise Refused(f"{name}: '{text}': a whole number from {least} to {most}")
    return int(text)


def run_program(main):
    """main() of a program: what is refused is one line; a signal ends its trainings."""
    program = os.path.basename(sys.argv[0])
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda n, frame: sys.exit(128 + n))
    try:
        main()
    except Refused as error:
        sys.exit(f"{program}: {error}")
    except subprocess.CalledProcessError as error:
        sys.exit(f"{program}: {error.cmd[0]}: exit code {error.returncode}")
    except KeyboardInterrupt:
        sys.exit(130)
