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
    for (const auto* part : {"locked, with the fence 000000000000001", "the task is completed", R"(total)"}) {
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

TEST_F(RpcExamples, TwoLanguagesAtOnceAndOneOfThemIsKilled) {
  const auto result = run({"bash", client("transcript.sh")});
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_NE(result.out.find("node:   has the lock, with the fence 000000000000002"), std::string::npos)
      << result.out;
  EXPECT_NE(result.out.find("node:   has the task, begun by python"), std::string::npos) << result.out;
}

}  // namespace
}  // namespace holdfast::test
