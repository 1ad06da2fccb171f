#pragma once

#include <chrono>
#include <filesystem>
#include <string>
#include <vector>

namespace holdfast::test {

/// A certificate authority of one test: its own certificate and those it signs, as PEM files in `directory`.
class CertificateAuthority {
 public:
  explicit CertificateAuthority(std::filesystem::path directory, const std::string& name = "Test CA");

  struct Issued {
    std::filesystem::path certificate;
    std::filesystem::path key;
  };
  struct Request {
    /// Also the stem of the files' names.
    std::string name;
    /// Subject alternative names as OpenSSL writes them: `DNS:localhost`, `IP:127.0.0.1`.
    std::vector<std::string> names = {};
    /// From now on; negative for one that has expired.
    std::chrono::hours valid_for = std::chrono::hours(24);
  };
  [[nodiscard]] Issued issue(const Request& request) const;

  [[nodiscard]] const std::filesystem::path& file() const { return own_.certificate; }

 private:
  std::filesystem::path directory_;
  Issued own_;
};

}  // namespace holdfast::test
