#include <csignal>

#include "program.hpp"
#include "support/eventually.hpp"

namespace holdfast::test {
namespace {

class ServeCommand : public CliTest {
 protected:
  [[nodiscard]] std::string serve_error(const std::vector<std::string>& options) const {
    std::vector<std::string> typed{"serve", "--token-file", file("token")};
    typed.insert(typed.end(), options.begin(), options.end());
    const auto result = holdfast(typed);
    EXPECT_EQ(result.code, 64) << result.err;
    EXPECT_EQ(result.out, "");
    return result.err;
  }
};

TEST_F(ServeCommand, BeyondLoopbackItNeedsTlsOrAProxy) {
  EXPECT_NE(serve_error({"--listen", "0.0.0.0:0"}).find("--behind-proxy"), std::string::npos);
  EXPECT_NE(serve_error({"--listen", "[::]:0"}).find("--tls-cert"), std::string::npos);
  EXPECT_NE(serve_error({"--listen", "example.com:80"}).find("IP address"), std::string::npos);
  EXPECT_NE(serve_error({"--tls-cert", "cert.pem"}).find("give both"), std::string::npos);
  EXPECT_NE(serve_error({"--tls-cert", "no.pem", "--tls-key", "no.pem"}).find("--tls-cert"),
            std::string::npos);
  EXPECT_NE(serve_error({"--listen", "unix:" + file("s").string(), "--tls-cert", "a", "--tls-key", "b"})
                .find("Unix"),
            std::string::npos);
}

TEST_F(ServeCommand, CreatesItsTokenNamesTheFileAndEndsOnASignal) {
  const auto program = start({"serve", "--listen", "127.0.0.1:0", "--token-file", file("token")});
  // Before that it does not handle the signal yet, though it blocks it for moments: while threads start.
  ASSERT_TRUE(eventually([&] { return contents(program->err()).find("listening on") != std::string::npos; }));
  ASSERT_EQ(contents(file("token")).size(), 65U);
  const auto token = contents(file("token")).substr(0, 64);
  program->signal(SIGTERM);
  const auto ended = program->wait();
  EXPECT_EQ(ended.code, 0) << ended.err;
  EXPECT_EQ(ended.out, "");
  EXPECT_NE(ended.err.find("listening on http://127.0.0.1:"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find(file("token").string()), std::string::npos) << ended.err;
  EXPECT_EQ(ended.err.find(token), std::string::npos) << "the token itself is not printed";
}

}  // namespace
}  // namespace holdfast::test
