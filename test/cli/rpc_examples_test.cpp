#include <gtest/gtest.h>

#include <csignal>
#include <fstream>
#include <holdfast/open.hpp>
#include <iterator>
#include <regex>

#include "rpc_client.hpp"
#include "support/paths.hpp"

namespace holdfast::test {
namespace {

/// The clients for other languages, as their readers would run them.
class RpcExamples : public RpcTest {
 protected:
  [[nodiscard]] Finished run(const std::vector<std::string>& command) const {
    const auto binary = std::filesystem::path(holdfast_program());
    Program program(directory(), command,
                    {.environment = {"HOLDFAST_URL=" + url(), "PYTHONDONTWRITEBYTECODE=1",
                                     "PATH=" + binary.parent_path().string() + ":" + std::getenv("PATH")}});
    return program.wait(std::chrono::seconds(60));
  }
  static std::string client(const std::string& name) { return source_dir() + "/examples/clients/" + name; }
  /// A script that has the client beside it.
  [[nodiscard]] Finished python(const std::string& script) const {
    const auto beside = std::filesystem::path(client("holdfast_client.py")).parent_path().string();
    return run({"python3", "-c", "import sys; sys.path.insert(0, '" + beside + "')" + script});
  }
  /// What the two clients that know queues add.
  static void expect_work(const Finished& result) {
    EXPECT_NE(result.out.find("a worker's result:"), std::string::npos) << result.out;
    EXPECT_NE(result.out.find("42"), std::string::npos) << result.out;
  }
  static void expect_story(const Finished& result) {
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.err, "");
    for (const auto* part : {"locked, with the fence", "the task is completed", R"(total)"}) {
      EXPECT_NE(result.out.find(part), std::string::npos) << part << " is not in\n" << result.out;
    }
  }
};

TEST_F(RpcExamples, PythonWithASidecarOfItsOwn) {
  const auto result = run({"python3", client("holdfast_client.py")});
  expect_story(result);
  expect_work(result);
  EXPECT_EQ(holdfast({"lock", "show", "example"}).code, 1);
}

TEST_F(RpcExamples, PythonOnASocket) {
  const auto server = listening();
  const auto result = run({"python3", client("holdfast_client.py"), socket().string()});
  expect_story(result);
  EXPECT_NE(result.out.find("called off: Aborted"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("and then: NotFound -32602"), std::string::npos) << result.out;
}

TEST_F(RpcExamples, NodeWithASidecarOfItsOwn) {
  const auto result = run({"node", client("holdfast_client.mjs")});
  expect_story(result);
  expect_work(result);
  EXPECT_EQ(holdfast({"lock", "show", "example"}).code, 1);
}

TEST_F(RpcExamples, NodeOnASocket) {
  const auto server = listening();
  const auto result = run({"node", client("holdfast_client.mjs"), socket().string()});
  expect_story(result);
  EXPECT_NE(result.out.find("called off: Aborted"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("and then: NotFound -32602"), std::string::npos) << result.out;
}

TEST_F(RpcExamples, TheTestsOfThePythonClient) {
  const auto result = run({"python3", client("test_holdfast_client.py"), "-v"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.err.find("test_a_cancelled_wait_leaves_no_lock (__main__.Asyncio"), std::string::npos)
      << result.err;
}

TEST_F(RpcExamples, TheTestsOfTheNodeClient) {
  const auto result = run({"node", "--test", client("holdfast_client.test.mjs")});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("a cancelled wait leaves no lock"), std::string::npos) << result.out;
}

TEST_F(RpcExamples, TheClientsHaveTheVersionOfTheSidecar) {
  for (const auto* name : {"pyproject.toml", "package.json"}) {
    std::ifstream file(client(name));
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    const std::regex stated(R"re(\n *"?version"?(?: =|:) "([^"]+)")re");
    std::smatch found;
    ASSERT_TRUE(std::regex_search(text, found, stated)) << name;
    EXPECT_EQ(found[1].str(), version()) << name;
  }
}

TEST_F(RpcExamples, Shell) {
  const auto result = run({"bash", client("holdfast_client.sh")});
  expect_story(result);
  EXPECT_NE(result.out.find(R"(a second one: {"ok":false,"reason":"locked","holder":")"), std::string::npos)
      << result.out;
}

TEST_F(RpcExamples, AShellIsToldOfALossBesideItsAnswers) {
  const auto result =
      run({"bash", "-c", "source " + client("holdfast_client.sh") + "\ncd " + directory().string() + R"(
    call lock.subscribe
    call lock.lock '{"key":"k","ttlMs":600000,"maxHoldMs":100}'
    until [[ -s lost ]]; do call lock.isLocked '{"key":"k"}' 2>>lost; done
    cat lost >&2
    echo "is locked: $result")"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("is locked: true"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("lock.lost"), std::string::npos) << result.err;
}

TEST_F(RpcExamples, AShellsAnswersAreItsOwnThoughAJobIsStoppedBetweenThem) {
  const auto result = run({"bash", "-c", "source " + client("holdfast_client.sh") + R"(
    notified() { stopped=$1; }
    stopped=
    call job.subscribe
    call queue.add '{"queue":"q"}'
    task=$(member taskId)
    call queue.claimNext '{"queues":["q"]}'
    holdfast queue cancel q "$task" >&2
    until [[ $stopped == *'"job.stopped"'* ]]; do call lock.isLocked '{"key":"k"}'; done
    echo "is locked: $result"
    call holdfast.version
    member backend)"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "is locked: false\nsqlite") << result.err;
}

TEST_F(RpcExamples, AShellCanCallWhileItIsNotified) {
  const auto result = run({"timeout", "20", "bash", "-c", "source " + client("holdfast_client.sh") + R"(
    notified() { [[ $1 != *'"lock.lost"'* ]] || { call lock.release "{\"lockId\":\"$id\"}" && released=$result; }; }
    released=
    call lock.subscribe
    call lock.lock '{"key":"k","ttlMs":600000,"maxHoldMs":100}'
    id=$(member lockId)
    until [[ $released ]]; do call holdfast.version; done
    member backend
    echo " $released")"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "sqlite {\"ok\":true}\n") << result.err;
}

TEST_F(RpcExamples, AShellTakesNoPartOfAnAnswerForTheWhole) {
  // The sidecar is killed within an answer, and then there is none.
  const auto result = run({"bash", "-c", "source " + client("holdfast_client.sh") + R"(
    kill "$HOLDFAST_RPC_PID" || true
    wait "$HOLDFAST_RPC_PID" 2>/dev/null || true
    exec {holdfast_in}< <(printf '{"jsonrpc":"2.0","id":1,"result":{"ok":tr')
    call lock.isLocked '{"key":"k"}' || echo "failed"
    call lock.isLocked '{"key":"k"}' || echo "failed again"
    call lock.isLocked "{\"key\":\"$(head -c 200000 /dev/zero | tr '\\0' x)\"}" || echo "and again")"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(result.out, "failed\nfailed again\nand again\n") << result.err;
  EXPECT_NE(result.err.find("whether this request took effect is unknown"), std::string::npos) << result.err;
}

TEST_F(RpcExamples, APythonPoolEndsEachTaskAsItsFunctionDoes) {
  const auto result = python(R"(
from holdfast_client import Failed, Holdfast
import logging
logging.disable()
def work(job):
    job.set_variables(seen=True)
    if job.variables['n'] == 1:
        raise Failed('for good')
    if job.variables['n'] == 2:
        raise ValueError('again')
    return job.variables['n'] * 10
with Holdfast() as holdfast:
    ids = [holdfast.call('queue.add', queue='q', variables={'n': n})['task']['taskId'] for n in range(4)]
    holdfast.work(['urgent', 'q'], work, threads=3, until_empty=True)
    for id in ids:
        task = holdfast.call('queue.get', queue='q', taskId=id)
        print(task['task']['status'], task['queue']['place'], task['queue']['attempts'], task['result'],
              task['task'].get('statusMessage'), task['variables']['seen'])
    assert holdfast._connection.leases == {}
)");
  EXPECT_EQ(result.out,
            "completed finished 1 0 None True\n"
            "failed dead 1 None for good True\n"
            "working delayed 1 None ValueError: again True\n"
            "completed finished 1 30 None True\n")
      << result.err;
}

TEST_F(RpcExamples, APythonWorkerIsToldThatItsTaskWasCancelled) {
  const auto result = python(R"(
from holdfast_client import Holdfast, HoldfastError
with Holdfast() as holdfast:
    holdfast.call('queue.add', queue='q')
    with holdfast.claim('q') as job:
        pass
    print(holdfast.call('queue.get', queue='q', taskId=job.id)['queue']['attempts'])
    try:
        with holdfast.claim('q') as job:
            holdfast.call('queue.cancel', queue='q', taskId=job.id)
            print(job.stopped.wait(20), job.reason)
            job.complete()
    except HoldfastError as error:
        print(error.code)
    print(holdfast.claim('q'))
)");
  EXPECT_EQ(result.out, "0\nTrue cancelled\nInvalidTransition\nNone\n") << result.err;
}

TEST_F(RpcExamples, ANodePoolEndsEachTaskAsItsFunctionDoes) {
  const auto script = "import { Failed, Holdfast } from '" + client("holdfast_client.mjs") + R"(';
    const holdfast = Holdfast.spawn();
    const ids = [];
    for (const n of [0, 1, 2, 3]) {
      ids.push((await holdfast.call('queue.add', { queue: 'q', variables: { n } })).task.taskId);
    }
    await holdfast.work('q', async (job) => {
      await job.setVariables({ seen: true });
      if (job.variables.n === 1) throw new Failed('for good');
      if (job.variables.n === 2) throw new TypeError('again');
      return job.variables.n * 10;
    }, { concurrency: 3, untilEmpty: true });
    for (const taskId of ids) {
      const { task, queue, result, variables } = await holdfast.call('queue.get', { queue: 'q', taskId });
      console.log(task.status, queue.place, queue.attempts, result, task.statusMessage, variables.seen);
    }
    await holdfast.call('queue.add', { queue: 'q' });
    const job = await holdfast.claim('q', { leaseMs: 1500 });
    const stopped = new Promise((resolve) => job.signal.addEventListener('abort', resolve));
    await holdfast.call('queue.cancel', { queue: 'q', taskId: job.taskId });
    await stopped;
    console.log(job.signal.reason.message);
    await job.complete().catch((error) => console.log(error.code));
    await holdfast.close();)";
  const auto result = run({"node", "--input-type=module", "-e", script});
  EXPECT_EQ(result.out,
            "completed finished 1 0 undefined true\n"
            "failed dead 1 null for good true\n"
            "working delayed 1 null TypeError: again true\n"
            "completed finished 1 30 undefined true\n"
            "cancelled\nInvalidTransition\n")
      << result.err;
}

TEST_F(RpcExamples, ANodeCallAfterTheEndIsRejected) {
  const auto script = "import { Holdfast } from '" + client("holdfast_client.mjs") + R"(';
    const holdfast = Holdfast.spawn();
    const late = AbortSignal.abort();
    await holdfast.call('lock.lock', { key: 'k' }, { signal: late }).catch(() => console.log('called off'));
    await holdfast.close();
    await holdfast.call('holdfast.version').catch((error) => console.log(error.message));)";
  const auto result = run({"node", "--input-type=module", "-e", script});
  EXPECT_EQ(result.out, "called off\nthe sidecar has gone\n") << result.err;
}

TEST_F(RpcExamples, APythonCallbackThatRaisesDoesNotEndTheReading) {
  const auto result = python(R"(
from holdfast_client import Holdfast
import threading
told = threading.Event()
def fail(loss):
    told.set()
    raise RuntimeError('as planned')
with Holdfast(on_lost=fail) as holdfast:
    holdfast.call('lock.subscribe')
    holdfast.call('lock.lock', key='k', ttlMs=900, maxHoldMs=100)
    told.wait(20)
    print(holdfast.call('lock.isLocked', key='k'))
)");
  EXPECT_EQ(result.out, "True\n") << result.err;
}

// A request that the sidecar cannot make out has no id to be answered under. The client then lets go of all
// that it waits for, and so of what it would get.
constexpr const char* python_ends = R"(
with Holdfast(path) as other, Holdfast(path, reconnect=0) as holdfast:
    held = other.call('lock.lock', key='k')
    waiting = holdfast.start('lock.lock', key='k', waitMs=600_000)
    assert holdfast.call('lock.isLocked', key='k')
    for bad in 'bad\ud800', float('nan'), 'x' * (16 * 1024 * 1024):
        try:
            holdfast.call('lock.isLocked', key=bad)
        except ValueError:
            print('not sent')
    assert holdfast.call('lock.isLocked', key='k')
    huge = holdfast.start('lock.isLocked', key=10**400)
    for future in huge, waiting:
        try:
            future.result(20)
        except HoldfastError as error:
            print(error.number)
        except UnknownOutcome as error:
            print('unknown', error.__cause__.number)
        if future is huge:
            os.write(holdfast._connection._to, b'nonsense\n')
    other.call('lock.release', lockId=held['lockId'])
    print(other.call('lock.lock', key='k', waitMs=20_000)['ok'])
    try:
        holdfast.call('lock.isLocked', key='k')
    except ConnectionError:
        print('gone')
)";

TEST_F(RpcExamples, APythonClientHoldsNothingThatItDoesNotKnowOf) {
  const auto server = listening();
  const auto result = run(
      {"python3", "-c",
       "import sys; sys.path.insert(0, '" + client("") +
           "')\nimport os\nfrom holdfast_client import Holdfast, HoldfastError, UnknownOutcome\npath = '" +
           socket().string() + "'" + python_ends});
  EXPECT_EQ(result.out, "not sent\nnot sent\nnot sent\n-32602\nunknown -32700\nTrue\ngone\n") << result.err;
}

TEST_F(RpcExamples, ANodeClientHoldsNothingThatItDoesNotKnowOf) {
  const auto server = listening();
  const auto script = "import { Holdfast } from '" + client("holdfast_client.mjs") + R"(';
    import { connect } from 'node:net';
    const path = ')" + socket().string() +
                      R"(';
    const other = await Holdfast.connect(path);
    const socket = connect({ path, allowHalfOpen: true });
    const holdfast = new Holdfast(socket, socket);
    const held = await other.call('lock.lock', { key: 'k' });
    const waiting = holdfast.call('lock.lock', { key: 'k', waitMs: 600_000 });
    for (const bad of ['done \u{1F389}'.slice(0, 6), { ['\ud800']: 1 }, 'x'.repeat(16 * 1024 * 1024)]) {
      await holdfast.call('lock.isLocked', { key: bad }).catch((error) => console.log(error.constructor.name));
    }
    console.log(await holdfast.call('lock.isLocked', { key: 'k' }));
    socket.write('nonsense\n');
    await waiting.catch((error) => console.log(error.name, error.cause.number));
    await other.call('lock.release', { lockId: held.lockId });
    console.log((await other.call('lock.lock', { key: 'k', waitMs: 20_000 })).ok);
    await holdfast.call('holdfast.version').catch((error) => process.stdout.write(error.message.slice(0, 22)));
    await holdfast.close();
    await other.close();)";
  const auto result = run({"node", "--input-type=module", "-e", script});
  EXPECT_EQ(result.out,
            "RangeError\nRangeError\nRangeError\ntrue\nUnknownOutcome -32700\ntrue\nthe sidecar has gone: ")
      << result.err;
}

TEST_F(RpcExamples, APythonClientThatLetsGoOfItsOwnSidecarEndsIt) {
  const auto result = run({"python3", "-c", "import sys; sys.path.insert(0, '" + client("") + R"(')
import os
from holdfast_client import Holdfast, UnknownOutcome
with Holdfast() as holdfast:
    holdfast.call('lock.lock', key='k')
    waiting = holdfast.start('lock.lock', key='k', waitMs=600_000)
    os.write(holdfast._connection._to, b'nonsense\n')
    try:
        waiting.result(20)
    except UnknownOutcome as error:
        print(error.__cause__.number)
)"});
  EXPECT_EQ(result.out, "-32700\n") << result.err;
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(holdfast({"lock", "show", "k"}).code, 1);
}

TEST_F(RpcExamples, APythonBlockDoesNotEndAsIfItsLockHadNotBeenLost) {
  const auto result = python(R"(
from holdfast_client import Holdfast, LockLost
import subprocess, threading
told = threading.Event()
def lost(loss):
    print(loss['reason'], holdfast.call('lock.isLocked', key='k'), flush=True)
    told.set()
with Holdfast(on_lost=lost) as holdfast:
    try:
        with holdfast.lock('k', ttlMs=900):
            subprocess.run(['holdfast', 'lock', 'break', 'k', '--yes', '--reason', 'a test'], check=True, capture_output=True)
            told.wait(20)
    except LockLost as error:
        print(error)
)");
  EXPECT_EQ(result.out, "gone False\nthe lock 'k' was lost before its block ended\n") << result.err;
}

TEST_F(RpcExamples, ANodeWorkNeither) {
  const auto script = "import { Holdfast } from '" + client("holdfast_client.mjs") + R"(';
    import { execFileSync } from 'node:child_process';
    const holdfast = Holdfast.spawn();
    const told = new Promise((resolve) => holdfast.on('lost', ({ reason }) => resolve(reason)));
    await holdfast.withLock('k', { ttlMs: 900 }, async () => {
      execFileSync('holdfast', ['lock', 'break', 'k', '--yes', '--reason', 'a test'], { stdio: 'ignore' });
      console.log(await told);
    }).catch((error) => console.log(error.message));
    await holdfast.close();)";
  const auto result = run({"node", "--input-type=module", "-e", script});
  EXPECT_EQ(result.out, "gone\nthe lock \"k\" was lost before its work was done\n") << result.err;
}

TEST_F(RpcExamples, TheEndOfTheSidecarIsToldAsALoss) {
  const auto told = python(R"(
from holdfast_client import Holdfast
import os, signal, threading
told = threading.Event()
holdfast = Holdfast(on_lost=lambda loss: (print(loss, flush=True), told.set()))
try:
    with holdfast.lock('k', ttlMs=900):
        os.kill(holdfast._connection.process.pid, signal.SIGKILL)
        told.wait(20)
        raise ValueError('of the block')
except ValueError as error:
    print(error)
)");
  EXPECT_EQ(told.out, "{'reason': 'disconnected'}\nof the block\n") << told.err;
  const auto server = listening();
  const auto script = "import { Holdfast } from '" + client("holdfast_client.mjs") +
                      "';\nconst holdfast = await Holdfast.connect('" + socket().string() + "');" + R"(
    holdfast.on('lost', (loss) => console.log(loss));
    await holdfast.call('holdfast.version');
    process.kill()" + std::to_string(server->pid()) +
                      ", 'SIGKILL');";
  const auto node = run({"node", "--input-type=module", "-e", script});
  EXPECT_EQ(node.out, "{ reason: 'disconnected' }\n") << node.err;
}

TEST_F(RpcExamples, AnInterruptIsForThePythonProgramAndNotForItsSidecar) {
  const auto result = python(R"(
from holdfast_client import Holdfast
import os, signal, time
signal.signal(signal.SIGINT, lambda *_: print('interrupted', flush=True))
with Holdfast() as holdfast:
    with holdfast.lock('k'):
        os.killpg(0, signal.SIGINT)  # as a terminal does
        time.sleep(0.3)
        print(holdfast.call('lock.isLocked', key='k'))
)");
  EXPECT_EQ(result.out, "interrupted\nTrue\n") << result.err;
}

TEST_F(RpcExamples, APythonFutureIsNotCancelledBehindTheSidecarsBack) {
  const auto result = run({"python3", "-c", "import sys; sys.path.insert(0, '" + client("") + R"(')
from holdfast_client import Holdfast
with Holdfast() as holdfast:
    held = holdfast.call('lock.lock', key='k')
    waiting = holdfast.start('lock.lock', key='k', waitMs=600_000)
    print(waiting.cancel())
    holdfast.call('lock.release', lockId=held['lockId'])
    print(waiting.result(20)['ok'])
    print(holdfast.start('lock.isLocked', key='k').result(20))
)"});
  EXPECT_EQ(result.out, "False\nTrue\nTrue\n") << result.err;
}

TEST_F(RpcExamples, AShellsBackgroundWorkNeedNotKeepItsLocks) {
  const auto result = run({"bash", "-c", "source " + client("holdfast_client.sh") + R"(
    call lock.lock '{"key":"k","ttlMs":600000}'
    { exec {holdfast_in}<&- {holdfast_out}>&-; exec sleep 600; } &
    echo "$!")"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_TRUE(eventually([&] { return holdfast({"lock", "show", "k"}).code == 1; }));
  const pid_t background = std::stoi(result.out);
  ASSERT_GT(background, 1);
  kill(background, SIGKILL);
}

TEST_F(RpcExamples, TwoLanguagesAtOnceAndOneOfThemIsKilled) {
  const auto result = run({"bash", client("transcript.sh")});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("node:   has the lock, with the fence"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("node:   has the task, begun by python"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace holdfast::test
