#include "base/log.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cstdlib>
#include <string>
#include <utility>

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

}  // namespace

LogSink::LogSink(std::function<void(std::string_view line)> sink) {
  sink_in_use() = std::move(sink);
}
LogSink::~LogSink() { sink_in_use() = nullptr; }

void log(LogLevel level, std::string_view message) {
  static const LogLevel threshold = level_from_environment();
  if (level < threshold) return;
  const std::string line = fmt::format("lockstep: {}{}\n", mark(level), for_terminal(message));
  if (sink_in_use()) return sink_in_use()(line);
  // A log line that cannot be written has nowhere to be reported.
  [[maybe_unused]] const auto written = ::write(STDERR_FILENO, line.data(), line.size());
}

}  // namespace lockstep
