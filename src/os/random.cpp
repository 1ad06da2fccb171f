#include "os/random.hpp"

#include <openssl/crypto.h>
#include <sys/random.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <holdfast/clock.hpp>
#include <holdfast/error.hpp>
#include <holdfast/lock_types.hpp>

#include "core/digest.hpp"
#include "os/process.hpp"

namespace holdfast::os {
namespace {

/// Turns off OpenSSL's cleanup at process exit. A library thread that drops the last reference to an engine
/// is detached: when it exits, OpenSSL frees its data for that thread, possibly while the exit handlers free
/// the same data. It is done here because every program that uses the library links this file.
[[maybe_unused]] const int openssl_stays = OPENSSL_init_crypto(OPENSSL_INIT_NO_ATEXIT, nullptr);

/// A thread's buffer of random bytes. Used bytes are erased at once, so that a memory dump does not show ids
/// that were handed out. Trivially destructible, so that a static object's destructor may still use it.
class Buffer {
 public:
  void take(std::span<unsigned char> out) {
    if (!process_.is_current()) {  // forked: the parent has the same bytes
      explicit_bzero(bytes_.data(), bytes_.size());
      used_ = bytes_.size();
      process_ = ProcessIdentity();
    }
    while (!out.empty()) {
      if (used_ == bytes_.size()) refill();
      const auto n = std::min(out.size(), bytes_.size() - used_);
      std::memcpy(out.data(), bytes_.data() + used_, n);
      explicit_bzero(bytes_.data() + used_, n);
      used_ += n;
      out = out.subspan(n);
    }
  }

 private:
  void refill() {
    // The kernel's generator, not OpenSSL's, which is seeded from it: ADR 9. On a machine that is just
    // booting it waits for entropy. A signal may interrupt a long read.
    for (std::size_t got = 0; got < bytes_.size();) {
      const auto n = getrandom(bytes_.data() + got, bytes_.size() - got, 0);
      if (n >= 0) {
        got += static_cast<std::size_t>(n);
      } else if (errno != EINTR) {
        throw Error(ErrorCode::Internal, "the kernel returns no random bytes", std::strerror(errno));
      }
    }
    used_ = 0;
  }

  std::array<unsigned char, 1024> bytes_{};
  std::size_t used_ = bytes_.size();
  ProcessIdentity process_;
};

}  // namespace

void random_bytes(std::span<unsigned char> out) {
  thread_local Buffer buffer;
  buffer.take(out);
}

std::uint64_t jitter_bits() {
  thread_local std::uint64_t state = [] {
    // Without entropy, on a machine that is just booting, a weak seed is enough.
    std::uint64_t seed = static_cast<std::uint64_t>(BootClock::now().time_since_epoch().count());
    [[maybe_unused]] const auto got = getrandom(&seed, sizeof seed, GRND_NONBLOCK);
    return seed;
  }();
  // splitmix64
  std::uint64_t z = (state += 0x9E3779B97F4A7C15U);
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
  return z ^ (z >> 31);
}

double jitter_fraction() {
  return static_cast<double>(jitter_bits() >> 11) * 0x1.0p-53;
}

std::string new_incarnation() {
  std::array<unsigned char, 16> bytes{};
  random_bytes(bytes);
  return core::base64url(bytes);
}

TextHash::TextHash(Random) {
  std::array<unsigned char, sizeof keys_> bytes{};
  random_bytes(bytes);
  std::memcpy(keys_, bytes.data(), bytes.size());
  keys_[2] |= 1U;  // zero would hash everything to zero
}

const TextHash& TextHash::of_this_process() {
  static const TextHash instance{Random()};
  return instance;
}

}  // namespace holdfast::os

namespace holdfast {

LockId LockId::generate() {
  std::array<unsigned char, 16> bytes{};
  os::random_bytes(bytes);
  LockId id;
  core::base64url(bytes, id.chars_.data());
  return id;
}

}  // namespace holdfast
