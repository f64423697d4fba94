// Waiting for what a test cannot be told of. False: it did not come within `limit`.
#pragma once

#include <chrono>
#include <thread>

namespace lockstep::test {

template <class Condition>
bool until(Condition condition, std::chrono::milliseconds limit = std::chrono::seconds(60)) {
  const auto end = std::chrono::steady_clock::now() + limit;
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  return true;
}

}  // namespace lockstep::test
