#!/usr/bin/env python3
"""Tests of holdfast_client.py, with `holdfast` on the PATH:  python3 -m unittest test_holdfast_client"""

from __future__ import annotations

import asyncio
import concurrent.futures
import os
import queue
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest
import unittest.mock
from pathlib import Path
from typing import Any, Callable

from holdfast_client import (
    AsyncHoldfast,
    AsyncJob,
    Connection,
    Disconnected,
    Holdfast,
    HoldfastError,
    Job,
    Lease,
    Lock,
    LockLost,
    Request,
    UnknownOutcome,
    abandon,
)


def eventually(condition: Callable[[], bool]) -> bool:
    give_up = time.monotonic() + 20
    while not condition():
        if time.monotonic() > give_up:
            return False
        time.sleep(0.01)
    return True


def store_error(code: str) -> HoldfastError:
    return HoldfastError({"code": -32000, "message": "the store is away", "data": {"code": code}})


class ClientTest(unittest.TestCase):
    def setUp(self) -> None:
        directory = tempfile.TemporaryDirectory()
        self.addCleanup(directory.cleanup)
        self.directory = Path(directory.name)
        self.socket = str(self.directory / "rpc.sock")
        os.environ["HOLDFAST_URL"] = f"sqlite:{directory.name}/holdfast.db"

    def listen(self) -> subprocess.Popen[bytes]:
        """Starts a sidecar on the socket; returns when it accepts connections."""
        sidecar = subprocess.Popen(["holdfast", "rpc", "--listen", self.socket], stderr=subprocess.DEVNULL)
        self.addCleanup(sidecar.wait)
        self.addCleanup(sidecar.kill)
        self.assertTrue(eventually(self.accepts))
        return sidecar

    def accepts(self) -> bool:
        with socket.socket(socket.AF_UNIX) as probe:
            return probe.connect_ex(self.socket) == 0  # the path exists before the sidecar listens

    def kill(self, sidecar: subprocess.Popen[bytes]) -> None:
        sidecar.kill()
        sidecar.wait()
        os.unlink(self.socket)


class Threads(ClientTest):
    def test_an_interrupted_wait_leaves_no_lock(self) -> None:
        self.listen()
        with Holdfast(self.socket) as other, Holdfast(self.socket) as holdfast:
            held = other.call("lock.lock", key="k")
            interrupt = threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT))
            interrupt.start()
            with self.assertRaises(KeyboardInterrupt):
                with holdfast.lock("k", waitMs=600_000):
                    self.fail("the lock is held")
            other.call("lock.release", lockId=held["lockId"])
            # The request is cancelled, or has acquired the lock and released it.
            self.assertTrue(other.call("lock.lock", key="k", waitMs=20_000)["ok"])

    def test_a_lock_whose_answer_reaches_no_caller_is_released(self) -> None:
        with Holdfast() as holdfast:
            with self.assertRaises(KeyboardInterrupt):
                with holdfast.lock("k") as lock:
                    self.assertTrue(holdfast.call("lock.isLocked", key="k"))
                    raise KeyboardInterrupt
            self.assertFalse(holdfast.call("lock.isLocked", key="k"), lock)

    def test_what_an_abandoned_request_acquires_is_released(self) -> None:
        with Holdfast() as holdfast:
            answered = holdfast.start("lock.lock", key="k")
            answered.result()
            abandon(answered, wait=True)
            self.assertFalse(holdfast.call("lock.isLocked", key="k"))
            # Abandoned before it is sent, as by a cancelled task that another thread sends for.
            late = Request("lock.acquire")
            abandon(late)
            holdfast._begin(late, {"key": "k", "ttlMs": 600_000})
            self.assertTrue(late.result()["ok"])
            self.assertTrue(eventually(lambda: not holdfast.call("lock.isLocked", key="k")))
            held = holdfast.call("lock.lock", key="k")
            waiting = holdfast.start("lock.lock", key="k", waitMs=600_000)
            abandon(waiting)
            with self.assertRaisesRegex(HoldfastError, "cancel|abort|stop"):
                waiting.result(20)
            holdfast.call("lock.release", lockId=held["lockId"])
            holdfast.call("queue.add", queue="q")
            claim = holdfast.start("queue.claimNext", queues=["q"])
            job = claim.result()["jobs"][0]
            abandon(claim, wait=True)
            state = holdfast.call("queue.get", queue="q", taskId=job["taskId"])["queue"]
            self.assertEqual((state["place"], state["attempts"]), ("ready", 0))

    def test_a_client_reconnects_and_reports_what_it_lost(self) -> None:
        sidecar = self.listen()
        losses: list[dict[str, str]] = []
        with Holdfast(self.socket, on_lost=losses.append) as holdfast:
            with self.assertRaises(LockLost):
                with holdfast.lock("k", ttlMs=600_000):
                    self.kill(sidecar)
                    self.assertTrue(eventually(lambda: len(losses) == 1))
            self.listen()
            self.assertTrue(holdfast.call("lock.isLocked", key="k"))  # until its lease expires
            # The new connection is subscribed, too.
            holdfast.call("lock.lock", key="other", maxHoldMs=10)
            self.assertTrue(eventually(lambda: [loss["reason"] for loss in losses] == ["disconnected", "max_hold"]))

    def test_a_wait_for_a_lock_survives_the_sidecar(self) -> None:
        sidecar = self.listen()
        holder = Holdfast()
        self.addCleanup(holder.close)
        held = holder.call("lock.lock", key="k")
        locks: list[Lock] = []

        def wait() -> None:
            with Holdfast(self.socket) as holdfast, holdfast.lock("k", waitMs=60_000) as lock:
                locks.append(lock)

        waiter = threading.Thread(target=wait)
        waiter.start()
        time.sleep(0.1)
        self.kill(sidecar)
        self.listen()
        holder.call("lock.release", lockId=held["lockId"])
        waiter.join(30)
        self.assertGreater(locks[0].fence, held["fence"])

    def test_a_private_sidecar_is_started_again(self) -> None:
        with Holdfast() as holdfast:
            process = holdfast._connection.process
            assert process is not None
            process.kill()
            with self.assertRaisesRegex(Disconnected, "signal 9"):
                while True:
                    holdfast.start("holdfast.version").result(20)
                    holdfast._reconnect = 0
            holdfast._reconnect = 10
            self.assertEqual(holdfast.call("holdfast.version")["backend"], "sqlite")

    def test_a_loss_is_reported_before_the_reason_is_known(self) -> None:
        losses: list[dict[str, Any]] = []
        told: list[bool] = []
        reason = Connection._reason

        def reason_late(connection: Connection) -> str:
            told.append(lock.lost.is_set() and eventually(lambda: losses == [{"reason": "disconnected"}]))
            return reason(connection)

        with Holdfast(on_lost=losses.append) as holdfast:
            with self.assertRaises(LockLost), unittest.mock.patch.object(Connection, "_reason", reason_late):
                with holdfast.lock("k") as lock:
                    assert holdfast._connection.process is not None
                    holdfast._connection.process.kill()
                    self.assertTrue(lock.lost.wait(20))
                    self.assertEqual(lock.lost.reason, "disconnected")
            self.assertEqual(told, [True])

    def test_a_close_ends_what_waits_and_releases_all_locks(self) -> None:
        with Holdfast() as other:
            holdfast = Holdfast()
            holdfast.call("lock.lock", key="k")
            claim = holdfast.start("queue.claimNext", queues=["q"], waitMs=600_000)
            holdfast.close()
            with self.assertRaisesRegex(Disconnected, "the client was closed"):
                claim.result(0)
            self.assertFalse(other.call("lock.isLocked", key="k"))
            with self.assertRaises(Disconnected):
                holdfast.call("lock.lock", key="k")

    def test_a_close_during_a_reconnect_leaves_no_sidecar(self) -> None:
        made: list[Connection] = []
        holdfast = Holdfast()
        process = holdfast._connection.process
        assert process is not None
        process.kill()
        self.assertTrue(eventually(lambda: holdfast._connection.gone is not None))

        def connect(*arguments: Any) -> Connection:
            made.append(Connection(*arguments))
            eventually(lambda: holdfast._closed)
            return made[0]

        def request() -> None:
            with self.assertRaisesRegex(Disconnected, "the client was closed"):
                holdfast.call("lock.lock", key="k")

        with unittest.mock.patch("holdfast_client.Connection", connect):
            requester = threading.Thread(target=request)
            requester.start()
            self.assertTrue(eventually(lambda: len(made) == 1))
            holdfast.close()
            self.assertIsNotNone(made[0].gone)
            requester.join()

    def test_the_reason_is_known_if_the_sidecar_cannot_start(self) -> None:
        with self.assertRaisesRegex(Disconnected, "cannot start no-such-program: No such file"):
            Holdfast(command=["no-such-program"])
        with self.assertRaisesRegex(Disconnected, "no sidecar on /nowhere: No such file.*holdfast rpc --listen"):
            Holdfast("/nowhere")
        with Holdfast(command=["holdfast", "--url", "nonsense://", "rpc"]) as holdfast:
            with self.assertRaisesRegex(Disconnected, r"exit code 64\): .*nonsense"):
                holdfast.call("holdfast.version")
        with self.assertRaisesRegex(Disconnected, "the sidecar has gone"):
            holdfast.call("holdfast.version")

    def test_workers_survive_the_sidecar(self) -> None:
        sidecar = self.listen()
        ended = threading.Event()
        done: list[int] = []

        def work(job: Job) -> None:
            done.append(job.variables["n"])
            if len(done) == 1:
                self.kill(sidecar)
                self.listen()
            else:
                ended.set()

        with Holdfast(self.socket) as holdfast:
            holdfast.call("queue.add", queue="q", variables={"n": 1})
            holdfast.call("queue.add", queue="q", variables={"n": 2})
            with self.assertLogs("holdfast", "WARNING") as logs:
                holdfast.work("q", work, stop=ended)
            self.assertEqual(done, [1, 2])
            self.assertIn("was not sent", logs.output[0])

    def test_workers_outlive_an_outage_of_the_store(self) -> None:
        stop = threading.Event()
        with Holdfast() as holdfast:
            holdfast.call("queue.add", queue="q")
            claim = holdfast.claim
            errors = [store_error("ServiceUnavailable")]

            def claim_later(*queues: str, **options: Any) -> Any:
                if errors:
                    raise errors.pop()
                return claim(*queues, **options)

            with unittest.mock.patch.object(holdfast, "claim", claim_later):
                with self.assertLogs("holdfast", "WARNING"):
                    holdfast.work("q", lambda _: stop.set(), stop=stop)
                errors.append(store_error("ServiceUnavailable"))
                with self.assertRaises(HoldfastError):
                    holdfast.work("q", lambda _: None, until_empty=True)

    def test_workers_leave_the_event_of_the_caller_alone(self) -> None:
        stop = threading.Event()
        with Holdfast() as holdfast:
            holdfast.work("q", lambda _: None, stop=stop, until_empty=True)
        self.assertFalse(stop.is_set())

    def test_a_job_whose_outcome_is_refused_is_not_kept(self) -> None:
        refused = HoldfastError({"code": -32603, "message": "damaged", "data": {"code": "Internal"}})
        ended = threading.Event()
        with Holdfast() as holdfast:
            added = holdfast.call("queue.add", queue="q")["task"]["taskId"]
            patch = unittest.mock.patch.object(Job, "complete", side_effect=refused)
            with patch, self.assertLogs("holdfast", "WARNING"):
                holdfast.work("q", lambda _: ended.set(), stop=ended)
            self.assertEqual(holdfast.call("queue.get", queue="q", taskId=added)["queue"]["place"], "ready")

    def test_a_result_that_cannot_be_stored_is_a_failed_attempt(self) -> None:
        deep: list[Any] = []
        for _ in range(200):
            deep = [deep]

        def work(job: Job) -> Any:
            if job.variables["n"] == 3:
                raise RuntimeError("half of a pair: \ud800")
            return ({1, 2}, float("nan"), deep, None, "good")[job.variables["n"]]

        with Holdfast() as holdfast:
            ids = [holdfast.call("queue.add", queue="q", variables={"n": n})["task"]["taskId"] for n in range(5)]
            with self.assertLogs("holdfast", "WARNING"):
                holdfast.work("q", work, until_empty=True)
            tasks = [holdfast.call("queue.get", queue="q", taskId=id) for id in ids]
            self.assertEqual([task["queue"]["place"] for task in tasks], ["delayed"] * 4 + ["finished"])
            self.assertEqual([task["queue"]["attempts"] for task in tasks], [1] * 5)
            self.assertIn("set", tasks[0]["task"]["statusMessage"])
            self.assertEqual(tasks[3]["task"]["statusMessage"], "RuntimeError: half of a pair: ?")


# A sidecar that says more than a client knows, and puts each lock at risk at once.
TALKATIVE = """
import json, sys
def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)
for request in map(json.loads, sys.stdin):
    if "id" not in request:
        continue
    say(method="lock.ofALaterVersion", params=[1])
    say(id=999999, result="of a request that was not made")
    if request["method"] == "lock.lock":
        say(id=request["id"], result={"ok": True, "lockId": "L", "fence": "000000000000001", "expiresAtMs": 1})
        say(method="lock.atRisk", params={"lockId": "L", "keyHash": "h", "atRisk": True, "remainingMs": 500})
    elif request["method"] == "lock.isLocked":
        say(method="lock.lost", params={"lockId": "L", "keyHash": "h", "reason": "gone", "remainingMs": 0})
        say(id=request["id"], result=True)
    else:
        say(id=request["id"], result={"ok": True, "remainingMs": 1000})
"""


class SidecarsThatFail(ClientTest):
    def stop(self, holdfast: Holdfast) -> subprocess.Popen[bytes]:
        process = holdfast._connection.process
        assert process is not None
        process.send_signal(signal.SIGSTOP)
        self.addCleanup(process.send_signal, signal.SIGCONT)
        return process

    def test_an_answer_that_is_cut_off_is_an_unknown_outcome(self) -> None:
        losses: list[dict[str, Any]] = []
        cut = ["sh", "-c", "holdfast rpc | dd bs=1 count=3000 2>/dev/null"]
        with Holdfast(command=cut, on_lost=losses.append) as holdfast:
            with self.assertRaisesRegex(LockLost, "sidecar has gone"):
                with holdfast.lock("k", ttlMs=600_000) as lock:
                    with self.assertRaisesRegex(UnknownOutcome, "whether rpc.discover took effect is unknown"):
                        holdfast.call("rpc.discover")
                    self.assertTrue(lock.lost.wait(20))
                    self.assertEqual(lock.lost.reason, "disconnected")
                    holdfast._reconnect = 0
            self.assertTrue(eventually(lambda: losses == [{"reason": "disconnected"}]), losses)
            holdfast._reconnect = 10
            self.assertFalse(holdfast.call("lock.isLocked", key="other"))  # by a new sidecar

    def test_the_notice_of_a_lease_is_the_one_of_its_sidecar(self) -> None:
        def notice(ttl_ms: int, **options: Any) -> float:
            return Lease("lock", ttl_ms, options).notice

        self.assertEqual([notice(60_000), notice(6000), notice(60_000, maxHoldMs=6000)], [5, 1, 1])
        self.assertEqual([notice(60_000, noticeMs=9000), notice(60_000, noticeMs=None)], [9, 5])
        self.assertEqual([notice(60_000, noticeMs=0), notice(1000, noticeMs=0)], [0.05, 0.01])

    def test_a_line_that_is_not_json_ends_the_connection(self) -> None:
        with Holdfast(command=["sh", "-c", "echo nonsense; cat >/dev/null"], reconnect=0) as holdfast:
            with self.assertRaises(Disconnected):
                holdfast.call("lock.isLocked", key="k")

    def test_what_a_client_does_not_know_is_ignored(self) -> None:
        losses: list[dict[str, Any]] = []
        with Holdfast(command=[sys.executable, "-c", TALKATIVE], on_lost=losses.append) as holdfast:
            with holdfast.lock("k") as lock:
                self.assertTrue(eventually(lambda: lock.at_risk))
                self.assertFalse(lock.lost.is_set())
                self.assertGreater(lock.remaining(), 0)
                reasons: list[str] = []
                lock.on_lost(reasons.append)
                self.assertTrue(holdfast.call("lock.isLocked", key="k"))
                self.assertEqual((lock.lost.reason, lock.remaining()), ("gone", 0))
                self.assertTrue(eventually(lambda: reasons == ["gone"]))
            self.assertTrue(eventually(lambda: [loss["reason"] for loss in losses] == ["gone"]))

    def test_a_lock_is_lost_before_the_lease_of_a_sidecar_that_hangs_expires(self) -> None:
        losses: list[dict[str, Any]] = []
        with Holdfast() as other, Holdfast(on_lost=losses.append) as holdfast:
            with self.assertRaises(LockLost):
                with holdfast.lock("k", ttlMs=2400) as lock:
                    sidecar = self.stop(holdfast)
                    self.assertTrue(lock.lost.wait(20))
                    is_granted = other.call("lock.acquire", key="k", ttlMs=1000)["ok"]
                    sidecar.kill()
            self.assertFalse(is_granted)
            self.assertEqual(lock.lost.reason, "unproven")
            self.assertTrue(eventually(lambda: losses[:1] == [{"lockId": lock.id, "reason": "unproven"}]), losses)

    def test_a_job_is_stopped_before_the_lease_of_a_sidecar_that_hangs_expires(self) -> None:
        with Holdfast() as holdfast:
            holdfast.call("queue.add", queue="q")
            job = holdfast.claim("q", leaseMs=1200)
            assert job is not None
            sidecar = self.stop(holdfast)
            self.assertTrue(job.stopped.wait(20))
            self.assertEqual(job.reason, "unproven")
            sidecar.kill()

    def test_a_job_is_stopped_before_the_time_limit_of_its_attempt_is_over(self) -> None:
        with Holdfast() as holdfast:
            holdfast.call("queue.add", queue="limited", attemptLimitMs=1200)
            job = holdfast.claim("limited")
            assert job is not None
            self.stop(holdfast)
            self.assertTrue(job.stopped.wait(1.1), "its lease is longer, but it ends with the attempt")
            self.assertEqual(job.stopped.reason, "unproven")
            assert holdfast._connection.process is not None
            holdfast._connection.process.kill()

    def test_a_callback_of_a_request_that_is_called_off_can_send_another(self) -> None:
        with Holdfast() as holdfast:
            process = self.stop(holdfast)
            for _ in range(100):
                last = holdfast.start("holdfast.version")
            answers: queue.SimpleQueue[Request] = queue.SimpleQueue()
            last.add_done_callback(lambda _: answers.put(holdfast.start("lock.isLocked", key="next")))
            holdfast.cancel(last)
            process.send_signal(signal.SIGCONT)
            self.assertFalse(answers.get(timeout=20).result(20))

    def test_a_lock_that_is_renewed_is_not_lost(self) -> None:
        with Holdfast() as holdfast, holdfast.lock("k", ttlMs=1800) as lock:
            self.assertFalse(lock.lost.wait(2))
            self.assertGreater(lock.remaining(), 0)

    def test_a_lock_that_was_waited_for_is_proven_when_its_block_begins(self) -> None:
        with Holdfast() as other, Holdfast() as holdfast:
            held = other.call("lock.lock", key="k")
            threading.Timer(1, other.call, ["lock.release"], {"lockId": held["lockId"]}).start()
            with holdfast.lock("k", ttlMs=900, waitMs=60_000) as lock:  # it waits longer than its ttl
                self.assertFalse(lock.lost.is_set())
                self.assertGreater(lock.remaining(), 0)

    def test_an_interrupt_within_a_long_request_leaves_the_connection_whole(self) -> None:
        with Holdfast() as holdfast:
            with holdfast.lock("k", ttlMs=600_000) as lock:
                sidecar = self.stop(holdfast)  # so the pipe is full in the middle of the request
                threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGINT)).start()
                with self.assertRaises(KeyboardInterrupt):
                    holdfast.call("task.setVariables", ownerId="o", taskId="t", variables={"a": "x" * 1_000_000})
                sidecar.send_signal(signal.SIGCONT)
                self.assertTrue(holdfast.call("lock.isLocked", key="k"))
                self.assertFalse(lock.lost.is_set())

    def test_a_request_that_was_not_sent_did_not_happen(self) -> None:
        with Holdfast() as holdfast:
            holdfast.call("holdfast.version")
            sidecar = self.stop(holdfast)
            requests = [holdfast.start("lock.isLocked", key="k") for _ in range(100)]
            sidecar.kill()
            errors = [type(request.exception(20)) for request in requests]
            self.assertEqual(errors, [UnknownOutcome] * 60 + [Disconnected] * 40)

    def test_a_wait_is_cancelled_though_many_requests_are_before_it(self) -> None:
        with Holdfast() as holdfast:
            holdfast.call("lock.lock", key="k")
            sidecar = self.stop(holdfast)
            requests = [holdfast.start("lock.isLocked", key="k") for _ in range(200)]
            late = holdfast.start("lock.lock", key="k", waitMs=600_000)
            holdfast.cancel(late)  # it is not sent
            sidecar.send_signal(signal.SIGCONT)
            with self.assertRaisesRegex(HoldfastError, "cancelled"):
                late.result(20)
            self.assertEqual([request.result(20) for request in requests], [True] * 200)

    def test_a_close_does_not_wait_for_a_sidecar_that_hangs(self) -> None:
        with unittest.mock.patch("holdfast_client.PATIENCE", 0.2):
            holdfast = Holdfast()
            holdfast.call("holdfast.version")
            self.stop(holdfast)
            waiting = holdfast.start("lock.isLocked", key="k")
            holdfast.close()
            with self.assertRaises(UnknownOutcome):
                waiting.result(0)

    def test_a_full_pipe_does_not_block_the_event_loop(self) -> None:
        async def main() -> None:
            async with AsyncHoldfast() as holdfast:
                await holdfast.call("holdfast.version")
                sidecar = self.stop(holdfast._client())
                resumed = threading.Timer(10, sidecar.send_signal, [signal.SIGCONT])
                resumed.start()
                calls = [asyncio.ensure_future(holdfast.call("lock.isLocked", key="x" * 500 + str(n))) for n in range(300)]
                large = asyncio.ensure_future(holdfast.call("lock.isLocked", key="x" * 1_000_000))
                await asyncio.sleep(0.1)
                self.assertTrue(resumed.is_alive())
                resumed.cancel()
                sidecar.send_signal(signal.SIGCONT)
                with self.assertRaises(HoldfastError):  # the key is too long
                    await large
                self.assertEqual(set(await asyncio.gather(*calls)), {False})

        asyncio.run(main())

    def test_a_coroutine_can_await_a_loss(self) -> None:
        async def main() -> None:
            async with AsyncHoldfast() as holdfast:
                with self.assertRaises(LockLost):
                    async with holdfast.lock("k") as lock:
                        reasons: list[str] = []
                        lock.on_lost(reasons.append)  # in the event loop
                        gives_up = asyncio.ensure_future(lock.lost)
                        await asyncio.sleep(0)
                        gives_up.cancel()
                        process = holdfast._client()._connection.process
                        assert process is not None
                        process.kill()
                        self.assertEqual(await asyncio.wait_for(lock.lost, 20), "disconnected")
                        await asyncio.sleep(0)
                        self.assertEqual(reasons, ["disconnected"])

        asyncio.run(main())


class Asyncio(ClientTest):
    def test_locks_and_workers(self) -> None:
        async def main() -> None:
            async with AsyncHoldfast() as holdfast:
                async with holdfast.lock("k") as first:
                    self.assertTrue(await holdfast.call("lock.isLocked", key="k"))
                async with holdfast.lock("k") as second:
                    self.assertLess(first.fence, second.fence)
                for n in range(3):
                    await holdfast.call("queue.add", queue="q", variables={"n": n})

                async def work(job: AsyncJob) -> Any:
                    await job.set_variables(seen=True)
                    return job.variables["n"] * 10

                await holdfast.work("q", work, concurrency=2, until_empty=True)
                tasks = (await holdfast.call("queue.listTasks", queue="q"))["tasks"]
                self.assertEqual(sorted((task["result"], task["variables"]["seen"]) for task in tasks),
                                 [(0, True), (10, True), (20, True)])

        asyncio.run(main())

    def test_a_cancelled_wait_leaves_no_lock(self) -> None:
        async def hold(holdfast: AsyncHoldfast) -> None:
            async with holdfast.lock("k", waitMs=600_000):
                await asyncio.sleep(600)

        async def main() -> None:
            async with AsyncHoldfast() as holdfast:
                first = asyncio.create_task(hold(holdfast))
                while not await holdfast.call("lock.isLocked", key="k"):
                    await asyncio.sleep(0.01)
                waiting = [asyncio.create_task(hold(holdfast)) for _ in range(20)]
                await asyncio.sleep(0)
                for number, task in enumerate(waiting):
                    if number == 10:
                        first.cancel()  # so that some are cancelled as they acquire the lock
                    task.cancel()
                    await asyncio.sleep(0.002)
                results = await asyncio.gather(first, *waiting, return_exceptions=True)
                self.assertTrue(all(isinstance(result, asyncio.CancelledError) for result in results), results)
                async with holdfast.lock("k", waitMs=20_000) as lock:
                    self.assertTrue(lock["ok"])

        asyncio.run(main())

    def test_a_cancelled_worker_gives_its_job_back(self) -> None:
        async def main() -> None:
            started = asyncio.Event()

            async def work(_: AsyncJob) -> None:
                started.set()
                await asyncio.sleep(600)

            async with AsyncHoldfast() as holdfast:
                task = (await holdfast.call("queue.add", queue="q"))["task"]
                pool = asyncio.create_task(holdfast.work("q", work))
                await started.wait()
                pool.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await pool
                state = (await holdfast.call("queue.get", queue="q", taskId=task["taskId"]))["queue"]
                self.assertEqual((state["place"], state["attempts"]), ("ready", 0))

        asyncio.run(main())

    def test_a_block_that_is_cancelled_at_its_end_leaves_nothing_held(self) -> None:
        async def main() -> None:
            loop = asyncio.get_running_loop()
            loop.set_default_executor(concurrent.futures.ThreadPoolExecutor(1))
            free = threading.Event()
            async with AsyncHoldfast() as holdfast:
                added = (await holdfast.call("queue.add", queue="q"))["task"]["taskId"]
                job = await holdfast.claim("q")
                assert job is not None
                entered, leave = asyncio.Event(), asyncio.Event()

                async def hold(block: Any) -> None:
                    async with block:
                        entered.set()
                        await leave.wait()

                async def cancel_at_the_end(block: Any) -> None:
                    entered.clear()
                    leave.clear()
                    task = asyncio.create_task(hold(block))
                    await entered.wait()
                    leave.set()
                    await asyncio.sleep(0)  # until it waits for its release
                    task.cancel()
                    with self.assertRaises(asyncio.CancelledError):
                        await task

                busy = loop.run_in_executor(None, free.wait)
                await cancel_at_the_end(holdfast.lock("k", ttlMs=600_000))
                await cancel_at_the_end(job)
                free.set()
                await busy
                self.assertTrue(await asyncio.to_thread(
                    eventually, lambda: not holdfast._client().call("lock.isLocked", key="k")))
                state = (await holdfast.call("queue.get", queue="q", taskId=added))["queue"]
                self.assertEqual((state["place"], state["attempts"]), ("ready", 0))

        asyncio.run(main())

    def test_a_client_that_is_cancelled_as_it_opens_leaves_no_sidecar(self) -> None:
        async def main() -> None:
            made: list[Connection] = []
            cancelled = threading.Event()

            def connect(*arguments: Any) -> Connection:
                made.append(Connection(*arguments))
                cancelled.wait()
                return made[0]

            with unittest.mock.patch("holdfast_client.Connection", connect):
                opening = asyncio.create_task(AsyncHoldfast().__aenter__())
                self.assertTrue(await asyncio.to_thread(eventually, lambda: len(made) == 1))
                opening.cancel()
                with self.assertRaises(asyncio.CancelledError):
                    await opening
                cancelled.set()
                self.assertTrue(await asyncio.to_thread(eventually, lambda: made[0].gone is not None))

        asyncio.run(main())

    def test_workers_outlive_an_outage_and_end_together(self) -> None:
        async def main() -> None:
            started = asyncio.Event()

            async def work(_: AsyncJob) -> None:
                started.set()
                await asyncio.sleep(600)

            async with AsyncHoldfast() as holdfast:
                added = (await holdfast.call("queue.add", queue="q"))["task"]["taskId"]
                claim = holdfast.claim
                errors = [store_error("ServiceUnavailable")]

                async def claim_later(*queues: str, **options: Any) -> Any:
                    if errors:
                        raise errors.pop()
                    if started.is_set():
                        raise store_error("AuthFailed")
                    return await claim(*queues, **{**options, "waitMs": 0})

                with unittest.mock.patch.object(holdfast, "claim", claim_later):
                    with self.assertLogs("holdfast", "WARNING"), self.assertRaises(HoldfastError) as raised:
                        await holdfast.work("q", work, concurrency=2)
                self.assertEqual(raised.exception.code, "AuthFailed")
                state = (await holdfast.call("queue.get", queue="q", taskId=added))["queue"]
                self.assertEqual((state["place"], state["attempts"]), ("ready", 0))

        asyncio.run(main())

    def test_losses_and_errors_reach_the_event_loop(self) -> None:
        async def main() -> None:
            lost = asyncio.Event()
            async with AsyncHoldfast(on_lost=lambda loss: lost.set()) as holdfast:
                with self.assertRaises(LockLost):
                    async with holdfast.lock("k", maxHoldMs=1500) as lock:
                        await lost.wait()
                        await holdfast.call("lock.release", lockId=lock.id)
                with self.assertRaises(HoldfastError) as raised:
                    await holdfast.call("task.get", ownerId="o", taskId="none")
                self.assertEqual(raised.exception.code, "NotFound")

        asyncio.run(main())


if __name__ == "__main__":
    unittest.main()
