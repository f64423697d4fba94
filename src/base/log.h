// One line to stderr per call, `lockstep: ` in front; the level from LOGLEVEL (torchrun's name),
// default INFO.
// Threads: safe. A line is written by one write(2), so lines of several processes never tear.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace lockstep {

enum class LogLevel { kDebug, kInfo, kWarning, kError };
void log(LogLevel level, std::string_view message);
inline void log_info(std::string_view message) { log(LogLevel::kInfo, message); }
inline void log_warning(std::string_view message) { log(LogLevel::kWarning, message); }
inline void log_error(std::string_view message) { log(LogLevel::kError, message); }
inline void log_debug(std::string_view message) { log(LogLevel::kDebug, message); }

// Whether nobody in the run has said this yet, which is then this process's to say: what several
// find out alike, each from the same files, is told once. Before there is a run: once in the
// process, and by a program's first main alone (base/process_setup.h).
bool is_first_to_say(std::string_view key);
// A line of that kind. `key` tells what is the same; default: the message.
void log_once(std::string_view message, LogLevel level = LogLevel::kInfo,
              std::string_view key = {});

// Room for the lines of a kind of which there may be very many: for so many of them in a run,
// whoever says them; where there is no run, for each object. Threads: one at a time.
class LineRoom {
 public:
  LineRoom(std::string_view kind, int lines) : kind_(kind), left_(lines) {}
  // Whether there is some for one more, which is then taken.
  bool take();

 private:
  std::string kind_;
  int left_;  // as far as is known here
};

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

// As long as it lives, what this thread logs is kept in `lines` instead, whole lines, for another
// thread to say by log_lines(). At most one at a time in a thread.
class LogKept {
 public:
  explicit LogKept(std::string& lines);
  ~LogKept();
  LogKept(const LogKept&) = delete;
  LogKept& operator=(const LogKept&) = delete;
};
void log_lines(std::string_view lines);

}  // namespace lockstep
