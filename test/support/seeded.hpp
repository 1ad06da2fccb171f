#pragma once

#include <cstdlib>
#include <random>
#include <string>

namespace holdfast::test {

/// Random numbers for a test. The seed is HOLDFAST_SEED if that is set; print `seed()` with a failure.
class Seeded {
 public:
  Seeded() : seed_(from_environment()), engine_(seed_) {}

  [[nodiscard]] std::string seed() const { return "HOLDFAST_SEED=" + std::to_string(seed_); }
  /// In [0, bound).
  std::size_t below(std::size_t bound) {
    return std::uniform_int_distribution<std::size_t>(0, bound - 1)(engine_);
  }
  template <class T>
  const T& pick(const std::vector<T>& from) {
    return from[below(from.size())];
  }

 private:
  static std::uint64_t from_environment() {
    const char* given = std::getenv("HOLDFAST_SEED");
    return given != nullptr ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  }
  std::uint64_t seed_;
  std::mt19937_64 engine_;
};

}  // namespace holdfast::test
