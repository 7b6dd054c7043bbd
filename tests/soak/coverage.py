"""Reports the branches that the tests reach, by area, as counted by `make
coverage`.

usage: coverage.py [COVERAGE.JSON]

When soak.py calls this program, it runs `make coverage` first, without the
settings of sanitizers.
"""
import json
import os
import re
import shutil
import subprocess
import sys

AREAS = {
    "store": r"store/(?!push/|postgres)",
    "recorder": r"hooks/recorder/",
    "flags": r"analyzer/flags/",
    "parsers": r"analyzer/arch/|cli/alerts/rules/|cli/sweep/(spec|wandb|yaml)|"
               r"cli/exchange/(import|lines|event_file|tags|cells|about)|"
               r"hooks/trainer/(files|settings)/",
}


def count():
    """Runs all tests and returns the path of gcovr's output."""
    if not shutil.which("gcovr"):
        print("soak: skipped: no gcovr: pip install gcovr")
        sys.exit(0)
    env = {k: v for k, v in os.environ.items()
           if k not in ("BUILD", "MAKEFLAGS", "MAKELEVEL", "SAN", "TMPDIR")}
    if subprocess.run(["make", "coverage"], env=env).returncode:
        print("some tests fail in the build that counts branches")
    return "build-coverage/coverage.json"


def main():
    path = sys.argv[1] if len(sys.argv) > 1 else count()
    with open(path) as file:
        files = json.load(file)["files"]
    shares = []
    for area, pattern in AREAS.items():
        mine = [f for f in files if re.match(pattern, f["filename"]) and
                f["branch_total"]]
        reached = sum(f["branch_covered"] for f in mine)
        all_of_them = sum(f["branch_total"] for f in mine)
        shares.append("%s %.1f %%" % (area, 100 * reached / all_of_them))
        print("%s: %d of %d branches; the least:" % (area, reached,
                                                     all_of_them))
        for f in sorted(mine, key=lambda f: f["branch_percent"])[:5]:
            print("    %5.1f %% of %4d  %s" % (f["branch_percent"],
                                              f["branch_total"],
                                              f["filename"]))
    print("soak: branches: " + ", ".join(shares))


if __name__ == "__main__":
    main()
