#!/usr/bin/env python3
"""Locks and tasks for Python, through `holdfast rpc`. Standard library only: copy this file and use it.

    from holdfast_client import Holdfast

    with Holdfast("/run/user/1000/holdfast.sock") as holdfast:     # or Holdfast() for a private sidecar
        with holdfast.lock("nightly-backup", waitMs=60_000) as lock:
            backup(fence=lock["fence"])

Run it as a program for a demonstration:  holdfast_client.py [SOCKET]
"""

import concurrent.futures
import contextlib
import itertools
import json
import os
import queue
import socket
import subprocess
import sys
import threading
import traceback


LONGEST_LINE = 16 * 1024 * 1024  # the sidecar's limit for one request


class HoldfastError(Exception):
    """The error of a request: `code` is its name (NotFound), `number` the JSON-RPC error code."""

    def __init__(self, error):
        super().__init__(error["message"])
        self.number = error["code"]
        self.code = error.get("data", {}).get("code")


class LockLost(Exception):
    """The lock was lost before its block ended. Its fence keeps late writes out."""


class Holdfast:
    """One connection. Threads may share it. Its locks are released when it ends, however it ends.

    `path`: the socket of a sidecar. Without it, `command` is started: name the store there or in $HOLDFAST_URL.
    `on_lost` is called with {"lockId", "keyHash", "reason"} when a renewed lock is lost, and with
    {"reason": "disconnected"} when the sidecar is gone: then all of them are lost. It runs on a separate thread.

    A forked child (multiprocessing's default on Linux) inherits the connection, and keeps the locks of a parent
    that dies. Use "spawn", or open the connection after the fork.
    """

    def __init__(self, path=None, command=("holdfast", "rpc"), on_lost=None):
        self._on_lost = on_lost
        self._losses = queue.SimpleQueue()
        self._ids = itertools.count(1)
        self._pending = {}
        self._gone = False
        self._closing = False
        self._sending = threading.Lock()
        if path is not None:
            self._process = None
            self._socket = socket.socket(socket.AF_UNIX)
            self._socket.connect(path)
            self._in = self._socket.makefile("rb")
            self._out = self._socket.makefile("wb")
        else:
            # In a new session: Ctrl-C must reach only the program, which may have work to finish under its lock.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
            )
            self._in, self._out = self._process.stdout, self._process.stdin
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if on_lost is not None:
            threading.Thread(target=self._tell_losses, daemon=True).start()
            self.call("lock.subscribe")

    def start(self, method, **params):
        """Sends a request and returns a future for its result. Cancel it with Holdfast.cancel() only."""
        future = concurrent.futures.Future()
        future.id = next(self._ids)
        line = line_of({"jsonrpc": "2.0", "id": future.id, "method": method, "params": params})
        future.set_running_or_notify_cancel()  # Future.cancel() would not reach the sidecar
        self._pending[future.id] = future
        if self._gone:
            self._fail_all(ConnectionError("the sidecar has gone"))
            return future
        self._send(line)
        return future

    def call(self, method, **params):
        """Sends a request and waits for its result. Raises HoldfastError, or ValueError for an invalid request."""
        return self.start(method, **params).result()

    def cancel(self, future):
        """Cancels a waiting request: it fails with Aborted, unless it has just succeeded."""
        self._send(line_of({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": future.id}}))

    @contextlib.contextmanager
    def lock(self, key, **options):
        """Waits for the lock and renews it until the block ends. Send its `fence` with every write.

        Raises LockLost at the end of the block if the lock was lost meanwhile.
        """
        held = self.call("lock.lock", key=key, **options)
        try:
            yield held
        except BaseException:
            with contextlib.suppress(ConnectionError, HoldfastError):  # the error of the block matters more
                self.call("lock.release", lockId=held["lockId"])
            raise
        if not self.call("lock.release", lockId=held["lockId"])["ok"]:
            raise LockLost(f"the lock {key!r} was lost before its block ended")

    def close(self):
        self._closing = True
        with contextlib.suppress(OSError):  # the sidecar may be gone already
            if self._process is None:
                self._socket.shutdown(socket.SHUT_WR)
            else:
                self._out.close()
        self._reader.join()
        if self._process is None:
            self._socket.close()
        else:
            self._process.wait()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def _send(self, line):
        trace("->", line)
        with self._sending:
            self._out.write(line)
            self._out.flush()

    def _read(self):
        for line in self._in:
            trace("<-", line)
            message = json.loads(line)
            if message.get("method") == "lock.lost":
                self._losses.put(message["params"])
                continue
            if message["id"] is None:
                # The sidecar could not parse a request, or has too many connections. It is unknown which request
                # this was, and the answers to the others would reach no caller. So close the connection.
                self._gone = True
                self._fail_all(HoldfastError(message["error"]))
                self._hang_up()
                break
            future = self._pending.pop(message["id"], None)
            if future is None:
                continue
            if "error" in message:
                future.set_exception(HoldfastError(message["error"]))
            else:
                future.set_result(message["result"])
        self._gone = True
        self._fail_all(ConnectionError("the sidecar has gone"))
        self._losses.put(None if self._closing else {"reason": "disconnected"})

    def _tell_losses(self):
        loss = {}
        while loss is not None and loss.get("reason") != "disconnected":
            loss = self._losses.get()
            try:
                if loss is not None:
                    self._on_lost(loss)
            except Exception:  # the next loss must still be reported
                traceback.print_exc()

    def _hang_up(self):
        if self._process is None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        else:
            self._in.close()

    def _fail_all(self, error):
        while self._pending:
            _, future = self._pending.popitem()
            future.set_exception(error)


def line_of(message):
    """Raises ValueError if it is not valid JSON (NaN), not UTF-8 (half of a surrogate pair) or too long."""
    line = json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
    if len(line) > LONGEST_LINE:
        raise ValueError(f"the request is longer than {LONGEST_LINE} bytes")
    return line + b"\n"


def trace(direction, line):
    if os.environ.get("HOLDFAST_TRACE"):
        print(f"python {direction} {line.decode().rstrip()}", file=sys.stderr, flush=True)


def show(holdfast):
    print("version:", holdfast.call("holdfast.version")["version"])

    with holdfast.lock("example", ttlMs=10_000) as lock:
        print("locked, with the fence", lock["fence"])
        waiting = holdfast.start("lock.lock", key="example", waitMs=60_000)  # a second request, while the lock is held
        assert holdfast.call("lock.isLocked", key="example") is True
        holdfast.cancel(waiting)
        try:
            waiting.result()
        except HoldfastError as error:
            print("the second one was called off:", error.code)

    task = holdfast.call("task.create", ownerId="python", requestMethod="report", variables={"rows": 0})
    me = {"ownerId": "python", "taskId": task["task"]["taskId"]}
    claim = holdfast.call("task.claim", **me)
    holdfast.call("task.setVariables", **me, variables={"rows": 42}, lockId=claim["lockId"])
    holdfast.call("task.complete", **me, result={"total": 42}, lockId=claim["lockId"])
    holdfast.call("lock.release", lockId=claim["lockId"])
    print("the task is", holdfast.call("task.get", **me)["task"]["status"])
    print("its result:", holdfast.call("task.getResult", **me))
    holdfast.call("task.remove", **me)

    try:
        holdfast.call("task.get", **me)
    except HoldfastError as error:
        print("and then:", error.code, error.number)


if __name__ == "__main__":
    with Holdfast(*sys.argv[1:2]) as connection:
        show(connection)
