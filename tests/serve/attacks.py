"""Attacks `entropy-scan serve` as web pages, other users and broken clients could."""
import os
import shutil

from server import Events, Server, check, is_closed, until

server = Server("runs", "--allow-stop")
runs = server.ready(3)
key = runs["a.db"]["key"]
local = f"127.0.0.1:{server.port}"

# --- token
addresses = ["", "api/runs", "api/events", f"api/series?run={key}&name=loss", f"api/maps?run={key}",
             f"api/draw?run={key}&figure=loss", "api/nope"]
answers = [server.ask(path, token=False) for path in addresses]
check("every address needs the token", all(a.status == 401 for a in answers), answers)
check("an answer without the token names no run", all(b"a.db" not in a.body for a in answers))
wrong = [server.token[:-1], server.token + "0", "0" * 32, "", server.token.upper() + "x"]
answers = [server.ask("api/runs", headers={"Authorization": "Bearer " + text}) for text in wrong]
answers += [server.ask("?token=" + text, token=False) for text in wrong]
check("a wrong token is refused", all(a.status == 401 for a in answers), answers)
answer = server.ask("api/runs?token=" + server.token, token=False)
check("a token in the address of a request is refused", answer.status == 401, answer)
first = server.ask("?token=" + server.token, token=False)
cookie = first.headers["Set-Cookie"]
check("the first visit leads to an address without the token",
      first.status == 303 and first.headers["Location"] == "./", first)
check("the cookie is for this site and not for scripts",
      "HttpOnly" in cookie and "SameSite=Strict" in cookie and "Domain" not in cookie, cookie)
pair = cookie.split(";")[0]
answer = server.ask("api/runs", headers={"Cookie": "a=b; " + pair + "; c"}, token=False)
check("the cookie admits requests", answer.status == 200, answer)
answer = server.ask("api/runs", headers={"Cookie": pair[:-1]}, token=False)
check("a cookie with a wrong token is refused", answer.status == 401, answer)

# --- headers
page = server.ask("")
policy = page.headers["Content-Security-Policy"]
check("the page admits only its own script and style",
      "default-src 'none'" in policy and "connect-src 'self'" in policy and "unsafe" not in policy and
      "frame-ancestors 'none'" in policy, policy)
framed = server.ask("?embed=" + server.token, token=False)
check("a notebook may frame the page if it knows the token",
      framed.status == 200 and "frame-ancestors" not in framed.headers["Content-Security-Policy"] and
      "X-Frame-Options" not in framed.headers and "Set-Cookie" not in framed.headers, framed)
check("a frame needs the right token", server.ask("?embed=x", token=False).status == 401)
answers = [server.ask(path, headers={"Origin": f"http://{local}"}) for path in addresses if path != "api/events"]
check("no answer can be read by other sites",
      not any("Access-Control-Allow-Origin" in a.headers for a in answers))
check("no answer is guessed, stored or embedded by other sites",
      all(a.headers["X-Content-Type-Options"] == "nosniff" and a.headers["Referrer-Policy"] == "no-referrer" and
          a.headers["Cross-Origin-Resource-Policy"] == "same-origin" and
          ("no-store" in a.headers["Cache-Control"] or "no-cache" in a.headers["Cache-Control"])
          for a in answers), answers)
check("a figure opened as a page runs no script", "sandbox" in
      server.ask(f"api/draw?run={key}&figure=loss").headers["Content-Security-Policy"])

# --- other sites
for host in ("evil.example", f"evil.example:{server.port}", "127.0.0.1.evil.example", "10.0.0.1", "localhost.evil",
             "", "[::1", "localhost:x", "127.0.0.1@evil.example"):
    answer = server.ask("api/runs", headers={"Host": host})
    check(f"the host '{host}' is refused", answer.status in (400, 403), answer)
for host in ("localhost", f"LOCALHOST:{server.port}", "127.0.0.1:9", "[::1]:80", "a.localhost"):
    answer = server.ask("api/runs", headers={"Host": host})
    check(f"the host '{host}' is accepted", answer.status == 200, answer)
for headers in ({"Origin": "http://evil.example"}, {"Origin": "null"}, {"Origin": "http://127.0.0.1:1"},
                {"Sec-Fetch-Site": "cross-site"}, {"Sec-Fetch-Site": "same-site"}):
    answers = [server.ask(f"api/stop?run={key}", "POST", headers), server.ask("api/runs", headers=headers)]
    check(f"{headers} is refused", all(a.status == 403 for a in answers), answers)
check("no run was stopped", not os.path.exists("runs/a.db.stop"))
answer = server.ask(f"api/stop?run={key}")
check("a run is stopped only by POST", answer.status == 405, answer)
answer = server.ask(f"api/stop?run={key}", "POST")
check("a run that has ended is not stopped", answer.status == 409 and not os.path.exists("runs/a.db.stop"), answer)
for method in ("PUT", "DELETE", "OPTIONS", "PATCH", "TRACE"):
    answer = server.ask("api/runs", method)
    check(f"{method} is refused", answer.status == 405, answer)
check("POST to other addresses is refused", server.ask("api/runs", "POST").status == 405)

# --- paths
for path in ("../../../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "runs/a.db", "api/../../a.db", "//etc/passwd",
             "api/runs/", "a.db%00.html"):
    answer = server.ask(path)
    check(f"the path {path} names no file", answer.status == 404, answer)

# --- links
os.mkdir("secret")
shutil.copy("runs/a.db", "secret/secret.db")
os.symlink("../secret/secret.db", "runs/link.db")
os.symlink("../secret", "runs/linked")
shutil.copytree("secret", "runs/moved")
moved = server.ready(4)["secret.db"]["key"]
check("links are not followed", server.listed()["n"] == 4)
os.rename("runs/moved", "moved")
os.symlink("../secret", "runs/moved")
answer = server.ask(f"api/series?run={moved}&name=loss")
check("a folder that was replaced by a link is not read", b"error" in answer.body or answer.status == 404, answer)
check("a run below such a folder is gone", until(lambda: server.listed()["n"] == 3), server.listed())
for name in ("link.db", "linked", "moved"):
    os.remove("runs/" + name)

# --- large and slow requests
huge = server.raw(b"GET /?x=" + b"y" * 100000 + b" HTTP/1.1\r\nHost: localhost\r\n\r\n")
check("a huge address is refused", b" 414 " in huge[:20] or b" 431 " in huge[:20] or b" 400 " in huge[:20], huge[:200])
many = b"".join(b"X-%d: %s\r\n" % (i, b"y" * 100) for i in range(2000))
huge = server.raw(b"GET / HTTP/1.1\r\nHost: localhost\r\n" + many + b"\r\n")
check("huge headers are refused", b" 431 " in huge[:20] or b" 400 " in huge[:20] or not huge, huge[:200])
body = server.raw(b"POST /api/stop HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer "
                  + server.token.encode() + b"\r\nContent-Length: 99999999\r\n\r\nx")
check("a body is refused", b" 413 " in body[:20], body[:200])
body = server.raw(b"POST /api/stop HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n")
check("a body in chunks is refused", b" 413 " in body[:20], body[:200])
for junk in (b"\x00" * 500 + b"\r\n\r\n", b"GET\r\n\r\n", b"GET / HTTP/9.9\r\n\r\n", b"\x16\x03\x01" + os.urandom(200) + b"\r\n\r\n"):
    server.raw(junk + b"\r\n", wait=False).close()
check("requests that are not HTTP do no harm", server.ask("api/runs").status == 200)

slow = server.raw(b"GET / HTTP/1.1\r\nHost: localh", wait=False)
idle = [server.connect() for _ in range(1000)]
answer = server.ask("api/runs")
check("1000 idle connections do not stop the page", answer.status == 200, answer)
streams = [Events(server) for _ in range(20)]
check("20 streams are open", all(s.next()[0] == "runs" for s in streams))
# A client that sends thousands of requests and never reads the answers.
deaf = server.connect()
deaf.settimeout(0.2)
request = (f"GET /api/runs HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {server.token}\r\n\r\n").encode()
try:
    for _ in range(2000):
        deaf.sendall(request)
except (TimeoutError, ConnectionError):
    pass
check("a client that does not read does not stop the page", server.ask("api/runs").status == 200)
more = [server.connect() for _ in range(1500)]
check("more connections than are allowed do not stop the page", server.ask("api/runs").status == 200)
check("the streams are still open", until(lambda: server.ask("").status == 200))
memory = max(int(line.split()[1]) for pid in [server.process.pid]
             for line in open(f"/proc/{pid}/status") if line.startswith("VmRSS"))
check("the memory of the server is bounded", memory < 300000 or os.environ.get("SAN"), f"{memory} KB")
check("a request that is never completed is cut off", is_closed(slow, 40))
for peer in idle + more + [deaf]:
    peer.close()
for stream in streams:
    stream.close()

# --- processes
answers = []
busy = [server.connect() for _ in range(60)]
for peer in busy:
    peer.sendall((f"GET /api/draw?figure=heatmap&run={key} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                  f"Authorization: Bearer {server.token}\r\n\r\n").encode())
for peer in busy[:20]:
    peer.close()
for peer in busy[20:]:
    got = b""
    while part := peer.recv(65536):
        got += part
    answers.append(got[:15])
    peer.close()
check("many figures at once are drawn, one after the other", all(b" 200 " in a for a in answers), answers)
def children():
    return open(f"/proc/{server.process.pid}/task/{server.process.pid}/children").read().split()
check("one process reads run files", until(lambda: len(children()) == 1), children())
os.kill(int(children()[0]), 9)
shutil.copy("runs/a.db", "runs/later.db")
check("the process that reads run files is started again", "later.db" in server.ready(4))
os.remove("runs/later.db")
server.ready(3)
reader = children()
os.kill(server.process.pid, 9)
server.process.wait()
check("a killed server leaves no process",
      len(reader) == 1 and until(lambda: not os.path.exists(f"/proc/{reader[0]}")), reader)
