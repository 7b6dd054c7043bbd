"""Checks and records the commit, corpus and rules that all runs of a folder share.

Used by replicate.py and thresholds.py. `prefix` is the beginning of the names of
environment variables, REPLICATE or THRESHOLDS.
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
    """Returns the commit, and true if the sources differ from the commit. With
    `strict`, refuses sources that differ."""
    commit = git("rev-parse", "HEAD")
    changed = git("status", "--porcelain", "--", ":/", ":!/samples/results")
    dirty = commit is None or bool(changed)
    if dirty and strict and os.environ.get(f"{prefix}_DIRTY") != "1":
        raise Refused(
            "the sources have no git commit: clone the repository, or set "
            f"{prefix}_DIRTY=1 (the results mention this)" if commit is None else
            f"{changed.splitlines()[0].split(maxsplit=1)[1]}: differs from the commit: commit "
            f"it, or set {prefix}_DIRTY=1 (the results mention this)")
    return {"commit": commit or "unknown", "dirty": dirty}


def corpus(build, folder, sha256, given=None):
    """Returns the path of the token file and its SHA-256.

    samples/corpus/debian.sh makes the token file from corpus.list; the file's SHA-256
    must be `sha256`. given: path of another token file to use instead, whose SHA-256 is
    not checked.
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
            raise Refused(f"{data}: could not be made, see above")
        os.replace(data + ".new", data)
    checksum = data_checksum(data)
    if checksum != sha256:
        raise Refused(f"{data}: its SHA-256 is {checksum}, not the one in the rules: remove the file to "
                      "have it made from samples/truth/corpus.list")
    return data, checksum


def recorded(folder):
    """Returns the recorded edition of the runs in a folder; None before the first
    run."""
    path = os.path.join(folder, "edition.json")
    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file)
    except FileNotFoundError:
        return None
    except ValueError:
        raise Refused(f"{path}: damaged: remove {folder} and start again") from None


def begin(folder, prefix, edition, strict=True):
    """Records the edition (commit, corpus and rules) of the runs in a folder; refuses a
    folder with runs of another edition. Once a folder contains runs of sources that
    differ from the commit, it remains marked as dirty."""
    there = recorded(folder) or edition
    for key in ("commit", "corpus", "rules") if strict else ():
        if there.get(key) != edition[key]:
            raise Refused(f"{folder}: its runs are of {key} {there.get(key)}, but this is "
                          f"{edition[key]}: check out or restore the earlier one, or start again with another "
                          f"{prefix}_DIR")
    edition["dirty"] = edition["dirty"] or bool(there.get("dirty"))
    report.replace_file(os.path.join(folder, "edition.json"),
                        json.dumps(edition, indent=1) + "\n")


def whole(name, default, least, most):
    """Returns the whole number in the environment variable `name`, from `least` to
    `most`."""
    text = os.environ.get(name, str(default))
    if not text.isdecimal() or not least <= int(text) <= most:
        raise Refused(f"{name}: '{text}': expected a whole number from {least} to {most}")
    return int(text)


def run_program(main):
    """Runs the function main of a program. Prints an exception of the class
    Refused as one line; on a signal, ends the running training processes."""
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
