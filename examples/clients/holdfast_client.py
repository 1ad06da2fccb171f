#!/usr/bin/env python3
"""Locks, tasks and queues for Python, through `holdfast rpc`. Standard library only: copy this file and use it.

    from holdfast_client import Holdfast

    with Holdfast("/run/user/1000/holdfast.sock") as holdfast:     # or Holdfast() for a private sidecar
        with holdfast.lock("nightly-backup", waitMs=60_000) as lock:
            backup(fence=lock["fence"])
        holdfast.work("render", lambda job: render(job.variables), threads=4)     # a pool of workers

With asyncio:

    async with AsyncHoldfast() as holdfast:
        async with holdfast.lock("nightly-backup", waitMs=60_000) as lock:
            await backup(fence=lock["fence"])

Run it as a program for a demonstration:  holdfast_client.py [SOCKET]
"""

from __future__ import annotations

import asyncio
import collections
import concurrent.futures
import contextlib
import functools
import itertools
import json
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from typing import IO, Any, Optional, TypedDict, Union, cast


LONGEST_LINE = 16 * 1024 * 1024  # the sidecar's limit for one request

# These wait for other clients, so that a cancellation matters; the others end soon.
WAITING = ("lock.lock", "task.claim", "task.wait", "queue.claimNext", "queue.wait")
# The outcome of a job cannot be stored because of what it contains.
UNSTORABLE = ("TooLarge", "TooDeep")
# The store cannot be reached for now, and whether a change took effect is unknown.
TRANSIENT = ("ServiceUnavailable", "NetworkTimeout", "RateLimited")


class Lock(TypedDict):
    """A held lock. Send its `fence` with every write."""

    ok: bool
    lockId: str
    fence: str
    expiresAtMs: int


Loss = dict[str, str]  # {"lockId", "keyHash", "reason"}, or {"reason": "disconnected"}
Record = dict[str, Any]  # of a task, as docs/reference/rpc.md describes it


class HoldfastError(Exception):
    """The error of a request: `code` is its name (NotFound), `number` the JSON-RPC error code."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(error["message"])
        self.number: int = error["code"]
        self.code: Optional[str] = error.get("data", {}).get("code")


class Disconnected(ConnectionError):
    """There is no sidecar; the message contains the reason. A change that was in progress may have taken effect."""


class LockLost(Exception):
    """The lock was lost before its block ended. Its fence keeps late writes out."""


class Failed(Exception):
    """Raised by the function of Holdfast.work(): the task cannot be done, and is not attempted again."""


class Request(concurrent.futures.Future[Any]):
    """A request that was sent. Cancel it with Holdfast.cancel() only: Future.cancel() would not reach the sidecar."""

    def __init__(self, method: str) -> None:
        super().__init__()
        self.method = method
        self.id = 0
        self.connection: Optional[Connection] = None
        self.abandoned = False
        self.set_running_or_notify_cancel()


class Stop:
    """When and why a job should stop."""

    def __init__(self) -> None:
        self.event = threading.Event()
        self.reason: Optional[str] = None

    def set(self, reason: str) -> None:
        self.reason = self.reason or reason
        self.event.set()


class Connection:
    """One connection until its end: what it holds is lost then. Holdfast makes a new one."""

    def __init__(self, path: Optional[str], command: Sequence[str], on_loss: Optional[Callable[[Loss], None]]) -> None:
        self.gone: Optional[Disconnected] = None
        self.stops: dict[str, Stop] = {}  # of jobs, by job id
        self.watches_jobs = False
        self.process: Optional[subprocess.Popen[bytes]] = None
        self._path = path
        self._on_loss = on_loss
        self._ids = itertools.count(1)
        self._pending: dict[int, Request] = {}
        self._closing = False
        self._sending = threading.Lock()
        self._last_words: collections.deque[str] = collections.deque(maxlen=5)
        self._in: IO[bytes]
        self.out: IO[bytes]
        if path is not None:
            self._connect(path)
        else:
            self._spawn(command)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _connect(self, path: str) -> None:
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise Disconnected(
                f"no sidecar on {path}: {error.strerror}. Start one: holdfast rpc --listen {path}"
            ) from error
        self._in = self._socket.makefile("rb")
        self.out = self._socket.makefile("wb")

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
        assert self.process.stdin and self.process.stdout
        self._in, self.out = self.process.stdout, self.process.stdin
        self._listener = threading.Thread(target=self._listen, daemon=True)
        self._listener.start()

    def _listen(self) -> None:
        """Passes the sidecar's diagnostics on, and keeps the last ones for the reason of its end."""
        assert self.process and self.process.stderr
        for line in self.process.stderr:
            text = line.decode(errors="replace").rstrip()
            self._last_words.append(text)
            with contextlib.suppress(Exception):
                print(text, file=sys.stderr, flush=True)

    def send(self, request: Request, params: dict[str, Any]) -> Request:
        request.id = next(self._ids)
        line = line_of({"jsonrpc": "2.0", "id": request.id, "method": request.method, "params": params})
        request.connection = self
        self._pending[request.id] = request
        if self.gone is None:
            with contextlib.suppress(OSError, ValueError):  # the end of the input reports it
                self._write(line)
        else:
            self._fail_all(self.gone)
        if request.abandoned:  # meanwhile, by another thread
            abandon(request)
        return request

    def call(self, method: str, **params: Any) -> Any:
        return wait_for(Request(method), lambda request: self.send(request, params))

    def cancel(self, request: Request) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._write(cancellation(request.id))

    def stop_of(self, job_id: str) -> Stop:
        # The notification may come before the answer that names the job.
        stop = self.stops.setdefault(job_id, Stop())
        if self.gone is not None:
            stop.set("disconnected")
        return stop

    def close(self) -> None:
        with self._sending:
            # Otherwise the sidecar would wait for their ends, and hold all locks meanwhile.
            waiting = [] if self._closing else [one.id for one in list(self._pending.values()) if one.method in WAITING]
            self._closing = True  # and nothing more is sent
            with contextlib.suppress(OSError, ValueError):
                self.out.write(b"".join(cancellation(request_id) for request_id in waiting))
                self.out.flush()
        with contextlib.suppress(OSError):  # the sidecar may be gone already
            if self.process is None:
                self._socket.shutdown(socket.SHUT_WR)
            else:
                self.out.close()
        self._reader.join()
        if self.process is not None:
            self.process.wait()
            self._listener.join()
        streams = [self._in, self.out, self.process.stderr if self.process is not None else self._socket]
        for stream in streams:
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()

    def _write(self, line: bytes) -> None:
        with self._sending:
            if self._closing:
                return
            trace("->", line)
            self.out.write(line)
            self.out.flush()

    def _read(self) -> None:
        unreadable: Optional[Exception] = None
        with contextlib.suppress(OSError):
            for line in self._in:
                trace("<-", line)
                message = json.loads(line)
                if message.get("id", 0) is None:
                    # The sidecar could not parse a request, or has too many connections. It is unknown which request
                    # this was, and the answers to the others would reach no caller. So close the connection.
                    unreadable = HoldfastError(message["error"])
                    break
                self._take(message)
        gone = Disconnected(self._reason() if unreadable is None else f"the sidecar has gone: {unreadable}")
        # Before any other thread knows: one that reconnects closes this connection.
        is_lost = not self._closing
        self.gone = gone
        if self._on_loss is not None and is_lost:
            self._on_loss({"reason": "disconnected"})
        self._fail_all(unreadable or gone)
        self._hang_up()
        for stop in list(self.stops.values()):
            stop.set("disconnected")

    def _take(self, message: dict[str, Any]) -> None:
        if message.get("method") == "lock.lost":
            if self._on_loss is not None:
                self._on_loss(message["params"])
            return
        if message.get("method") == "job.stopped":
            self.stop_of(message["params"]["jobId"]).set(message["params"]["reason"])
            return
        request = self._pending.pop(message["id"], None)
        if request is None:
            return
        if "error" in message:
            error = HoldfastError(message["error"])
            is_closed = self._closing and error.code == "Aborted"
            request.set_exception(Disconnected("the client was closed") if is_closed else error)
        else:
            request.set_result(message["result"])

    def _reason(self) -> str:
        if self.process is None:
            return f"the sidecar on {self._path} has gone"
        with contextlib.suppress(subprocess.TimeoutExpired):
            code = self.process.wait(10)
            self._listener.join(1)
            if code != 0:
                ending = f"exit code {code}" if code > 0 else f"signal {-code}"
                return f"the sidecar has gone ({ending}): " + " ".join(self._last_words)
        return "the sidecar has gone"

    def _hang_up(self) -> None:
        if self.process is None:
            with contextlib.suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)
        else:
            self._in.close()

    def _fail_all(self, error: Exception) -> None:
        while self._pending:
            with contextlib.suppress(KeyError):
                _, request = self._pending.popitem()
                request.set_exception(error)


class Job:
    """One attempt at a task of a queue; Holdfast.claim() returns one. Its lease is renewed until it ends.

    `stopped` is an Event that is set when the work should stop: the task was cancelled, the lease is lost, or the
    connection has ended; `reason` says which. Pass `fence` along with what the work writes elsewhere.

    End it by one of complete(), fail(), retry() and give_back(). They raise HoldfastError with the code
    InvalidTransition (the task was cancelled, for example), StaleFence (another worker has it) or NotFound (it was
    removed). In a `with` block, an exception ends the job by retry(), and a block that ends without an outcome by
    give_back().
    """

    def __init__(self, connection: Connection, claimed: dict[str, Any]) -> None:
        self._connection = connection
        self._id: str = claimed["jobId"]
        self._stop = connection.stop_of(self._id)
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
    def stopped(self) -> threading.Event:
        return self._stop.event

    @property
    def reason(self) -> Optional[str]:
        return self._stop.reason

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
            task = cast(Record, self._connection.call(method, jobId=self._id, **params))
        except HoldfastError as error:
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
        self._connection.stops.pop(self._id, None)

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
    `on_lost` is called with {"lockId", "keyHash", "reason"} when a renewed lock is lost, and with
    {"reason": "disconnected"} when the sidecar is gone: then all of them are lost. It runs on a separate thread.

    After the connection has ended, the next request makes a new one; for a socket it tries for `reconnect` seconds.
    Requests in progress fail with Disconnected, and so does all if `reconnect` is 0. lock() alone continues to wait.

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
        """Waits for the lock and renews it until the block ends. Send its `fence` with every write.

        Raises LockLost at the end of the block if the lock was lost meanwhile.
        """
        requests = [Request("lock.lock")]
        try:
            yield self._wait_for_lock(requests, {"key": key, **options})
            release(requests[-1], key)
        except BaseException:  # of the block, or an interruption of the release: a second one does no harm
            abandon(requests[-1], wait=requests[-1].done())  # the error of the block matters more
            raise

    def _wait_for_lock(self, requests: list[Request], params: dict[str, Any]) -> Lock:
        """A lock that a broken connection acquired is released with it, so the request can be repeated."""
        give_up = time.monotonic() + params.get("waitMs", 5000) / 1000
        while True:
            try:
                return cast(Lock, wait_for(requests[-1], lambda request: self._begin(request, params)))
            except Disconnected:
                if not self._may_repeat(requests[-1], give_up):
                    raise
            params = {**params, "waitMs": int(1000 * max(0, give_up - time.monotonic()))}
            requests.append(Request("lock.lock"))

    def _may_repeat(self, request: Request, give_up: float) -> bool:
        return request.connection is not None and self._reconnects() and time.monotonic() < give_up

    def _reconnects(self) -> bool:
        return not self._closed and self._reconnect > 0

    def claim(self, *queues: str, **options: Any) -> Optional[Job]:
        """Claims the next task of the first of these queues that has any, and returns a Job, or None.

        Options: waitMs (0), leaseMs (30 000), worker.
        """
        connection = self._connected()
        watch_jobs(connection)
        request = Request("queue.claimNext")
        try:
            connection.send(request, {"queues": queues, **options})
            jobs = request.result()["jobs"]
            return Job(connection, jobs[0]) if jobs else None
        except BaseException:
            abandon(request)
            raise

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
        self._connection = Connection(self._path, self._command, self._losses.put if self._on_lost is not None else None)
        try:
            if self._closed:
                raise Disconnected("the client was closed")
            if self._on_lost is not None:
                self._connection.call("lock.subscribe")
        except BaseException:
            self._connection.close()
            raise
        return self._connection

    def _connected(self) -> Connection:
        """The connection, or a new one if it has ended."""
        with self._connecting:
            give_up = time.monotonic() + self._reconnect
            if self._connection.gone is None or not self._reconnects():
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

    def __getattr__(self, name: str) -> Any:  # id, queue, attempt, fence, task, variables, stopped, reason
        return getattr(self._job, name)

    async def wait_stopped(self) -> Optional[str]:
        while not self._job.stopped.is_set():
            await asyncio.sleep(0.2)
        return self._job.reason

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
            if client._connection.gone is None:
                client._connection.send(request, params)
            else:  # a new connection is made, which blocks
                await asyncio.to_thread(client._begin, request, params)
            return await asyncio.wrap_future(request)
        except BaseException:
            abandon(request)
            raise

    @contextlib.asynccontextmanager
    async def lock(self, key: str, **options: Any) -> AsyncIterator[Lock]:
        """As Holdfast.lock(): raises LockLost at the end of the block if the lock was lost meanwhile."""
        requests = [Request("lock.lock")]
        try:
            yield await self._wait_for_lock(requests, {"key": key, **options})
            await asyncio.to_thread(release, requests[-1], key)
        except BaseException:  # of the block, or a cancellation: of a release that has not begun, too
            abandon(requests[-1])
            raise

    async def _wait_for_lock(self, requests: list[Request], params: dict[str, Any]) -> Lock:
        give_up = time.monotonic() + params.get("waitMs", 5000) / 1000
        while True:
            try:
                return cast(Lock, await self._wait_for(requests[-1], params))
            except Disconnected:
                if not self._client()._may_repeat(requests[-1], give_up):
                    raise
            params = {**params, "waitMs": int(1000 * max(0, give_up - time.monotonic()))}
            requests.append(Request("lock.lock"))

    async def claim(self, *queues: str, **options: Any) -> Optional[AsyncJob]:
        """As Holdfast.claim()."""
        connection = await asyncio.to_thread(self._client()._connected)
        await asyncio.to_thread(watch_jobs, connection)
        request = Request("queue.claimNext")
        try:
            connection.send(request, {"queues": queues, **options})
            jobs = (await asyncio.wrap_future(request))["jobs"]
        except BaseException:
            abandon(request)
            raise
        return AsyncJob(Job(connection, jobs[0])) if jobs else None

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
    request.abandoned = True
    connection = request.connection
    if connection is None or connection.gone is not None or (request.done() and request.exception() is not None):
        return
    if not request.done() and request.method in WAITING:
        connection.cancel(request)
    undone = threading.Event()

    def undo(connection: Connection) -> None:
        with contextlib.suppress(ConnectionError, HoldfastError):
            for lock_id in acquired_by(request):
                connection.call("lock.release", lockId=lock_id)
            for job in claimed_by(request):
                connection.call("job.giveBack", jobId=job["jobId"])
        undone.set()

    # On a separate thread: the one that reads answers must not wait for one.
    request.add_done_callback(lambda _: threading.Thread(target=undo, args=(connection,), daemon=True).start())
    if wait:
        undone.wait()


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


def release(request: Request, key: str) -> None:
    """Releases the lock of a request. Raises LockLost if it was lost."""
    assert request.connection is not None
    try:
        if request.connection.call("lock.release", lockId=request.result()["lockId"])["ok"]:
            return
    except Disconnected as error:
        raise LockLost(f"the lock {key!r} was lost before its block ended: {error}") from error
    raise LockLost(f"the lock {key!r} was lost before its block ended")


def watch_jobs(connection: Connection) -> None:
    if not connection.watches_jobs:
        connection.call("job.subscribe")
        connection.watches_jobs = True


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


def cancellation(request_id: int) -> bytes:
    return line_of({"jsonrpc": "2.0", "method": "$/cancelRequest", "params": {"id": request_id}})


def trace(direction: str, line: bytes) -> None:
    if os.environ.get("HOLDFAST_TRACE"):
        print(f"python {direction} {line.decode().rstrip()}", file=sys.stderr, flush=True)


def show(holdfast: Holdfast) -> None:
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

    holdfast.call("queue.add", queue="python", variables={"n": 21})
    holdfast.work("python", lambda job: {"twice": 2 * job.variables["n"]}, until_empty=True)
    for done in holdfast.call("queue.listTasks", queue="python", status="completed")["tasks"]:
        print("a worker's result:", done["result"])
        holdfast.call("queue.remove", queue="python", taskId=done["task"]["taskId"])


if __name__ == "__main__":
    with Holdfast(sys.argv[1] if len(sys.argv) > 1 else None) as connected:
        show(connected)
