// What simulations share: virtual time, and a source of all that is random. One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <queue>
#include <random>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::simulation {

inline constexpr std::uint64_t kMicrosecond = 1'000;
inline constexpr std::uint64_t kMillisecond = 1'000'000;
inline constexpr std::uint64_t kSecond = 1'000'000'000;
// An invariant is broken. The message says which.
struct Violation : std::runtime_error {
  using std::runtime_error::runtime_error;
};
inline void require(bool holds, const std::string& what) {
  if (!holds) throw Violation(what);
}

class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  std::uint64_t between(std::uint64_t low, std::uint64_t high) {
    return low + engine_() % (high - low + 1);
  }
  bool chance(double p) { return static_cast<double>(engine_() >> 11) * 0x1p-53 < p; }

 private:
  std::mt19937_64 engine_;
};

class Clock {
 public:
  std::uint64_t now() const { return now_; }
  void after(std::uint64_t delay, std::function<void()> what) {
    queue_.push({now_ + delay, ++count_, std::move(what)});
  }
  bool step() {
    if (queue_.empty()) return false;
    const Entry entry = queue_.top();
    queue_.pop();
    now_ = entry.at;
    entry.what();
    return true;
  }

 private:
  struct Entry {
    std::uint64_t at, number;
    std::function<void()> what;
    bool operator<(const Entry& other) const {
      return std::pair(at, number) > std::pair(other.at, other.number);
    }
  };
  std::uint64_t now_ = kSecond, count_ = 0;
  std::priority_queue<Entry> queue_;
};

}  // namespace lockstep::simulation
