#!/usr/bin/env python3
"""Compares what locks cost: Holdfast, the bare minimum below it, and other libraries. scripts/bench calls it.

    compare.py --build DIR --peers DIR --output FILE [--rounds N] [--slice MS]

Every side is a process that keeps its connections (compare_side.*). A round asks each of them in turn for a short slice,
in an order that changes; so what else the machine does hits all of them alike. A ratio is made within a round, and its
median and spread are those of the rounds. A side that cannot run is named with its reason. Writes JSON for
compare_report.py.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import random
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

HERE = pathlib.Path(__file__).resolve().parent


class Missing(Exception):
    """A side that cannot take part, and why."""


class Side:
    def __init__(self, command):
        try:
            self._process = subprocess.Popen(
                [str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
            )
        except OSError as error:
            raise Missing(f"{command[0]}: {error.strerror}") from error
        self.version = self._answer()["version"]

    def order(self, *words):
        self._process.stdin.write(" ".join(str(word) for word in words) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def close(self):
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()

    def _answer(self):
        line = self._process.stdout.readline()
        if line:
            return json.loads(line)
        errors = [text.strip() for text in self._process.stderr.read().splitlines() if text.strip()]
        self._process.wait()
        telling = [text for text in errors if "Error" in text or ": " in text] or errors or ["ended without an answer"]
        raise Missing(telling[-1] if "Traceback" in "".join(errors) else telling[0])


class Command:
    """A command that is started again and again, as a shell would."""

    def __init__(self, command, version=None):
        self._command = [str(word) for word in command]
        if shutil.which(self._command[0]) is None:
            raise Missing(f"{self._command[0]} is not installed")
        self.version = version or subprocess.run(
            [self._command[0], "--version"], capture_output=True, text=True, check=False
        ).stdout.splitlines()[0]

    def order(self, _what, _in_flight, milliseconds):
        took = []
        start = last = time.perf_counter()
        while last - start < milliseconds / 1000:
            pid = os.posix_spawnp(self._command[0], self._command, os.environ)
            if os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) != 0:
                raise Missing(f"{self._command[0]} failed")
            end = time.perf_counter()
            took.append((end - last) * 1e6)
            last = end
        took.sort()
        at = lambda part: took[int(part * (len(took) - 1))]
        return {"pairs": len(took), "seconds": last - start, "p50": at(0.5), "p99": at(0.99)}

    def close(self):
        pass


class RedisServer:
    """On loopback, on a free port, without persistence."""

    def __init__(self, directory):
        program = shutil.which("redis-server")
        if program is None:
            raise Missing("redis-server is not installed")
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.version = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout
        self.version = "Redis " + self.version.split("v=")[1].split()[0]
        arguments = ["--port", str(self.port), "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", directory]
        self._process = subprocess.Popen([program, *arguments], stdout=subprocess.DEVNULL)
        deadline = time.monotonic() + 10
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port)).close()
                return
            except OSError:
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)

    def close(self):
        self._process.terminate()
        self._process.wait()


def python_with_redis():
    """The interpreter that has the package: Debian's python3-redis belongs to /usr/bin/python3."""
    for program in ("python3", "/usr/bin/python3"):
        found = shutil.which(program)
        if found and subprocess.run([found, "-c", "import redis"], capture_output=True, check=False).returncode == 0:
            return found
    raise Missing("redis-py is not installed (Debian: python3-redis)")


def node_with(peers, package):
    if shutil.which("node") is None:
        raise Missing("node is not installed")
    if not (peers / "node_modules" / package).exists():
        raise Missing(f"the npm package {package} is not installed in {peers.name}")
    return "node"


def plan(build, peers, work, port):
    """The groups: what is compared, with which reference, and how each side is started."""
    url = f"redis://127.0.0.1:{port}"
    cpp = build / "bench/compare_side"
    holdfast = build / "holdfast"
    py, mjs = HERE / "compare_side.py", HERE / "compare_side.mjs"
    bare = ("bare", "bare generator", "the same scripts by sockets alone", True, lambda: [cpp, "bare", port])
    hiredis = ("hiredis", "raw hiredis", "the same scripts, one connection", True, lambda: [cpp, "hiredis", port])
    ours = ("holdfast", "Holdfast, C++", "guard: label, renewal, loss", True, lambda: [cpp, "holdfast", url])
    syncguard = ("syncguard", "ioredis, SyncGuard's scripts", "Node.js; the documented scripts", True,
                 lambda: [node_with(peers, "ioredis"), mjs, "syncguard", peers, port])
    redlock = ("redlock", "redlock", "Node.js; one server", False,
               lambda: [node_with(peers, "redlock"), mjs, "redlock", peers, port])
    redis_py = ("redis-py", "redis-py Lock", "Python", False, lambda: [python_with_redis(), py, "redis-py", port])
    node = ("holdfast-node", "Holdfast, Node.js", "client and sidecar", True, lambda: ["node", mjs, "holdfast", holdfast, url])
    python = ("holdfast-python", "Holdfast, Python", "client and sidecar", True,
              lambda: [sys.executable, py, "holdfast", holdfast, url])
    flock = ("flock", "flock(2)", "no lease; one machine", False, lambda: [cpp, "flock", work / "flock"])
    sqlite = ("sqlite", "bare SQLite", "the same transactions by SQLite alone", True, lambda: [cpp, "sqlite", work / "bare.db"])
    file = ("holdfast-sqlite", "Holdfast, sqlite:", "guard", True, lambda: [cpp, "holdfast", f"sqlite:{work}/locks.db"])
    memory = ("holdfast-memory", "Holdfast, memory:", "guard, within one process", True, lambda: [cpp, "holdfast", "memory:"])
    return [
        {"id": "redis-1", "title": "Redis: one pair at a time", "kind": "pairs", "in_flight": 1, "reference": "bare",
         "sides": [bare, hiredis, ours, syncguard, redlock, node, redis_py, python]},
        {"id": "redis-64", "title": "Redis: 64 pairs in flight", "kind": "pairs", "in_flight": 64, "reference": "bare",
         "sides": [bare, ours, syncguard, redlock, node]},
        {"id": "hand-off", "title": "Hand-off: from a release to the grant of a waiter", "kind": "hand-offs",
         "reference": "hiredis", "sides": [("hiredis", "raw hiredis, no waiter", "release, then acquire: the floor on Redis",
                                            True, hiredis[4]), ours, file, flock, redis_py, redlock]},
        {"id": "machine", "title": "One machine, no server: one pair at a time", "kind": "pairs", "in_flight": 1,
         "reference": "sqlite", "sides": [sqlite, file, memory, flock]},
        {"id": "commands", "title": "One command under a lock", "kind": "pairs", "in_flight": 1, "reference": "flock-command",
         "sides": [
             ("flock-command", "flock FILE true", "flock(1): no lease, no fence", False,
              lambda: Command(["flock", work / "command", "true"])),
             ("run", "holdfast run KEY true", "sqlite:", True,
              lambda: Command([holdfast, "--url", f"sqlite:{work}/run.db", "run", "command", "true"])),
             ("run-redis", "holdfast run KEY true", "redis:", True,
              lambda: Command([holdfast, "--url", url, "run", "command", "true"])),
         ]},
    ]


def spread(values):
    """Median, and the range of the middle 80 %."""
    ordered = sorted(values)
    at = lambda part: ordered[round(part * (len(ordered) - 1))]
    return {"median": statistics.median(ordered), "p10": at(0.1), "p90": at(0.9)}


def measure_once(side, group, slice_ms, held):
    """One slice: pairs per second, or microseconds of a hand-off; and the percentiles of a pair, if known.

    One at a time, pairs per second are those of the median pair: what it costs when the machine does nothing else.
    """
    if group["kind"] == "pairs":
        answer = side.order("pairs", group["in_flight"], slice_ms)
        return 1e6 / answer["p50"] if group["in_flight"] == 1 else answer["pairs"] / answer["seconds"], answer
    took = side.order("hand-offs", *held)["took"]
    return statistics.median(took), {"took": took}


def compare(group, rounds, slice_ms, progress):
    started, missing, values, details = {}, [], {}, {}
    rows = []
    for identity, name, what, fenced, make in group["sides"]:
        try:
            made = make()
            started[identity] = Side(made) if isinstance(made, list) else made
            rows.append({"id": identity, "name": name, "what": what, "fenced": fenced, "version": started[identity].version})
            values[identity], details[identity] = [], []
        except Missing as why:
            missing.append({"id": identity, "name": name, "why": str(why)})
    try:
        for round_number in range(-1, rounds):  # the first one warms up
            # Polling sides must not be released always at the same point of their interval.
            held = [20 + round(random.random() * 200) for _ in range(3)]
            order = list(started)
            shift = round_number % max(len(order), 1)
            for identity in order[shift:] + order[:shift]:
                progress(f"{group['title']}: round {round_number + 1} of {rounds}")
                try:
                    value, detail = measure_once(started[identity], group, slice_ms, held)
                except Missing as why:  # it failed midway: what it did before does not count
                    row = next(row for row in rows if row["id"] == identity)
                    rows.remove(row)
                    missing.append({"id": identity, "name": row["name"], "why": str(why)})
                    started.pop(identity).close()
                    values.pop(identity)
                    continue
                if round_number >= 0:
                    values[identity].append(value)
                    details[identity].append(detail)
    finally:
        for side in started.values():
            side.close()
    reference = values.get(group["reference"])
    for row in rows:
        mine = values[row["id"]]
        row["values"] = [round(value, 2) for value in mine]
        row.update({key: round(value, 2) for key, value in spread(mine).items()})
        if reference:
            row["ratio"] = {key: round(value, 4) for key, value in spread([a / b for a, b in zip(mine, reference)]).items()}
        if group["kind"] == "hand-offs":
            took = sorted(one for detail in details[row["id"]] for one in detail["took"])
            row["p50"], row["p99"] = statistics.median(took), took[int(0.99 * (len(took) - 1))]
        elif group["in_flight"] == 1:
            row["p50"] = round(statistics.median(detail["p50"] for detail in details[row["id"]]), 2)
            row["p99"] = round(statistics.median(detail["p99"] for detail in details[row["id"]]), 2)
    return {key: group[key] for key in ("id", "title", "kind", "reference")} | {"rows": rows, "missing": missing}


def processor():
    for line in pathlib.Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, required=True)
    parser.add_argument("--peers", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--slice", type=int, default=250, help="milliseconds")
    options = parser.parse_args()

    def progress(text):
        if sys.stderr.isatty():
            print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)

    work = pathlib.Path(tempfile.mkdtemp(prefix="holdfast-compare-"))
    server = None
    try:
        server = RedisServer(str(work))
        load = [round(os.getloadavg()[0], 2)]
        if load[0] > os.cpu_count() / 2:
            print(f"compare.py: this machine is busy (load {load[0]}): expect a wide spread", file=sys.stderr)
        groups = [
            compare(group, options.rounds, options.slice, progress)
            for group in plan(options.build.resolve(), options.peers.resolve(), work, server.port)
        ]
        load.append(round(os.getloadavg()[0], 2))
    except Missing as why:
        print(f"compare.py: {why}", file=sys.stderr)
        return 1
    finally:
        if server:
            server.close()
        shutil.rmtree(work, ignore_errors=True)
        progress("")
    report = {
        "measured": datetime.datetime.now(datetime.timezone.utc).strftime("%Y-%m-%d"),
        "machine": {"processor": processor(), "processors": os.cpu_count(), "kernel": platform.release(), "load": load},
        "server": server.version,
        "rounds": options.rounds,
        "slice_ms": options.slice,
        "groups": groups,
    }
    options.output.write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    for group in groups:
        for absent in group["missing"]:
            print(f"not measured in \"{group['title']}\": {absent['name']}: {absent['why']}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
