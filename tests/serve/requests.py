"""Checks the answers of entropy-scan serve to the requests of its page."""
import gzip
import math
import os
import shutil
import subprocess
import xml.etree.ElementTree

from server import SCAN, Server, blocks, check, floats, until

# A run of 2 layers with 3 heads. It has NaN, infinite and missing values, and a
# name that contains HTML.
ODD = """# arch: SM
# ctx: 8
# name: <img src=x onerror=alert(1)>
step,layer,head,entropy,loss
1,,,,2.5
1,0,0,0.5,
1,0,1,NaN,
1,0,2,inf,
1,1,0,NA,
1,1,1,0.25,
1,1,2,0.125,
2,,,,NaN
2,0,0,0.5,
2,0,1,0.5,
2,0,2,0.5,
2,1,0,NaN,
2,1,1,NaN,
2,1,2,NaN,
"""


def make_run(path, text):
    with open("x.csv", "w", encoding="utf-8") as file:
        file.write(text)
    subprocess.run([SCAN, "import", "-q", "x.csv", "-o", path], check=True)


def long_text(steps):
    """Returns the CSV of a run with one layer, one head and the given number of steps."""
    rows = [f"{s},,,,{3 - s / steps}\n{s},0,0,{0.7 if s % 100 else 0.01},\n"
            for s in range(steps)]
    return "# arch: SM\n# ctx: 8\nstep,layer,head,entropy,loss\n" + "".join(rows)


def check_list(server, runs):
    listed = server.listed()
    odd = runs["odd.db"]
    check("the list has the runs below the folder", set(runs) == {"a.db", "odd.db", "long.db"}, runs)
    check("a name made of HTML is text", odd["name"] == "<img src=x onerror=alert(1)>", odd)
    check("the list has the flags of a run", runs["a.db"]["flags"][0]["kind"] == "collapse")
    check("the advice of a flag is a name", runs["a.db"]["flags"][0]["advice"] == "collapse")
    check("a run has lines for the list", len(runs["long.db"]["spark"]["loss"]["steps"]) > 20)
    check("NaN in a line is null", odd["spark"]["loss"]["values"] == [2.5, None], odd["spark"])
    check("a run lists its series", {"name": "loss", "phase": "train", "shape": "run", "unit": "nats",
                                     "last": 2} in odd["recorded"], odd)
    check("the common maximum is that of the report", listed["max"]["policy"] == "observed")
    check("keys are of one kind", all(len(run["key"]) == 16 for run in listed["runs"]))
    version = listed["version"]
    changes = server.listed(version)
    check("nothing changed since the version", changes["runs"] == [] and not changes["complete"], changes)
    check("an unknown version gives the complete list",
          server.listed("0.1")["complete"] and server.listed("x")["n"] == 3)
    same = server.ask("api/runs", headers={"If-None-Match": f'"{version}"'})
    check("an unchanged list costs nothing", same.status == 304 and same.body == b"", same)
    packed = server.ask("api/runs", headers={"Accept-Encoding": "gzip"})
    check("the list is compressed for a browser", gzip.decompress(packed.body) ==
          server.ask("api/runs").body)
    head = server.ask("api/runs", "HEAD")
    check("HEAD is answered", head.status == 200 and head.body == b"", head)


def check_series(server, runs):
    key = runs["odd.db"]["key"]
    (header, (steps, values, _, _)), = blocks(
        server.ask(f"api/series?run={key}&name=entropy").body)
    check("a block describes the series",
          (header["rows"], header["columns"], header["n"], header["shape"]) == (2, 3, 2, "head"), header)
    numbers = floats(values)
    check("steps are exact", steps == (1, 2), steps)
    check("NaN, infinity and missing values keep their bits",
          math.isnan(numbers[1]) and numbers[2] == math.inf and values[3] == 0x7FC007A2, values)
    long = runs["long.db"]["key"]
    (header, parts), = blocks(server.ask(f"api/series?run={long}&name=entropy&values=1000").body)
    low = floats(parts[1])
    check("a long series is thinned, and its dips remain",
          header["n"] < header["samples"] == 4000 and min(low) < 0.02, header)
    mark = header["mark"]
    (header, parts), = blocks(server.ask(f"api/series?run={long}&name=entropy&since={mark}").body)
    check("nothing follows the last sample", header["continues"] and header["n"] == 0, header)
    (header, parts), = blocks(server.ask(f"api/series?run={long}&name=entropy&since=3999:00000000").body)
    check("a replaced sample gives the whole series", not header["continues"] and header["n"] == 4000, header)
    found = blocks(server.ask(
        f"api/series?run={key}&run={long}&name=entropy&name=loss&name=nope").body)
    check("runs and names give a block each",
          [(h["run"], h["name"]) for h, _ in found] ==
          [(k, n) for k in (key, long) for n in ("entropy", "loss", "nope")], found)
    check("a missing series is an error of its block", "no series" in found[2][0]["error"], found[2])
    (header, _), = blocks(server.ask(f"api/maps?run={key}").body)
    check("a run without attention maps", header["n"] == 0, header)


def check_figures(server, runs):
    odd, long = runs["odd.db"]["key"], runs["long.db"]["key"]
    for form, kind, start in (("svg", "image/svg+xml", b"<?xml"), ("png", "image/png", b"\x89PNG"),
                              ("pdf", "application/pdf", b"%PDF")):
        answer = server.ask(f"api/draw?figure=heatmap&run={odd}&run={long}&format={form}&theme=dark")
        check(f"a figure as {form}", answer.status == 200 and answer.body.startswith(start) and
              answer.headers["Content-Type"] == kind and
              f'filename="heatmap.{form}"' in answer.headers["Content-Disposition"], answer)
    def drawn(query):
        answer = server.ask(f"api/draw?run={odd}&run={long}&{query}")
        root = xml.etree.ElementTree.fromstring(answer.body)
        return [e.text for e in root.iter() if e.tag.endswith("text")]
    texts = drawn("figure=heatmap&step=1500")
    check("each run is drawn at its last sample up to a step", "step 2" in texts and
          "step 1500" in texts, texts)
    texts = drawn("figure=heatmap&step=0")
    check("or at its first sample", "step 1" in texts and "step 0" in texts, texts)
    texts = drawn("figure=heatmap&figure=loss")
    check("figures share a page", "loss (nats)" in texts and "step 3999" in texts, texts)
    plain, log = drawn("figure=loss&log=0"), drawn("figure=loss&log=1")
    check("a figure has a logarithmic axis", plain != log == drawn("log=1&figure=loss"), log)
    texts = drawn("figure=loss&steps=1000-1200")
    check("a figure has a range of steps", "1.1K" in texts and "2K" not in texts, texts)
    answer = server.ask(f"api/draw?run={odd}&format=csv&name=loss")
    export = subprocess.run([SCAN, "export", "runs/odd.db", "--series", "loss", "-o", "-"],
                            capture_output=True, check=True).stdout
    check("values as CSV are those of export", answer.body == export, answer)
    answer = server.ask(f"api/draw?figure=delta&run={odd}")
    check("a figure that the runs do not have", answer.status == 404 and
          "at least two runs" in answer.json()["error"], answer)


def check_wrong(server, runs):
    key = runs["odd.db"]["key"]
    for name, path, status in (
            ("an unknown address", "api/nope", 404),
            ("an unknown run", "api/series?run=0123456789abcdef&name=loss", 404),
            ("a run as a path", "api/series?run=/etc/passwd&name=loss", 404),
            ("no run", "api/series?name=loss", 400),
            ("no series", f"api/series?run={key}", 400),
            ("an unknown phase", f"api/series?run={key}&name=loss&phase=x", 400),
            ("an unknown figure", f"api/draw?run={key}&figure=x", 404),
            ("too many figures", f"api/draw?run={key}" + "&figure=loss" * 9, 400),
            ("an unclear axis", f"api/draw?run={key}&figure=loss&log=yes", 400),
            ("an unknown format", f"api/draw?run={key}&figure=loss&format=gif", 400),
            ("a negative step", f"api/draw?run={key}&figure=loss&step=-1", 400),
            ("an unclear range of steps", f"api/draw?run={key}&figure=loss&steps=9-1", 400),
            ("too many values", f"api/series?run={key}&name=loss&values=99999999999", 400),
            ("too many runs", "api/series?name=loss" + f"&run={key}" * 65, 400),
            ("too many names", f"api/series?run={key}" + "&name=x" * 9, 400)):
        answer = server.ask(path)
        check(f"{name} is refused", answer.status == status and answer.json()["error"], answer)
    answer = server.ask(f"api/stop?run={key}", "POST")
    check("a run is not stopped without --allow-stop",
          answer.status == 403 and not os.path.exists("runs/odd.db.stop"), answer)


def check_files(server):
    """Checks the answers while files appear, are damaged, replaced and removed."""
    shutil.copy("runs/odd.db", "runs/new.db")
    key = server.ready(4)["new.db"]["key"]
    version = server.listed()["version"]
    with open("runs/new.db", "r+b") as file:
        file.write(b"damage" * 100)
    failed = until(lambda: [f for f in server.listed()["failed"] if f["path"] == "runs/new.db"])
    check("a damaged file is named", failed and "not a run file" in failed[0]["error"], failed)
    check("its runs remain in the list", key in [run["key"] for run in server.listed()["runs"]])
    answer = server.ask(f"api/series?run={key}&name=loss")
    check("a damaged file is an error of the block", "error" in blocks(answer.body)[0][0], answer)
    os.replace("x.db", "runs/new.db")
    until(lambda: not server.listed()["failed"])
    changes = server.listed(version)
    check("a replaced file has another run", changes["gone"] == [key] and changes["n"] == 4, changes)
    os.remove("runs/new.db")
    server.ready(3)
    os.mkdir("runs/below")
    shutil.copy("runs/odd.db", "runs/below/deep.db")
    check("a run in a new folder is found", "deep.db" in server.ready(4))
    shutil.rmtree("runs/below")
    server.ready(3)


make_run("runs/odd.db", ODD)
make_run("runs/long.db", long_text(4000))
make_run("x.db", ODD.replace("<img", "<b"))
before = sorted(os.listdir("runs"))
server = Server("runs")
runs = server.ready(3)
page = server.ask("")
check("the page is live", page.status == 200 and b'"live":{"boot":"' in page.body, page)
check("a figure is named in the page", b'{"name":"heatmap","about":"' in page.body)
check_list(server, runs)
check_series(server, runs)
check_figures(server, runs)
check_wrong(server, runs)
check_files(server)
check("no file of the folder was written", sorted(os.listdir("runs")) == before, os.listdir("runs"))
code, errors = server.end()
check("SIGTERM ends the server with exit code 0", code == 0, (code, errors))
again = Server("runs", "--base-path", "/proxy/1/", "--token-file", "token")
check("keys are the same after a restart", again.ready(3)["odd.db"]["key"] == runs["odd.db"]["key"])
check("a base path is part of the address", again.path == "/proxy/1/", again.address)
again.path = "/"
check("a proxy may remove the base path", again.ask("api/runs").status == 200)
check("the token file is created, readable by its owner only",
      oct(os.stat("token").st_mode & 0o777) == "0o600")
token = again.token
again.end()
last = Server("runs", "--token-file", "token")
check("the token file keeps the token", last.token == token)
code, errors = last.end(2)
check("SIGINT ends the server with exit code 0", code == 0, (code, errors))
