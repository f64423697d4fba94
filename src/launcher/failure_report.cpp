#include "launcher/failure_report.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <ctime>
#include <nlohmann/json.hpp>

#include "base/json.h"

namespace lockstep::launcher {
namespace {

using Json = nlohmann::json;

std::string host_name() {
  char name[256] = {};
  return ::gethostname(name, sizeof name - 1) == 0 ? name : "localhost";
}

std::string local_time(double time_s) {
  const auto seconds = static_cast<std::time_t>(time_s);
  std::tm parts{};
  ::localtime_r(&seconds, &parts);
  char text[64];
  std::strftime(text, sizeof text, "%Y-%m-%d_%H:%M:%S", &parts);
  return text;
}

std::string indented(std::string text) {
  while (text.ends_with('\n')) text.pop_back();
  for (std::size_t at = 0; (at = text.find('\n', at)) != std::string::npos; at += 3)
    text.replace(at, 1, "\n  ");
  return text;
}

std::string entry(std::size_t index, const WorkerFailure& f, const std::string& host,
                  const std::string& message) {
  return "[" + std::to_string(index) + "]:\n  time      : " + local_time(f.time_s) +
         "\n  host      : " + host + "\n  rank      : " + std::to_string(f.rank) +
         " (local_rank: " + std::to_string(f.local_rank) +
         ")\n  exitcode  : " + std::to_string(f.exit_code) + " (pid: " + std::to_string(f.pid) +
         ")\n  error_file: " + (f.error_file.empty() ? "<N/A>" : f.error_file) +
         "\n  traceback : " + indented(message) + "\n";
}

double number_in(const Json& value, double otherwise) {
  if (value.is_number()) return value.get<double>();
  if (!value.is_string()) return otherwise;
  const double number = std::strtod(value.get_ref<const std::string&>().c_str(), nullptr);
  return number > 0 ? number : otherwise;
}

constexpr std::uint64_t kMostErrorBytes = 1 << 20;

std::string read_all(int fd) {
  std::string text;
  char buffer[4096];
  for (off_t at = 0; text.size() < kMostErrorBytes;) {
    const ssize_t n = ::pread(fd, buffer, sizeof buffer, at);
    if (n <= 0) break;
    text.append(buffer, static_cast<std::size_t>(n));
    at += n;
  }
  return text;
}

}  // namespace

WorkerFailure failure_of(const Worker& worker, const ChildEvent& child, double now_s) {
  WorkerFailure failure;
  failure.rank = worker.rank.value();
  failure.local_rank = worker.local_rank.value();
  failure.pid = worker.pid;
  failure.exit_code = child.kind == ChildEvent::kExited ? child.status : -child.status;
  failure.time_s = now_s;
  failure.message = child.kind == ChildEvent::kExited
                        ? "ended with exit code " + std::to_string(child.status) +
                              " and left no error file; its output has more"
                        : "Signal " + std::to_string(child.status) + " (" +
                              signal_name(child.status) + ") received by PID " +
                              std::to_string(worker.pid);
  const UniqueFd file(worker.error_memory || worker.error_file.empty()
                          ? -1
                          : ::open(worker.error_file.c_str(), O_RDONLY | O_CLOEXEC));
  const int fd = worker.error_memory ? worker.error_memory.get() : file.get();
  if (const std::string text = read_all(fd); !text.empty()) {
    failure.error_file =
        worker.error_memory ? "(kept in memory; --log-dir keeps it)" : worker.error_file;
    read_error_file(text, failure);
  }
  return failure;
}

void read_error_file(std::string_view text, WorkerFailure& failure) {
  const Json json = Json::parse(text, nullptr, false);
  if (!json.is_object() || !json.contains("message")) return;
  const Json& message = json["message"];
  if (message.is_string()) {  // the other form that torchrun reads
    failure.message = message.get<std::string>();
    if (json.contains("timestamp")) failure.time_s = number_in(json["timestamp"], failure.time_s);
    return;
  }
  if (!message.is_object()) return;
  const Json extra = message.value("extraInfo", Json::object());
  if (!extra.is_object()) return;
  if (extra.contains("timestamp")) failure.time_s = number_in(extra["timestamp"], failure.time_s);
  for (const Json* source : {&extra, &message}) {
    const char* key = source == &extra ? "py_callstack" : "message";
    if (!source->contains(key) || !(*source)[key].is_string()) continue;
    failure.message = (*source)[key].get<std::string>();
    return;
  }
}

std::string error_file_text(const std::string& message, double time_s) {
  const std::string time = std::to_string(static_cast<std::int64_t>(time_s));
  return json_text(Json{
      {"message",
       {{"message", message}, {"extraInfo", {{"py_callstack", message}, {"timestamp", time}}}}}});
}

std::string failure_report(const std::string& program, const std::vector<WorkerFailure>& failures) {
  const auto root = std::min_element(
      failures.begin(), failures.end(), [](const WorkerFailure& a, const WorkerFailure& b) {
        // Workers write whole seconds: within one, the order of notice decides.
        return static_cast<std::int64_t>(a.time_s) < static_cast<std::int64_t>(b.time_s);
      });
  const std::string host = host_name(), title = program + " FAILED";
  std::string others, cause;
  for (auto failure = failures.begin(); failure != failures.end(); ++failure) {
    const bool again = failure != root && failure->message == root->message;
    (failure == root ? cause : others) +=
        entry(static_cast<std::size_t>(failure - failures.begin()), *failure, host,
              again ? "the root cause's" : failure->message);
  }
  if (others.empty()) others = "  <NO_OTHER_FAILURES>\n";
  const std::string line(60, '='), thin(60, '-');
  return line + "\n" + title + "\n" + thin + "\nFailures:\n" + others + thin +
         "\nRoot Cause (first observed failure):\n" + cause + line + "\n";
}

}  // namespace lockstep::launcher
