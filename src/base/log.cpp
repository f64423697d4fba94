#include "base/log.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cstdlib>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <utility>

#include "base/hash.h"
#include "base/process_setup.h"
#include "base/text.h"

namespace lockstep {
namespace {

LogLevel level_from_environment() {
  const char* text = std::getenv("LOGLEVEL");
  const std::string_view name = text == nullptr ? "INFO" : text;
  if (name == "DEBUG") return LogLevel::kDebug;
  if (name == "WARNING") return LogLevel::kWarning;
  if (name == "ERROR" || name == "CRITICAL") return LogLevel::kError;
  return LogLevel::kInfo;
}

std::string_view mark(LogLevel level) {
  if (level == LogLevel::kWarning) return "warning: ";
  if (level == LogLevel::kError) return "error: ";
  return "";
}

// Where lines go; empty: to stderr. The process has one log, as it has one stderr.
std::function<void(std::string_view)>& sink_in_use() {
  static std::function<void(std::string_view)> sink;
  return sink;
}

// Where this thread's lines are kept; null: nowhere. Not in a plug-in's dynamic TLS, in which
// LeakSanitizer crashes at the exit of a user's program.
// NOLINTNEXTLINE(*-global-variables)
[[gnu::tls_model("initial-exec")]] thread_local std::string* kept_lines = nullptr;

// What this process has said, or left to another one.
struct OnceLines {
  std::mutex mutex;
  std::set<std::uint64_t> known;
  std::function<bool(std::uint64_t key)> claim;
};

std::uint64_t hash_of(std::string_view key) { return xxh3(std::as_bytes(std::span(key))); }

OnceLines& once_lines() {
  static OnceLines lines;
  return lines;
}

}  // namespace

LogSink::LogSink(std::function<void(std::string_view line)> sink) {
  sink_in_use() = std::move(sink);
}
LogSink::~LogSink() { sink_in_use() = nullptr; }

void log(LogLevel level, std::string_view message) {
  static const LogLevel threshold = level_from_environment();
  if (level < threshold) return;
  const std::string line = fmt::format("lockstep: {}{}\n", mark(level), for_terminal(message));
  if (kept_lines != nullptr)
    *kept_lines += line;
  else
    log_lines(line);
}

LogKept::LogKept(std::string& lines) { kept_lines = &lines; }
LogKept::~LogKept() { kept_lines = nullptr; }

void log_lines(std::string_view lines) {
  if (lines.empty()) return;
  if (sink_in_use()) return sink_in_use()(lines);
  // A log line that cannot be written has nowhere to be reported.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, lines.data(), lines.size());
}

void set_line_claims(std::function<bool(std::uint64_t key)> claim) {
  OnceLines& lines = once_lines();
  const std::lock_guard lock(lines.mutex);
  lines.claim = std::move(claim);
}

bool is_first_to_say(std::string_view key) {
  const std::uint64_t hash = hash_of(key);
  OnceLines& lines = once_lines();
  const std::lock_guard lock(lines.mutex);
  if (!lines.known.insert(hash).second) return false;
  return lines.claim ? lines.claim(hash) : is_first_main();
}

void log_once(std::string_view message, LogLevel level, std::string_view key) {
  if (is_first_to_say(key.empty() ? message : key)) log(level, message);
}

bool LineRoom::take() {
  OnceLines& lines = once_lines();
  const std::lock_guard lock(lines.mutex);
  while (left_ > 0) {
    const std::string place = kind_ + "#" + std::to_string(left_--);
    if (!lines.claim || lines.claim(hash_of(place))) return true;
  }
  return false;
}

}  // namespace lockstep
