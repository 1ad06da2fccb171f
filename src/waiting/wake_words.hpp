#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "os/futex.hpp"

namespace holdfast::waiting {

/// The memory layout of a WakeTable, which may be a file that processes of other builds map too. It is zero
/// at first, and new fields go to the end. A process that knows only the beginning wakes sleepers, but does
/// not notify listeners.
struct WakeWords {
  static constexpr std::size_t word_count = 1024;
  static constexpr std::size_t keys_per_word = 32;

  /// The word that threads sleep on.
  struct Word {
    std::atomic<std::uint32_t> changes;
    std::atomic<std::uint32_t> sleepers;
  };
  std::array<Word, word_count> words;

  /// For the threads that listen for whole processes. Updated only while there is one.
  std::atomic<std::uint32_t> listeners;
  std::atomic<std::uint32_t> bell;  ///< the word they sleep on
  std::atomic<std::uint32_t> bell_sleepers;
  std::array<std::uint32_t, 13> reserved;
  std::array<std::atomic<std::uint32_t>, word_count> news;  ///< changed after one of its `counts` was
  std::array<std::array<std::atomic<std::uint32_t>, keys_per_word>, word_count> counts;

  /// Where a key's waiters sleep.
  struct Place {
    std::uint64_t hash;

    /// FNV-1a: the same in every build, because processes of different builds share a file.
    [[nodiscard]] static Place of(std::string_view key) noexcept {
      std::uint64_t hash = 0xCBF29CE484222325U;
      for (const char c : key) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001B3U;
      return {hash};
    }
    [[nodiscard]] std::size_t word() const noexcept { return hash % word_count; }
    [[nodiscard]] std::size_t bit() const noexcept { return (hash / word_count) % keys_per_word; }
    [[nodiscard]] std::uint32_t mask() const noexcept { return std::uint32_t{1} << bit(); }
  };
};
static_assert(offsetof(WakeWords, listeners) == WakeWords::word_count * 8, "as it is in files");
static_assert(std::atomic<std::uint32_t>::is_always_lock_free);

/// The words, and where they lie. Unmapped with its last owner.
class MappedWakeWords {
 public:
  MappedWakeWords(void* memory, os::FutexScope scope) noexcept
      : words_(static_cast<WakeWords*>(memory)), scope_(scope) {}
  ~MappedWakeWords();
  MappedWakeWords(const MappedWakeWords&) = delete;
  MappedWakeWords& operator=(const MappedWakeWords&) = delete;

  [[nodiscard]] WakeWords::Word& word_of(WakeWords::Place place) const noexcept {
    return words_->words[place.word()];
  }
  [[nodiscard]] WakeWords* operator->() const noexcept { return words_; }
  [[nodiscard]] os::FutexScope scope() const noexcept { return scope_; }

 private:
  WakeWords* words_;
  os::FutexScope scope_;
};

}  // namespace holdfast::waiting
