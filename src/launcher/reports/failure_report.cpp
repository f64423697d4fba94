#include "launcher/reports/failure_report.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/env.h"
#include "base/json.h"
#include "base/log.h"
#include "base/signal_name.h"
#include "launcher/output/host_name.h"

namespace lockstep::launcher {
namespace {

using Json = nlohmann::json;

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

// A worker may have put anything there; whoever opens a pipe would wait for its writer.
std::string text_of_file(const std::string& path) {
  const UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  struct stat info {};
  if (!fd || ::fstat(fd.get(), &info) != 0 || !S_ISREG(info.st_mode)) return "";
  const auto text = posix_env().read(path, kMostErrorBytes);
  return text.ok() ? *text : "";
}

}  // namespace

WorkerFailure failure_of(const Worker& worker, const ChildEvent& child, double now_s) {
  WorkerFailure failure;
  failure.rank = worker.rank.value();
  failure.local_rank = worker.local_rank.value();
  failure.pid = worker.pid;
  failure.exit_code = child.kind == ChildEvent::kExited ? child.status : -child.status;
  failure.time_s = now_s;
  const bool exited = child.kind == ChildEvent::kExited;
  const std::string how = exited ? "ended with exit code " + std::to_string(child.status)
                                 : "Signal " + std::to_string(child.status) + " (" +
                                       signal_name(child.status) + ") received by PID " +
                                       std::to_string(worker.pid);
  failure.message =
      how + (exited ? " and left no error file; its output on " + host_name() + " has more" : "");
  if (worker.error_file.empty()) return failure;
  failure.error_text = text_of_file(worker.error_file);
  if (failure.error_text.empty()) return failure;
  failure.error_file =
      worker.error_file_stays ? worker.error_file : "(temporary; --log-dir keeps it)";
  failure.message.clear();
  read_error_file(failure.error_text, failure);
  if (failure.message.empty())
    failure.message = how + "; its error file has no \"message\" that could be read as JSON";
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

std::string error_file_text(const std::string& message, double time_s, std::optional<int> code) {
  const std::string time = std::to_string(static_cast<std::int64_t>(time_s));
  Json json{
      {"message",
       {{"message", message}, {"extraInfo", {{"py_callstack", message}, {"timestamp", time}}}}}};
  if (code) json["message"]["errorCode"] = *code;
  return json_text(json);
}

// Workers write whole seconds: within one, the order of notice decides.
std::size_t root_cause_of(const std::vector<WorkerFailure>& failures) {
  const auto root = std::ranges::min_element(
      failures, {}, [](const WorkerFailure& f) { return static_cast<std::int64_t>(f.time_s); });
  return static_cast<std::size_t>(root - failures.begin());
}

std::string root_cause_text(const WorkerFailure& root) {
  Json json = Json::parse(root.error_text, nullptr, false);
  if (!json.is_object() || !json.contains("message"))
    return error_file_text(root.message, root.time_s, root.exit_code);
  (json["message"].is_object() ? json["message"] : json)["errorCode"] = root.exit_code;
  return json_text(json);
}

void write_own_error_file(const std::string& text) {
  const char* const path = std::getenv("TORCHELASTIC_ERROR_FILE");
  if (path == nullptr || *path == '\0') return;
  std::error_code ignored;  // the writing tells
  std::filesystem::create_directories(std::filesystem::path(path).parent_path(), ignored);
  if (write_atomically(posix_env(), path, text + "\n").ok()) return;
  // A pipe, or a folder that takes no other file.
  const UniqueFd fd(
      ::open(path, O_WRONLY | O_CREAT | O_TRUNC | O_NONBLOCK | O_NOCTTY | O_CLOEXEC, 0666));
  if (!fd || ::write(fd.get(), text.data(), text.size()) < 0)
    log_warning("TORCHELASTIC_ERROR_FILE: cannot write '" + std::string(path) +
                "': " + std::strerror(errno));
}

std::string failure_report(const std::string& program, const std::vector<WorkerFailure>& failures,
                           std::size_t root) {
  const std::string host = host_name(), title = program + " FAILED";
  std::string others, cause;
  for (std::size_t i = 0; i < failures.size(); ++i) {
    const WorkerFailure& failure = failures[i];
    const bool again = i != root && failure.message == failures[root].message;
    (i == root ? cause : others) += entry(i, failure, failure.host.empty() ? host : failure.host,
                                          again ? "the root cause's" : failure.message);
  }
  if (others.empty()) others = "  <NO_OTHER_FAILURES>\n";
  const std::string line(60, '='), thin(60, '-');
  return line + "\n" + title + "\n" + thin + "\nFailures:\n" + others + thin +
         "\nRoot Cause (first observed failure):\n" + cause + line + "\n";
}

}  // namespace lockstep::launcher
