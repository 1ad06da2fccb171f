#!/usr/bin/env python3
"""Locks, tasks and queues for Python, through `holdfast rpc`. Standard library only: copy this file and use it.

    from holdfast_client import Holdfast

    with Holdfast("/run/user/1000/holdfast.sock") as holdfast:     # or Holdfast() for a private sidecar
        with holdfast.lock("nightly-backup", waitMs=60_000) as lock:
            backup(fence=lock.fence)          # and stop when lock.lost is set
        holdfast.work("render", lambda job: render(job.variables), threads=4)     # a pool of workers

With asyncio:

    async with AsyncHoldfast() as holdfast:
        async with holdfast.lock("nightly-backup", waitMs=60_000) as lock:
            await backup(fence=lock.fence)

Run it as a program for a demonstration:  holdfast_client.py [SOCKET]
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import functools
import heapq
import itertools
import json
import logging
import os
import queue
import select
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterator, Sequence
from typing import IO, Any, Optional, Union, cast


LONGEST_LINE = 16 * 1024 * 1024  # the sidecar's limit for one request
# The sidecar reads nothing while 64 requests of a connection are in progress. A few less, so that cancellations and
# questions about leases are always read.
WINDOW = 60
PATIENCE = 30.0  # seconds that close() waits for a sidecar that hangs

# These wait for other clients, so that a cancellation matters; the others end soon.
WAITING = ("lock.lock", "task.claim", "task.wait", "queue.claimNext", "queue.wait")
# The outcome of a job cannot be stored because of what it contains.
UNSTORABLE = ("TooLarge", "TooDeep")
# The store cannot be reached for now, and whether a change took effect is unknown.
TRANSIENT = ("ServiceUnavailable", "NetworkTimeout", "RateLimited")
CALLED_OFF = {"code": -32603, "message": "the request was cancelled", "data": {"code": "Aborted"}}

Loss = dict[str, Any]  # {"lockId", "keyHash"?, "reason"}, or {"reason": "disconnected"}
Record = dict[str, Any]  # of a task, as docs/reference/rpc.md describes it


class HoldfastError(Exception):
    """The error of a request: `code` is its name (NotFound), `number` the JSON-RPC error code."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.number: int = error["code"]
        self.code: Optional[str] = error.get("data", {}).get("code")


class Disconnected(ConnectionError):
    """There is no sidecar; the message contains the reason. The request was not sent."""


class UnknownOutcome(Disconnected):
    """The sidecar ended before it answered: whether the request took effect is unknown."""


class LockLost(Exception):
    """The lock was lost before its block ended. Its fence keeps late writes out."""


class Failed(Exception):
    """Raised by the function of Holdfast.work(): the task cannot be done, and is not attempted again."""


def clock() -> float:
    """The clock of leases: unlike time.monotonic(), it advances while the machine is suspended."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Signal(threading.Event):
    """An Event that is set with a `reason`. Threads wait() for it. Coroutines await it, and get the reason."""

    def __init__(self) -> None:
        super().__init__()
        self.reason: Optional[str] = None
        self._future: concurrent.futures.Future[str] = concurrent.futures.Future()
        self._future.set_running_or_notify_cancel()  # now a cancelled coroutine cannot cancel it

    def trigger(self, reason: str) -> None:
        """Called by the thread of the connection only."""
        if self.reason is None:
            self.reason = reason
            self.set()
            self._future.set_result(reason)

    def on_set(self, callback: Callable[[str], object]) -> None:
        """Calls callback(reason) once: in the event loop in which this is called, else on a separate thread."""

        def start(_: object) -> None:
            reason = self._future.result()
            if loop is None:
                threading.Thread(target=callback, args=(reason,), daemon=True).start()
            else:
                with contextlib.suppress(RuntimeError):  # the loop is closed
                    loop.call_soon_threadsafe(callback, reason)

        loop: Optional[asyncio.AbstractEventLoop] = None
        with contextlib.suppress(RuntimeError):
            loop = asyncio.get_running_loop()
        self._future.add_done_callback(start)

    def __await__(self) -> Generator[Any, None, str]:
        return asyncio.wrap_future(self._future).__await__()


class Lease:
    """What this client itself knows about a lock or job that the sidecar renews for it.

    `proven_until`: until then no other client can get the lock. It counts from before a request was *sent*, so a
    sidecar that hangs cannot extend it. `notice` before that, the lease counts as lost. The sidecar usually reports a
    loss first.
    """

    def __init__(self, kind: str, ttl_ms: int, options: dict[str, Any]) -> None:
        self.kind = kind  # lock or job
        self.id = ""
        self._options = options
        self.ttl = self.notice = 0.0
        self.limit(ttl_ms)
        self.proven_until = 0.0
        self.lost = Signal()
        self.at_risk = False
        self.is_ending = False  # its release is on the way
        self.is_asking = False
        self.due = 0.0  # when the connection looks at it again

    def limit(self, ttl_ms: float) -> None:
        """Sets how long it lasts unless it is renewed: an attempt may have a time limit that is shorter than its lease."""
        self.ttl = ttl_ms / 1000
        notice_ms = self._options.get("noticeMs")
        if notice_ms is None:
            notice_ms = min(min(ttl_ms, self._options.get("maxHoldMs") or ttl_ms) / 6, 5000)
        self.notice = max(min(notice_ms, ttl_ms / 3), min(max(ttl_ms / 100, 1), 50)) / 1000

    def is_stale(self) -> bool:
        return clock() > self.proven_until - self.notice - self.ttl / 6


class Request(concurrent.futures.Future[Any]):
    """A request that was sent. Cancel it with Holdfast.cancel() only: Future.cancel() would not reach the sidecar."""

    def __init__(self, method: str, lease: Optional[Lease] = None) -> None:
        super().__init__()
        self.method = method
        self.lease = lease  # that its answer grants
        self.id = 0
        self.sent_at = 0.0
        self.connection: Optional[Connection] = None
        self.abandoned = False
        self.undone = threading.Event()  # what it acquired is released
        self.called_off = False
        self.set_running_or_notify_cancel()

    @property
    def waits(self) -> bool:
        return self.method in WAITING


class Connection:
    """One connection until its end: what it holds is lost then. Holdfast makes a new one.

    One thread reads, writes and watches the leases. Other threads append to queues and wake it; or they write a message
    that the pipe takes as a whole or not at all. So an exception in them (KeyboardInterrupt) cannot cut a message, and a
    full pipe blocks no caller.
    """

    def __init__(self, path: Optional[str], command: Sequence[str], on_loss: Callable[[Loss], None]) -> None:
        self.is_over = False  # the sidecar has gone
        self.gone: Optional[str] = None  # why; set a moment later
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.leases: dict[str, Lease] = {}
        self._path = path
        self._on_loss = on_loss
        self._ids = itertools.count(1)
        self._queue: collections.deque[tuple[Request, bytes]] = collections.deque()  # not sent
        self._cancels: collections.deque[Request] = collections.deque()
        self._undos: collections.deque[Request] = collections.deque()
        self._pending: dict[int, Request] = {}  # sent
        self._running: set[int] = set()  # those of them that do not wait
        self._stopped_early: dict[str, str] = {}  # reasons that came before the answers with these ids
        self._dues: list[tuple[float, int, Lease]] = []  # a heap
        self._error: Optional[Exception] = None  # that ended it, if it was not the sidecar
        # Held for a moment: no write blocks. A callback of a request that is called off may send another one.
        self._writing = threading.RLock()
        self._closing = False
        self._half_closed = False
        self._last_words: collections.deque[str] = collections.deque(maxlen=5)
        self._out = bytearray(notification("lock.subscribe") + notification("job.subscribe"))
        self._socket: Optional[socket.socket] = None
        if path is not None:
            self._connect(path)
        else:
            self._spawn(command)
        os.set_blocking(self._to, False)
        self._wakes, self._waker = socket.socketpair()
        self._wakes.setblocking(False)
        self._waker.setblocking(False)
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _connect(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise Disconnected(
                f"no sidecar on {path}: {error.strerror}. Start one: holdfast rpc --listen {path}"
            ) from error
        self._from = self._to = self._socket.fileno()

    def _spawn(self, command: Sequence[str]) -> None:
        try:
            # In a new session: Ctrl-C must reach only the program, which may have work to finish under its lock.
            self.process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=True,
            )
        except OSError as error:
            raise Disconnected(f"cannot start {command[0]}: {error.strerror}. Install it, or pass `command`") from error
        assert self.process.stdin and self.process.stdout and self.process.stderr
        self._from, self._to = self.process.stdout.fileno(), self.process.stdin.fileno()
        self._listener = threading.Thread(target=self._listen, args=(self.process.stderr,), daemon=True)
        self._listener.start()

    def _listen(self, stderr: IO[bytes]) -> None:
        """Passes the sidecar's diagnostics on, and keeps the last ones for the reason of its end."""
        for line in stderr:
            text = line.decode(errors="replace").rstrip()
            self._last_words.append(text)
            with contextlib.suppress(Exception):
                print(text, file=sys.stderr, flush=True)

    # For any thread.

    def send(self, request: Request, params: dict[str, Any]) -> Request:
        request.id = next(self._ids)
        line = line_of({"jsonrpc": "2.0", "id": request.id, "method": request.method, "params": params})
        request.connection = self
        if not self._write_now(request, line):
            self._queue.append((request, line))
            self._wake()
        if self.gone is not None:  # perhaps its thread has ended without seeing this request
            self._fail_all()
        if request.abandoned:  # meanwhile, by another thread
            abandon(request)
        return request

    def _write_now(self, request: Request, line: bytes) -> bool:
        """Spares a small message the way through the other thread, if no other message is before it."""
        with self._writing:
            is_first = not self._queue and not self._out and not self._closing and self._to >= 0
            if not is_first or len(line) > select.PIPE_BUF or self._is_full(request):
                return False
            self._register(request)
            trace("->", line)
            try:
                os.write(self._to, line)  # the whole, or BlockingIOError
            except BlockingIOError:
                del self._pending[request.id]
                self._running.discard(request.id)
                return False
            except OSError:  # the end of the input reports it
                pass
            return True

    def call(self, method: str, **params: Any) -> Any:
        return wait_for(Request(method), lambda request: self.send(request, params))

    def unwatch(self, lease: Lease, _: object = None) -> None:
        self.leases.pop(lease.id, None)

    def undo(self, request: Request) -> None:
        """Leaves it to the connection's thread, which no exception interrupts."""
        self._undos.append(request)
        self._wake()

    def cancel(self, request: Request) -> None:
        request.called_off = True
        self._cancels.append(request)
        self._wake()

    def close(self) -> None:
        self._closing = True
        self._wake()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():  # the sidecar hangs
            if self.process is not None:
                self.process.kill()
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)
            self._thread.join()
        if self.process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(PATIENCE)
            self.process.kill()
            self.process.wait()
            self._listener.join(1)
            if self.process.stderr is not None and not self._listener.is_alive():
                self.process.stderr.close()
        self._wakes.close()
        self._waker.close()

    def _wake(self) -> None:
        with contextlib.suppress(OSError):  # it is awake, or has ended
            self._waker.send(b".")

    # Of the connection's own thread.

    def _run(self) -> None:
        try:
            self._exchange()
        except Exception as error:  # whatever it is, no caller may wait for an answer forever
            self._error = error
        self._end()

    def _exchange(self) -> None:
        """Reads and writes until the sidecar has gone. An answer that is cut off by its end is none."""
        received = bytearray()
        poll = select.poll()
        poll.register(self._wakes, select.POLLIN)
        poll.register(self._from, select.POLLIN)
        output, is_blocked = self._to, False
        while True:
            while self._undos:
                self._undo(self._undos.popleft())
            if self._cancels or self._queue or self._out or self._closing:
                with self._writing:
                    self._fill()
                    self._write()
            if is_blocked != bool(self._out):
                is_blocked = not is_blocked
                if self._socket is not None:
                    poll.modify(self._from, select.POLLIN | select.POLLOUT if is_blocked else select.POLLIN)
                elif is_blocked:
                    poll.register(output, select.POLLOUT)
                else:
                    poll.unregister(output)
            for fd, _ in poll.poll(self._watch()):
                if fd == self._wakes.fileno():
                    self._wakes.recv(4096)
                elif fd == self._from and not self._receive(received):
                    return

    def _receive(self, received: bytearray) -> bool:
        try:
            chunk = os.read(self._from, 1 << 16)
        except BlockingIOError:  # it can be written, not read
            return True
        looked_at = len(received)
        received += chunk
        while (end := received.find(b"\n", looked_at)) >= 0:
            line = bytes(received[:end])
            del received[: end + 1]
            looked_at = 0
            trace("<-", line)
            self._take(json.loads(line))
        return len(chunk) > 0

    def _fill(self) -> None:
        """Moves to the output what may be sent now."""
        if self._closing and not self._half_closed:
            self._half_closed = True
            self._fail_unsent("the client was closed")
            # Otherwise the sidecar would wait for their ends, and hold all locks meanwhile.
            self._cancels.extend(request for request in self._pending.values() if request.waits)
        while self._cancels:
            request = self._cancels.popleft()
            if request.id in self._pending:
                self._put(notification("$/cancelRequest", {"id": request.id}))
        while self._queue and len(self._out) < 1 << 16:
            if self._is_full(self._queue[0][0]):
                return
            request, line = self._queue.popleft()
            if self._half_closed:
                request.set_exception(Disconnected("the client was closed"))
            elif request.called_off:
                request.set_exception(HoldfastError(CALLED_OFF))
            else:
                self._register(request)
                self._put(line)

    def _undo(self, request: Request) -> None:
        self._running.discard(request.id)  # an interruption may have kept it from being sent
        request.called_off = True
        if request.waits:
            self._cancels.append(request)
        request.add_done_callback(self._release)

    def _release(self, done: concurrent.futures.Future[Any]) -> None:
        """Releases what an abandoned request acquired."""
        request = cast(Request, done)
        releases: list[Request] = []
        if request.exception() is None and not self.is_over:
            for lock_id in acquired_by(request):
                self.leases.pop(lock_id, None)
                releases.append(self.send(Request("lock.release"), {"lockId": lock_id}))
            for job in claimed_by(request):
                self.leases.pop(job["jobId"], None)
                releases.append(self.send(Request("job.giveBack"), {"jobId": job["jobId"]}))
        if releases:
            releases[-1].add_done_callback(lambda _: request.undone.set())
        else:
            request.undone.set()

    def _is_full(self, request: Request) -> bool:
        return len(self._running) >= WINDOW and not request.waits

    def _register(self, request: Request) -> None:
        request.sent_at = clock()
        self._pending[request.id] = request
        if not request.waits:
            self._running.add(request.id)

    def _put(self, line: bytes) -> None:
        trace("->", line)
        self._out += line

    def _write(self) -> None:
        try:
            while self._out:
                del self._out[: os.write(self._to, self._out[: 1 << 16])]
        except BlockingIOError:
            return
        except OSError:  # the end of the input reports it
            self._out.clear()
        if self._half_closed:
            self._shut_output()

    def _shut_output(self) -> None:
        if self._to >= 0:
            self._to = -1
            if self._socket is not None:
                with contextlib.suppress(OSError):
                    self._socket.shutdown(socket.SHUT_WR)
            elif self.process is not None and self.process.stdin is not None:
                self.process.stdin.close()

    def _take(self, message: dict[str, Any]) -> None:
        if "method" in message:
            self._take_notification(message["method"], message.get("params", {}))
            return
        if message["id"] is None:
            # The sidecar could not parse a request, or has too many connections. It is unknown which request this
            # was, and the answers to the others would reach no caller. So close the connection.
            raise HoldfastError(message["error"])
        error = HoldfastError(message["error"]) if "error" in message else None
        result = None if error is not None else message["result"]
        request = self._pending.pop(message["id"], None)
        if request is None:
            return
        self._running.discard(request.id)
        if error is not None:
            is_closed = self._closing and error.code == "Aborted"
            request.set_exception(Disconnected("the client was closed") if is_closed else error)
        elif request.lease is not None:
            try:
                self._take_grant(request, request.lease, cast("dict[str, Any]", result))
            except Exception as malformed:
                request.set_exception(malformed)
                raise
        else:
            request.set_result(result)

    def _take_grant(self, request: Request, lease: Lease, result: dict[str, Any]) -> None:
        if lease.kind == "job" and not result["jobs"]:
            request.set_result(result)
            return
        if lease.kind == "lock":
            lease.id = result["lockId"]
        else:
            job = result["jobs"][0]
            lease.id, limit_ms = job["jobId"], job["task"]["queue"]["attemptLimitMs"]
            if 0 < limit_ms < lease.ttl * 1000:
                lease.limit(limit_ms)
        self.leases[lease.id] = lease
        lease.proven_until = request.sent_at + lease.ttl - lease.ttl / 1000 - 0.001  # an allowance for clock drift
        if lease.id in self._stopped_early:
            lease.lost.trigger(self._stopped_early.pop(lease.id))
        if lease.is_stale():  # the request had to wait: the caller gets the lock when its lease is proven
            self._ask(lease).add_done_callback(functools.partial(pass_on, request, result))
        else:
            request.set_result(result)
            self._schedule(lease)

    def _take_notification(self, method: str, params: dict[str, Any]) -> None:
        if method not in ("lock.lost", "job.stopped", "lock.atRisk", "job.atRisk"):
            return  # of a later version
        held: str = params["lockId"] if "lockId" in params else params["jobId"]
        lease = self.leases.get(held)
        if "atRisk" in params:
            if lease is not None:
                lease.at_risk = params["atRisk"]
            return
        if lease is None:
            self._stopped_early[held] = params["reason"]
        elif lease.lost.is_set():
            return  # this client was faster
        else:
            if "remainingMs" in params:
                lease.proven_until = min(lease.proven_until, clock() + params["remainingMs"] / 1000)
            lease.lost.trigger(params["reason"])
        if method == "lock.lost":
            self._on_loss(params)

    def _schedule(self, lease: Lease) -> None:
        lease.due = min(clock() + lease.ttl / 6, lease.proven_until - lease.notice)
        heapq.heappush(self._dues, (lease.due, next(self._ids), lease))

    def _watch(self) -> int:
        """Asks for the leases that are due. Returns how many milliseconds it may wait."""
        while self._dues and self._dues[0][0] <= clock():
            due, _, lease = heapq.heappop(self._dues)
            if due != lease.due or lease.lost.is_set() or self.leases.get(lease.id) is not lease:
                continue
            if clock() >= lease.proven_until - lease.notice:
                self._lose(lease)
                continue
            if not lease.is_asking:
                self._ask(lease)
            self._schedule(lease)
        # At most a second: this timer does not advance while the machine is suspended.
        return min(1000, max(0, int((self._dues[0][0] - clock()) * 1000) + 1)) if self._dues else 600_000

    def _ask(self, lease: Lease) -> Request:
        lease.is_asking = True
        request = Request(f"{lease.kind}.remaining")
        request.id = next(self._ids)
        request.add_done_callback(functools.partial(self._prove, lease))
        params = {f"{lease.kind}Id": lease.id}
        line = line_of({"jsonrpc": "2.0", "id": request.id, "method": request.method, "params": params})
        with self._writing:
            self._register(request)
            self._put(line)
            self._write()
        return request

    def _prove(self, lease: Lease, answer: concurrent.futures.Future[Any]) -> None:
        lease.is_asking = False
        if lease.is_ending or lease.lost.is_set() or isinstance(answer.exception(), Disconnected):
            return
        if answer.exception() is None:
            if not answer.result()["ok"]:
                self._lose(lease, "gone")
                return
            lease.proven_until = cast(Request, answer).sent_at + answer.result()["remainingMs"] / 1000
        self._schedule(lease)

    def _lose(self, lease: Lease, reason: str = "unproven") -> None:
        lease.lost.trigger(reason)
        if lease.kind == "lock":
            self._on_loss({"lockId": lease.id, "reason": reason})

    def _end(self) -> None:
        is_closed = self._closing
        self.is_over = True
        for lease in list(self.leases.values()):
            lease.lost.trigger("disconnected")
        if not is_closed:
            self._on_loss({"reason": "disconnected"})
        # Then the sidecar ends too.
        with self._writing:
            self._out.clear()
            self._shut_output()
        if self._socket is not None:
            self._socket.close()
        elif self.process is not None and self.process.stdout is not None:
            self.process.stdout.close()
        self.gone = self._reason()
        self._fail_all()

    def _reason(self) -> str:
        if isinstance(self._error, HoldfastError):
            return f"the sidecar has gone: {self._error}"
        if self.process is None:
            return f"the sidecar on {self._path} has gone"
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(2)
            self._listener.join(1)
            if code != 0:
                ending = f"exit code {code}" if code > 0 else f"signal {-code}"
                return f"the sidecar has gone ({ending}): " + " ".join(self._last_words)
        return "the sidecar has gone"

    def _fail_all(self) -> None:
        self._fail_unsent(str(self.gone))
        while self._undos:
            with contextlib.suppress(IndexError):
                self._undos.popleft().undone.set()
        while self._pending:
            with contextlib.suppress(KeyError):
                _, request = self._pending.popitem()
                unknown = UnknownOutcome(f"{self.gone}; whether {request.method} took effect is unknown")
                unknown.__cause__ = self._error
                request.set_exception(unknown)

    def _fail_unsent(self, why: str) -> None:
        while self._queue:
            with contextlib.suppress(IndexError):
                request, _ = self._queue.popleft()
                request.set_exception(Disconnected(why))


class Lock:
    """A held lock. Send its `fence` with every write. `lock["expiresAtMs"]` is that member of the answer to lock.lock.

    `lost` is set before the lease can expire, with a `reason`. Look at it (`lock.lost.is_set()`), wait for it
    (`lock.lost.wait()`, with asyncio `await lock.lost`), or register a callback by on_lost().
    """

    def __init__(self, key: str, answer: dict[str, Any], lease: Lease) -> None:
        self.key = key
        self.id: str = answer["lockId"]
        self.fence: str = answer["fence"]
        self._answer = answer
        self._lease = lease

    def __getitem__(self, name: str) -> Any:
        return self._answer[name]

    @property
    def lost(self) -> Signal:
        return self._lease.lost

    @property
    def at_risk(self) -> bool:
        """Whether the last renewal failed or was not answered. The lock is not lost yet."""
        return self._lease.at_risk

    def remaining(self) -> float:
        """For how many seconds no other client can get the lock, as far as this client can prove."""
        return max(0.0, self._lease.proven_until - clock())

    def on_lost(self, callback: Callable[[str], object]) -> None:
        """Calls callback(reason) when the lock is lost: in the event loop in which on_lost() is called, else on a
        separate thread."""
        self.lost.on_set(callback)


class Job:
    """One attempt at a task of a queue; Holdfast.claim() returns one. Its lease is renewed until it ends.

    `stopped` is a Signal that is set when the work should stop: the task was cancelled, the lease is lost, or the
    connection has ended; `reason` says which. Pass `fence` along with what the work writes elsewhere.

    End it by one of complete(), fail(), retry() and give_back(). They raise HoldfastError with the code
    InvalidTransition (the task was cancelled, for example), StaleFence (another worker has it) or NotFound (it was
    removed). In a `with` block, an exception ends the job by retry(), and a block that ends without an outcome by
    give_back().
    """

    def __init__(self, connection: Connection, claimed: dict[str, Any], lease: Lease) -> None:
        self._connection = connection
        self._id: str = claimed["jobId"]
        self._lease = lease
        self._ended = False
        self.id: str = claimed["taskId"]
        self.queue: str = claimed["queue"]
        self.attempt: int = claimed["attempt"]
        self.fence: str = claimed["fence"]
        self.task: Record = claimed["task"]

    @property
    def variables(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.task["variables"])

    @property
    def stopped(self) -> Signal:
        return self._lease.lost

    @property
    def reason(self) -> Optional[str]:
        return self.stopped.reason

    @property
    def at_risk(self) -> bool:
        """Whether the last renewal of the lease failed or was not answered. It is not lost yet."""
        return self._lease.at_risk

    def set_variables(self, **variables: Any) -> None:
        """Merges them into the task's variables, for progress; None deletes one."""
        self.task = self._connection.call("job.setVariables", jobId=self._id, variables=variables)

    def complete(self, result: Any = None, message: Optional[str] = None) -> Record:
        return self._end("job.complete", result=result, statusMessage=message)

    def fail(self, message: Optional[str] = None, result: Any = None) -> Record:
        return self._end("job.fail", result=result, statusMessage=message)

    def retry(self, message: Optional[str] = None, delay_ms: Optional[int] = None) -> Record:
        return self._end("job.retry", statusMessage=message, delayMs=delay_ms)

    def give_back(self) -> Record:
        return self._end("job.giveBack")

    def _end(self, method: str, **params: Any) -> Record:
        if params.get("statusMessage") is not None:  # half of a surrogate pair, as in the name of a file
            params["statusMessage"] = params["statusMessage"].encode(errors="replace").decode()
        try:
            self._lease.is_ending = True
            task = cast(Record, self._connection.call(method, jobId=self._id, **params))
        except HoldfastError as error:
            self._lease.is_ending = False
            # After these the store has decided; after others the same call can be repeated.
            if method == "job.giveBack" or error.code in ("NotFound", "InvalidTransition", "StaleFence", "WrongLock"):
                self._forget()
            raise
        self._forget()
        return task

    def end_patiently(self, end: Callable[..., Record], *arguments: Any) -> Record:
        """Repeats an outcome while the store cannot be reached: one that was accepted is accepted again."""
        give_up = time.monotonic() + 60
        while True:
            try:
                return end(*arguments)
            except HoldfastError as error:
                if error.code not in TRANSIENT:
                    raise
                if time.monotonic() > give_up:
                    with contextlib.suppress(HoldfastError):
                        self.give_back()  # otherwise its lease would be renewed as long as this connection lasts
                    raise
            time.sleep(1)

    def end_by(self, work: Callable[[], Any]) -> None:
        """Ends the job as the work ends: its result, Failed, or another exception. Logs an outcome that is refused."""
        log = logging.getLogger("holdfast")
        outcome: tuple[Callable[..., Record], Any]
        try:
            outcome = (self.complete, work())
        except Failed as error:
            outcome = (self.fail, str(error))
        except Exception as error:
            log.warning("attempt %d of %s failed", self.attempt, self.id, exc_info=True)
            outcome = (self.retry, f"{type(error).__name__}: {error}")
        try:
            try:
                self.end_patiently(outcome[0], outcome[1])
            except (TypeError, ValueError, RecursionError) as error:  # it is not JSON, not UTF-8 or too long
                self._end_unsent(f"the outcome cannot be sent: {error}")
            except HoldfastError as error:
                if error.code not in UNSTORABLE:
                    raise
                self._end_unsent(f"the outcome cannot be stored: {error}")
        except HoldfastError as error:  # the task was cancelled or removed, or another worker has it: go on
            log.warning("the outcome of %s was refused: %s", self.id, error)
            if not self._ended:  # otherwise its lease would be renewed as long as this connection lasts
                with contextlib.suppress(ConnectionError, HoldfastError):
                    self.give_back()
        except Disconnected as error:
            log.warning("the outcome of %s was not sent, so it is attempted again: %s", self.id, error)

    def _end_unsent(self, why: str) -> None:
        """The attempt counts as failed: or the task would be worked on forever."""
        logging.getLogger("holdfast").warning("%s: %s", self.id, why)
        self.end_patiently(self.retry, why[:1000])

    def _forget(self) -> None:
        self._ended = True
        self._connection.leases.pop(self._id, None)

    def __enter__(self) -> Job:
        return self

    def __exit__(self, _: object, error: Optional[BaseException], __: object) -> None:
        if self._ended:
            return
        if error is None:
            self.give_back()
            return
        with contextlib.suppress(ConnectionError, HoldfastError):  # the error of the block matters more
            if isinstance(error, asyncio.CancelledError):
                self.give_back()
            else:
                self.end_patiently(self.retry, f"{type(error).__name__}: {error}")


class Outage:
    """A pool of workers outlives a store that cannot be reached, and logs it once."""

    def __init__(self, until_empty: bool) -> None:
        self._until_empty = until_empty
        self._is_logged = False

    def outlive(self, error: HoldfastError) -> None:
        """Raises the error unless it is transient."""
        if self._until_empty or error.code not in TRANSIENT:
            raise error
        if not self._is_logged:
            logging.getLogger("holdfast").warning("the store does not answer; trying again: %s", error)
        self._is_logged = True

    def end(self) -> None:
        self._is_logged = False


class Holdfast:
    """Locks, tasks and queues through one connection at a time. Threads may share it. Its locks are released when the
    connection ends, however it ends; so are its jobs.

    `path`: the socket of a sidecar. Without it, `command` is started: name the store there or in $HOLDFAST_URL.
    `on_lost` is called with {"lockId", "reason"} when a renewed lock is lost, and with {"reason": "disconnected"} when
    the sidecar is gone: then all of them are lost. It runs on a separate thread. See also Lock.lost.

    After the connection has ended, the next request makes a new one; for a socket it tries for `reconnect` seconds.
    Requests in progress fail with UnknownOutcome. If `reconnect` is 0, all others fail with Disconnected. lock() alone
    continues to wait.

    A forked child (multiprocessing's default on Linux) inherits the connection, and keeps the locks of a parent
    that dies. Use "spawn", or open the connection after the fork.
    """

    def __init__(
        self,
        path: Optional[str] = None,
        command: Sequence[str] = ("holdfast", "rpc"),
        on_lost: Optional[Callable[[Loss], object]] = None,
        reconnect: float = 10,
    ) -> None:
        self._path = path
        self._command = command
        self._on_lost = on_lost
        self._losses: queue.SimpleQueue[Optional[Loss]] = queue.SimpleQueue()
        self._reconnect = reconnect
        self._connecting = threading.Lock()
        self._closed = False
        self._connection: Connection
        self._open()
        if on_lost is not None:
            threading.Thread(target=self._report_losses, daemon=True).start()

    def start(self, method: str, **params: Any) -> Request:
        """Sends a request and returns a future for its result. Cancel it with cancel() only."""
        return self._begin(Request(method), params)

    def call(self, method: str, **params: Any) -> Any:
        """Sends a request and waits for its result. Raises HoldfastError, Disconnected, or ValueError for an invalid
        request. If an exception (KeyboardInterrupt) ends the wait, what the request acquires is released."""
        return wait_for(Request(method), lambda request: self._begin(request, params))

    def cancel(self, request: Request) -> None:
        """Cancels a waiting request: it fails with Aborted, unless it has just succeeded."""
        if request.connection is not None:
            request.connection.cancel(request)

    @contextlib.contextmanager
    def lock(self, key: str, **options: Any) -> Iterator[Lock]:
        """Waits for the lock and renews it until the block ends. Options: ttlMs (30 000), waitMs (5000), retries,
        maxHoldMs, noticeMs, holder.

        Raises LockLost at the end of the block if the lock was lost meanwhile.
        """
        requests = [lock_request(options)]
        try:
            lock = self._wait_for_lock(requests, {"key": key, **options})
            yield lock
            releasing = begin_release(requests[-1])
            with contextlib.suppress(concurrent.futures.TimeoutError, Disconnected):
                releasing.result(release_timeout(requests[-1]))
            check_release(key, releasing)
        except BaseException:  # of the block, or an interruption of the release: a second one does no harm
            abandon(requests[-1], wait=True)  # the error of the block matters more
            raise

    def _wait_for_lock(self, requests: list[Request], params: dict[str, Any]) -> Lock:
        """A lock that a broken connection acquired is released with it, so the request can be repeated."""
        give_up = time.monotonic() + params.get("waitMs", 5000) / 1000
        while True:
            try:
                wait_for(requests[-1], lambda request: self._begin(request, params))
                return granted(params["key"], requests[-1])
            except Disconnected:
                if not self._may_repeat(requests[-1], give_up):
                    raise
            params = {**params, "waitMs": int(1000 * max(0, give_up - time.monotonic()))}
            requests.append(lock_request(params))

    def _may_repeat(self, request: Request, give_up: float) -> bool:
        return request.connection is not None and self._reconnects() and time.monotonic() < give_up

    def _reconnects(self) -> bool:
        return not self._closed and self._reconnect > 0

    def claim(self, *queues: str, **options: Any) -> Optional[Job]:
        """Claims the next task of the first of these queues that has any, and returns a Job, or None.

        Options: waitMs (0), leaseMs (30 000), noticeMs, worker.
        """
        request = job_request(options)
        wait_for(request, lambda request: self._begin(request, {"queues": queues, **options}))
        return claimed(request)

    def work(
        self,
        queues: Union[str, Sequence[str]],
        function: Callable[[Job], Any],
        threads: int = 1,
        stop: Optional[threading.Event] = None,
        until_empty: bool = False,
        **options: Any,
    ) -> None:
        """Works on the tasks of a queue, or of several in this order, until the Event `stop` is set.

        Calls function(job) for each, on as many threads. What it returns is the result. If it raises Failed, the task
        is failed for good; after another exception it is attempted again. With `until_empty`, returns when there is
        no task to claim.
        """
        queues = (queues,) if isinstance(queues, str) else queues
        failed = threading.Event()
        options["waitMs"] = 0 if until_empty else 1000

        def worker() -> None:
            outage = Outage(until_empty)
            while not failed.is_set() and not (stop is not None and stop.is_set()):
                try:
                    job = self.claim(*queues, **options)
                except Disconnected:
                    if not self._reconnects():
                        raise
                    (stop or failed).wait(1)
                    self._connected()  # raises if there is no sidecar again
                    continue
                except HoldfastError as error:
                    outage.outlive(error)
                    (stop or failed).wait(1)
                    continue
                outage.end()
                if job is not None:
                    job.end_by(functools.partial(function, job))
                elif until_empty:
                    return

        with concurrent.futures.ThreadPoolExecutor(threads) as pool:
            workers = [pool.submit(worker) for _ in range(threads)]
            try:
                concurrent.futures.wait(workers, return_when=concurrent.futures.FIRST_EXCEPTION)
            finally:
                failed.set()
            for each in workers:
                each.result()

    def close(self) -> None:
        self._closed = True
        self._connection.close()
        with self._connecting:  # a connection that another thread was making: it closes it, or has stored it
            self._connection.close()
        self._losses.put(None)

    def __enter__(self) -> Holdfast:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, request: Request, params: dict[str, Any]) -> Request:
        return self._connected().send(request, params)

    def _open(self) -> Connection:
        """Opens a connection and stores it at once, so that close() ends what waits for it."""
        self._connection = Connection(self._path, self._command, self._report)
        if self._closed:
            self._connection.close()
            raise Disconnected("the client was closed")
        return self._connection

    def _connected(self) -> Connection:
        """The connection, or a new one if it has ended."""
        with self._connecting:
            give_up = time.monotonic() + self._reconnect
            if not self._connection.is_over or not self._reconnects():
                return self._connection
            while True:
                self._connection.close()
                try:
                    connection = self._open()
                    connection.call("holdfast.version")  # a sidecar that cannot start is reported here, once
                    return connection
                except Disconnected:
                    if self._path is None or self._closed or time.monotonic() > give_up:
                        raise
                time.sleep(0.1)

    def _report(self, loss: Loss) -> None:
        if self._on_lost is not None:
            self._losses.put(loss)

    def _report_losses(self) -> None:
        while (loss := self._losses.get()) is not None:
            try:
                if self._on_lost is not None:
                    self._on_lost(loss)
            except Exception:  # the next loss must still be reported
                traceback.print_exc()


class AsyncJob:
    """A Job for asyncio, with the same members. `await job.wait_stopped()` returns when the work should stop."""

    def __init__(self, job: Job) -> None:
        self._job = job

    def __getattr__(self, name: str) -> Any:  # id, queue, attempt, fence, task, variables, stopped, reason, at_risk
        return getattr(self._job, name)

    async def wait_stopped(self) -> str:
        return await self._job.stopped

    async def set_variables(self, **variables: Any) -> None:
        await asyncio.to_thread(self._job.set_variables, **variables)

    async def complete(self, result: Any = None, message: Optional[str] = None) -> Record:
        return await asyncio.to_thread(self._job.complete, result, message)

    async def fail(self, message: Optional[str] = None, result: Any = None) -> Record:
        return await asyncio.to_thread(self._job.fail, message, result)

    async def retry(self, message: Optional[str] = None, delay_ms: Optional[int] = None) -> Record:
        return await asyncio.to_thread(self._job.retry, message, delay_ms)

    async def give_back(self) -> Record:
        return await asyncio.to_thread(self._job.give_back)

    async def __aenter__(self) -> AsyncJob:
        return self

    async def __aexit__(self, kind: object, error: Optional[BaseException], trace: object) -> None:
        await in_thread(self._job.__exit__, kind, error, trace)


class AsyncHoldfast:
    """The same for asyncio: use it by `async with`. Arguments as those of Holdfast; `on_lost` runs in the event loop.

    If a task is cancelled while it waits, the sidecar cancels its request, and what the request has just acquired is
    released: no lock stays held that no task knows of.
    """

    def __init__(
        self,
        path: Optional[str] = None,
        command: Sequence[str] = ("holdfast", "rpc"),
        on_lost: Optional[Callable[[Loss], object]] = None,
        reconnect: float = 10,
    ) -> None:
        self._on_lost = on_lost
        self._open = lambda loss: Holdfast(path, command, loss, reconnect)
        self._holdfast: Optional[Holdfast] = None

    async def __aenter__(self) -> AsyncHoldfast:
        loop, on_lost = asyncio.get_running_loop(), self._on_lost

        def pass_on(loss: Loss) -> None:
            if on_lost is not None:
                loop.call_soon_threadsafe(on_lost, loss)

        opening = loop.run_in_executor(None, self._open, pass_on if on_lost is not None else None)
        try:
            self._holdfast = await asyncio.shield(opening)
        except BaseException:
            opening.add_done_callback(close_opened)  # the thread that starts the sidecar cannot be cancelled
            raise
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        if self._holdfast is not None:
            await in_thread(self._holdfast.close)

    async def call(self, method: str, **params: Any) -> Any:
        """Sends a request and waits for its result. Raises as Holdfast.call()."""
        return await self._wait_for(Request(method), params)

    async def _wait_for(self, request: Request, params: dict[str, Any]) -> Any:
        try:
            client = self._client()
            if client._connection.is_over:  # a new connection is made, which blocks
                await asyncio.to_thread(client._begin, request, params)
            else:
                client._connection.send(request, params)
            return await asyncio.wrap_future(request)
        except BaseException:
            abandon(request)
            raise

    @contextlib.asynccontextmanager
    async def lock(self, key: str, **options: Any) -> AsyncIterator[Lock]:
        """As Holdfast.lock(): raises LockLost at the end of the block if the lock was lost meanwhile."""
        requests = [lock_request(options)]
        try:
            lock = await self._wait_for_lock(requests, {"key": key, **options})
            yield lock
            releasing = begin_release(requests[-1])
            with contextlib.suppress(asyncio.TimeoutError, Disconnected):
                await asyncio.wait_for(asyncio.wrap_future(releasing), release_timeout(requests[-1]))
            check_release(key, releasing)
        except BaseException:  # of the block, or a cancellation of the release
            abandon(requests[-1])
            raise

    async def _wait_for_lock(self, requests: list[Request], params: dict[str, Any]) -> Lock:
        give_up = time.monotonic() + params.get("waitMs", 5000) / 1000
        while True:
            try:
                await self._wait_for(requests[-1], params)
                return granted(params["key"], requests[-1])
            except Disconnected:
                if not self._client()._may_repeat(requests[-1], give_up):
                    raise
            params = {**params, "waitMs": int(1000 * max(0, give_up - time.monotonic()))}
            requests.append(lock_request(params))

    async def claim(self, *queues: str, **options: Any) -> Optional[AsyncJob]:
        """As Holdfast.claim()."""
        request = job_request(options)
        await self._wait_for(request, {"queues": queues, **options})
        job = claimed(request)
        return AsyncJob(job) if job is not None else None

    async def work(
        self,
        queues: Union[str, Sequence[str]],
        function: Callable[[AsyncJob], Awaitable[Any]],
        concurrency: int = 1,
        until_empty: bool = False,
        **options: Any,
    ) -> None:
        """As Holdfast.work(), until the task that runs it is cancelled. Jobs in progress are then attempted again."""
        queues = (queues,) if isinstance(queues, str) else queues
        options["waitMs"] = 0 if until_empty else 10_000

        async def attempt(job: AsyncJob) -> None:
            async with job:
                try:
                    result = await function(job)
                    outcome: Callable[[], Any] = lambda: result
                except Exception as error:
                    outcome = raiser(error)
                await asyncio.to_thread(job.end_by, outcome)

        async def worker() -> None:
            outage = Outage(until_empty)
            while True:
                try:
                    job = await self.claim(*queues, **options)
                except Disconnected:
                    if not self._client()._reconnects():
                        raise
                    await asyncio.sleep(1)
                    await asyncio.to_thread(self._client()._connected)  # raises if there is no sidecar again
                    continue
                except HoldfastError as error:
                    outage.outlive(error)
                    await asyncio.sleep(1)
                    continue
                outage.end()
                if job is not None:
                    await attempt(job)
                elif until_empty:
                    return

        workers = [asyncio.create_task(worker()) for _ in range(concurrency)]
        try:
            await asyncio.gather(*workers)
        finally:  # if one fails, gather() leaves the others running
            for each in workers:
                each.cancel()
            await asyncio.gather(*workers, return_exceptions=True)

    def _client(self) -> Holdfast:
        if self._holdfast is None:
            raise RuntimeError("use AsyncHoldfast by `async with`")
        return self._holdfast


def wait_for(request: Request, begin: Callable[[Request], object]) -> Any:
    """Waits for the result. An exception meanwhile (KeyboardInterrupt) leaves nothing held."""
    try:
        begin(request)
        return request.result()
    except BaseException:
        abandon(request)
        raise


def abandon(request: Request, wait: bool = False) -> None:
    """Gives up a request whose answer reaches no caller: cancels it, and releases what it acquired nevertheless."""
    request.abandoned = True  # before the look at its connection: send() does both in the other order
    connection = request.connection
    if connection is None:
        return
    connection.undo(request)
    if wait and request.done() and not connection.is_over and not (request.lease and request.lease.is_ending):
        request.undone.wait(release_timeout(request))


def acquired_by(request: Request) -> list[str]:
    """The id of the lock that a request has acquired. Raises as the request did."""
    acquires = request.method in ("lock.lock", "lock.acquire", "task.claim", "task.tryClaim")
    return [request.result()["lockId"]] if acquires and "lockId" in request.result() else []


def claimed_by(request: Request) -> list[dict[str, Any]]:
    """The jobs that a request has claimed. Raises as the request did."""
    if request.method == "queue.claimNext":
        return cast("list[dict[str, Any]]", request.result()["jobs"])
    if request.method not in ("queue.claim", "job.completeAndClaim"):
        return []
    job = request.result() if request.method == "queue.claim" else request.result()["job"]
    return [] if job is None else [job]


def lock_request(options: dict[str, Any]) -> Request:
    return Request("lock.lock", Lease("lock", options.get("ttlMs") or 30_000, options))


def granted(key: str, request: Request) -> Lock:
    assert request.lease is not None
    if request.lease.lost.is_set():
        raise LockLost(f"the lock {key!r} was lost before its block began: {request.lease.lost.reason}")
    return Lock(key, request.result(), request.lease)


def job_request(options: dict[str, Any]) -> Request:
    return Request("queue.claimNext", Lease("job", options.get("leaseMs") or 30_000, options))


def claimed(request: Request) -> Optional[Job]:
    assert request.lease is not None and request.connection is not None
    jobs = request.result()["jobs"]
    return Job(request.connection, jobs[0], request.lease) if jobs else None


def begin_release(request: Request) -> Request:
    """Sends the release of the lock of a request."""
    assert request.connection is not None and request.lease is not None
    releasing = request.connection.send(Request("lock.release"), {"lockId": request.lease.id})
    request.lease.is_ending = True
    releasing.add_done_callback(functools.partial(request.connection.unwatch, request.lease))
    return releasing


def release_timeout(request: Request) -> float:
    """When the lease has expired, nothing is left to be released."""
    return min(PATIENCE, max(1.0, request.lease.proven_until - clock())) if request.lease is not None else PATIENCE


def check_release(key: str, releasing: Request) -> None:
    """Raises LockLost unless the lock was released."""
    why = ""
    if not releasing.done():
        why = ": the sidecar does not answer"
    elif isinstance(releasing.exception(), Disconnected):
        why = f": {releasing.exception()}"
    elif releasing.result()["ok"]:
        return
    raise LockLost(f"the lock {key!r} was lost before its block ended{why}") from (
        releasing.exception() if releasing.done() else None
    )


def pass_on(request: Request, result: Any, answer: concurrent.futures.Future[Any]) -> None:
    """Completes a request whose lease had to be proven first."""
    if isinstance(answer.exception(), Disconnected):
        request.set_exception(answer.exception())
    else:
        request.set_result(result)


async def in_thread(function: Callable[..., Any], *arguments: Any) -> None:
    """As asyncio.to_thread(), but the function is called even if the task is cancelled before a thread is free."""
    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, function, *arguments))


def close_opened(opening: asyncio.Future[Holdfast]) -> None:
    if opening.exception() is None:
        threading.Thread(target=opening.result().close, daemon=True).start()


def raiser(error: Exception) -> Callable[[], Any]:
    def throw() -> Any:
        raise error

    return throw


def line_of(message: dict[str, Any]) -> bytes:
    """Raises ValueError if it is not valid JSON (NaN), not UTF-8 (half of a surrogate pair) or too long."""
    line = json.dumps(message, ensure_ascii=False, allow_nan=False).encode()
    if len(line) > LONGEST_LINE:
        raise ValueError(f"the request is longer than {LONGEST_LINE} bytes")
    return line + b"\n"


def notification(method: str, params: Optional[dict[str, Any]] = None) -> bytes:
    return line_of({"jsonrpc": "2.0", "method": method, "params": params or {}})


def trace(direction: str, line: bytes) -> None:
    if os.environ.get("HOLDFAST_TRACE"):
        print(f"python {direction} {line.decode().rstrip()}", file=sys.stderr, flush=True)


def show(holdfast: Holdfast) -> None:
    print("version:", holdfast.call("holdfast.version")["version"])

    with holdfast.lock("example", ttlMs=10_000) as lock:
        print("locked, with the fence", lock.fence)
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

    holdfast.call("queue.add", queue="python", variables={"n": 21})
    holdfast.work("python", lambda job: {"twice": 2 * job.variables["n"]}, until_empty=True)
    for done in holdfast.call("queue.listTasks", queue="python", status="completed")["tasks"]:
        print("a worker's result:", done["result"])
        holdfast.call("queue.remove", queue="python", taskId=done["task"]["taskId"])


if __name__ == "__main__":
    with Holdfast(sys.argv[1] if len(sys.argv) > 1 else None) as connected:
        show(connected)
