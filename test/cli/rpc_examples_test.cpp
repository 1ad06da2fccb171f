#include <gtest/gtest.h>

#include "rpc_client.hpp"

namespace holdfast::test {
namespace {

/// The clients for other languages, as their readers would run them.
class RpcExamples : public RpcTest {
 protected:
  [[nodiscard]] Finished run(const std::vector<std::string>& command) const {
    const auto binary = std::filesystem::path(HOLDFAST_BINARY);
    Program program(directory(), command,
                    {.environment = {"HOLDFAST_URL=" + url(), "PYTHONDONTWRITEBYTECODE=1",
                                     "PATH=" + binary.parent_path().string() + ":" + std::getenv("PATH")}});
    return program.wait(std::chrono::seconds(60));
  }
  static std::string client(const std::string& name) {
    return std::string(HOLDFAST_SOURCE_DIR) + "/examples/clients/" + name;
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
  expect_story(run({"python3", client("holdfast_client.py")}));
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
  expect_story(run({"node", client("holdfast_client.mjs")}));
  EXPECT_EQ(holdfast({"lock", "show", "example"}).code, 1);
}

TEST_F(RpcExamples, NodeOnASocket) {
  const auto server = listening();
  const auto result = run({"node", client("holdfast_client.mjs"), socket().string()});
  expect_story(result);
  EXPECT_NE(result.out.find("called off: Aborted"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("and then: NotFound -32602"), std::string::npos) << result.out;
}

TEST_F(RpcExamples, Shell) {
  const auto result = run({"bash", client("holdfast_client.sh")});
  expect_story(result);
  EXPECT_NE(result.out.find(R"(a second one: {"ok":false,"reason":"locked"})"), std::string::npos)
      << result.out;
}

TEST_F(RpcExamples, AShellIsToldOfALossBesideItsAnswers) {
  const auto result = run({"bash", "-c", "source " + client("holdfast_client.sh") + R"(
    call lock.subscribe
    call lock.lock '{"key":"k","ttlMs":900,"maxHoldMs":100}'
    sleep 0.5
    call lock.isLocked '{"key":"k"}'
    echo "is locked: $result")"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_NE(result.out.find("is locked: true"), std::string::npos) << result.out;
  EXPECT_NE(result.err.find("lock.lost"), std::string::npos) << result.err;
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
  const auto directory_of = std::filesystem::path(client("holdfast_client.py")).parent_path().string();
  const auto result = run({"python3", "-c", "import sys; sys.path.insert(0, '" + directory_of + R"(')
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
)"});
  EXPECT_EQ(result.out, "True\n") << result.err;
}

TEST_F(RpcExamples, TwoLanguagesAtOnceAndOneOfThemIsKilled) {
  const auto result = run({"bash", client("transcript.sh")});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("node:   has the lock, with the fence"), std::string::npos) << result.out;
  EXPECT_NE(result.out.find("node:   has the task, begun by python"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace holdfast::test
