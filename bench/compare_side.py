#!/usr/bin/env python3
"""One side of the comparison that compare.py makes, for sides that are Python; orders as in compare_side.cpp.

    compare_side.py redis-py PORT
    compare_side.py holdfast PROGRAM URL     the Python client, through the sidecar
"""

import json
import os
import platform
import sys
import threading
import time

now = time.perf_counter


class RedisPy:
    """redis-py's Lock with its defaults: SET NX PX, a script that releases, and a waiter that polls every 0.1 s."""

    def __init__(self, port):
        import redis

        self.version = f"redis-py {redis.__version__}, Python {platform.python_version()}"
        self.connections = [redis.Redis(port=int(port)) for _ in range(2)]
        self.connections[0].ping()

    def pair(self):
        lock = self.connections[0].lock("side:redis-py", timeout=30)
        if not lock.acquire(blocking=False):
            raise RuntimeError("not granted")
        lock.release()

    def hold(self):
        lock = self.connections[0].lock("side:redis-py", timeout=30)
        lock.acquire()
        return lock.release

    def wait(self):
        lock = self.connections[1].lock("side:redis-py", timeout=30)
        lock.acquire()
        return lock.release


class Ours:
    def __init__(self, program, url):
        sys.path.insert(0, os.path.join(os.path.dirname(__file__), "../examples/clients"))
        from holdfast_client import Holdfast

        self.version = f"Python {platform.python_version()}"
        self.client = Holdfast(command=[program, "--url", url, "rpc"])

    def pair(self):
        lock = self.client.call("lock.acquire", key="side:python", ttlMs=30000)
        if not lock["ok"] or not self.client.call("lock.release", lockId=lock["lockId"])["ok"]:
            raise RuntimeError("not granted, or not released")


def pairs(side, milliseconds):
    took = []
    start = last = now()
    while last - start < milliseconds / 1000:
        side.pair()
        end = now()
        took.append((end - last) * 1e6)
        last = end
    took.sort()
    at = lambda part: round(took[int(part * (len(took) - 1))], 2)
    return {"pairs": len(took), "seconds": last - start, "p50": at(0.5), "p99": at(0.99)}


def hand_off(side, milliseconds):
    release = side.hold()
    granted = []

    def wait():
        release_mine = side.wait()
        granted.append(now())
        release_mine()

    waiter = threading.Thread(target=wait)
    waiter.start()
    time.sleep(milliseconds / 1000)
    start = now()
    release()
    waiter.join()
    return round((granted[0] - start) * 1e6, 1)


def main(name, *where):
    side = {"redis-py": RedisPy, "holdfast": Ours}[name](*where)
    print(json.dumps({"version": side.version}), flush=True)
    for line in sys.stdin:
        order, *numbers = line.split()
        numbers = [int(number) for number in numbers]
        if order == "pairs":
            answer = pairs(side, numbers[1])
        else:
            answer = {"took": [hand_off(side, held) for held in numbers]}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
