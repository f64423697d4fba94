// One line to stderr per call, `lockstep: ` in front; the level from LOGLEVEL (torchrun's name),
// default INFO.
// Threads: safe. A line is written by one write(2), so lines of several processes never tear.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>

namespace lockstep {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
void log(LogLevel level, std::string_view message);
inline void log_info(std::string_view message) { log(LogLevel::kInfo, message); }
inline void log_warning(std::string_view message) { log(LogLevel::kWarning, message); }
inline void log_error(std::string_view message) { log(LogLevel::kError, message); }
inline void log_debug(std::string_view message) { log(LogLevel::kDebug, message); }

// One line of several processes of a run, by whichever has it to say first: what they find out
// alike, each from the same files, is told once. `key` tells what is the same; default: the
// message. Before there is a run: once in the process, and by a program's first main alone
// (base/process_setup.h).
void log_once(std::string_view message, LogLevel level = LogLevel::kInfo,
              std::string_view key = {});

// How the processes of a run agree, from a run's start to its end: whether nobody has claimed `key`
// before, which is then claimed. Empty: each is alone. Threads: set while no other thread logs.
void set_line_claims(std::function<bool(std::uint64_t key)> claim);

// As long as it lives, whole lines go to `sink` instead: a write(2) may block, which the launcher
// cannot afford. Threads: made and destroyed while no other thread logs. At most one at a time.
class LogSink {
 public:
  explicit LogSink(std::function<void(std::string_view line)> sink);
  ~LogSink();
  LogSink(const LogSink&) = delete;
  LogSink& operator=(const LogSink&) = delete;
};

}  // namespace lockstep
