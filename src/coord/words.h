// What is said in the same words of the workers of all programs, linked or plain. Pure; any thread.
#pragma once

#include <cstdint>
#include <string>

#include "base/seconds.h"

namespace lockstep::coord {

// A stop that has lasted so long names whom it waits for. Nanoseconds.
inline constexpr std::uint64_t kStopWaitTold = 2'000'000'000;

// "rank 0 (worker 1)": the rank counts from 0, and may be another worker's later; the worker's own
// number counts from 1 what the launcher has started, and is never given twice.
std::string worker_name(int rank, std::uint64_t uid);
// `first`: what is done about a death before all start again.
std::string policy(int workers, const std::string& first, int max_restarts);
std::string policy(const std::string& whose, const std::string& first, int max_restarts);
// Of workers that are killed. `for_what`: "they were told to end". `hint`: the option, or nothing.
std::string not_ended(const std::string& names, std::uint64_t waited_ns, const char* for_what,
                      const char* hint);
std::string waiting_for(const std::string& names, std::uint64_t left_ns);

}  // namespace lockstep::coord
