"""Trains models while entropy-scan serve shows their runs."""
import json
import os
import signal
import subprocess

from server import SCAN, Events, Server, blocks, check, until

TRAIN = os.path.join(os.environ["BUILD"], "entropy-train")
os.mkdir("live")


def train(name, *arguments):
    return subprocess.Popen(
        [TRAIN, "--data", "x.tok", "--arch", "SM", "--n-layer", "2", "--n-head", "3", "--d-model", "12",
         "--ctx", "16", "--batch", "4", "--threads", "1", "--eval-batches", "2", "--out", f"live/{name}",
         "--record-every", "1", *arguments],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


server = Server("live", "--allow-stop")
events = Events(server)
name, version, data = events.next()
check("a stream begins with the version", name == "runs" and data["changed"] == [], data)
training = train("a.db", "--steps", "1000000")
data = events.find(lambda name, data: name == "runs" and data["changed"])
key = data["changed"][0]
run = server.ready(1)["a.db"]
check("a run that begins is listed", run["key"] == key and run["status"] == "running", run)
# Name the phase: without a phase, the server would return the series of the evaluation
# as long as it has read no training sample.
series = f"api/series?run={key}&name=entropy&phase=train"
(header, parts), = until(lambda: [one for one in blocks(server.ask(series).body) if one[0]["n"]])
steps = list(parts[0])
turns, broken = 0, None
while not broken and (len(steps) < 3000 or turns < 100):
    if turns < 3:
        events.find(lambda name, data: name == "runs" and key in data["changed"])
    mark = header["mark"]
    (header, parts), = blocks(server.ask(f"{series}&since={mark}").body)
    if not header["continues"] or (parts[0] and parts[0][0] <= steps[-1]):
        broken = (turns, mark, header, parts[0][:3])
    steps += parts[0]
    turns += 1
check("new samples continue the old ones", not broken, broken)
check("no sample was left out", steps == sorted(set(steps)) and len(steps) == header["samples"], header)
answer = server.ask(f"api/stop?run={key}", "POST", headers={"Origin": f"http://127.0.0.1:{server.port}",
                                                            "Sec-Fetch-Site": "same-origin"})
check("a run is requested to stop", answer.status == 200 and answer.json() == {"stopped": True}, answer)
check("the training stops", training.wait(60) == 0)
check("the list says so", until(lambda: server.listed()["runs"][0]["status"] == "stopped"),
      server.listed()["runs"][0]["status"])
# SQLite's log may remain, because the page may read the run while its recorder ends.
check("nothing remains of the request",
      set(os.listdir("live")) <= {"a.db", "a.db-wal", "a.db-shm"}, os.listdir("live"))

# With this learning rate the loss becomes NaN, which raises an alert.
training = train("b.db", "--steps", "400", "--lr", "1000", "--clip", "0")
alert = events.find(lambda name, data: name == "alert" and data["severity"] in ("error", "critical"))
listed = {run["key"]: run for run in server.listed()["runs"]}
check("an alert arises", alert["run"] in listed and
      alert["title"] and alert["advice"] == alert["kind"], alert)
check("the flag of an alert is in the list",
      alert["kind"] in [flag["kind"] for flag in listed[alert["run"]]["flags"]], listed)
training.wait()
later = Events(server)
name, version, data = later.next()
check("a page that connects later first gets the version", name == "runs", name)
server.ready(2)

# Record a fragment whose writer is killed.
training = train("c.esf", "--store", "fragment", "--steps", "1000000")
events.find(lambda name, data: name == "runs" and data["n"] == 3)
old = []


def is_third(name, data):
    old.append(name == "alert" and all(data[key] == alert[key] for key in ("run", "kind", "severity")))
    return name == "runs" and data["n"] == 3


later.find(is_third)
check("a page that connects later gets no old alert", not any(old), old)
training.send_signal(signal.SIGKILL)
training.wait()
check("a run whose training was killed has failed", until(lambda: [
    run["status"] for run in server.listed()["runs"] if run["path"].endswith("c.esf")] == ["failed"]),
    [run["status"] for run in server.listed()["runs"]])
events.close()
later.close()
code, errors = server.end()
check("the server ends with 0 while pages are open", code == 0, (code, errors))


def flags_of(runs):
    return [(run["step"], [(f["kind"], f["onset"], f["last"], f["stands"]) for f in run["flags"]])
            for run in runs]


def judged():
    """Returns the flags that `entropy-scan --json` reports for the file."""
    return flags_of(json.loads(subprocess.run([SCAN, "live/d.db", "--json"], capture_output=True,
                                              check=True).stdout)["runs"])


# The server does not recompute the flags after every change, because this takes long
# for so many samples. The logits of this training run stay too large, so its flag
# remains active.
os.rename("live", "earlier")
os.mkdir("live")
training = train("d.db", "--steps", "1000000", "--lr", "1", "--schedule", "constant", "--clip", "0")
server = Server("live")
seen = []  # (step, number of flags) of each answer


def is_long():
    seen.extend((run["step"], len(run["flags"])) for run in server.listed()["runs"])
    return seen and seen[-1][0] >= 60000


until(is_long)
training.send_signal(signal.SIGSTOP)
numbers = [n for _, n in seen]
check("a run keeps the flags that it had", numbers == sorted(numbers) and numbers[-1] > 0, seen[-50:])
check("a run that pauses is judged up to its last sample", until(
    lambda: flags_of(server.listed()["runs"]) == judged() != []) and judged()[0][1],
    (server.listed()["runs"][0]["flags"], judged()))
training.kill()
training.wait()
server.end()
