#include "launcher/nodes/root_cause.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/text.h"

namespace lockstep::launcher {
namespace {

constexpr std::size_t kMostPath = 4096;

// What went wrong is told in the last lines.
std::string last_part(const std::string& text, std::size_t most_bytes) {
  if (text.size() <= most_bytes) return text;
  const std::size_t left_out = text.size() - most_bytes;
  return "(" + std::to_string(left_out) + " bytes before this are on its node)\n" +
         text.substr(left_out);
}

}  // namespace

std::size_t most_text(int nodes) {
  return std::min(kMostText, kMostTexts / static_cast<std::size_t>(std::max(nodes, 1)));
}

star::message::Failed told(const WorkerFailure& failure, const std::string& host) {
  star::message::Failed failed;
  failed.rank = failure.rank;
  failed.local_rank = failure.local_rank;
  failed.pid = failure.pid;
  failed.exit_code = failure.exit_code;
  // A worker may have written any number as its time.
  const double ms = failure.time_s * 1000;
  failed.time_ms = std::abs(ms) < 9e15 ? static_cast<std::int64_t>(ms) : 0;
  failed.host = host;
  failed.error_file = failure.error_file.substr(0, kMostPath);
  failed.is_file = !failure.error_text.empty() && failure.error_text.size() <= kMostText;
  failed.text = failed.is_file ? failure.error_text : last_part(failure.message, kMostText);
  return failed;
}

void shorten(star::message::Failed& failed, std::size_t most_bytes) {
  if (failed.text.size() <= most_bytes) return;
  failed.text = last_part(failure_of(failed).message, most_bytes);
  failed.is_file = false;
}

WorkerFailure failure_of(const star::message::Failed& failed) {
  WorkerFailure failure;
  failure.rank = failed.rank;
  failure.local_rank = failed.local_rank;
  failure.pid = failed.pid;
  failure.exit_code = failed.exit_code;
  failure.time_s = static_cast<double>(failed.time_ms) / 1000;
  failure.host = failed.host;
  failure.error_file = failed.error_file;
  failure.message = failed.text;
  if (!failed.is_file) return failure;
  failure.error_text = failed.text;
  failure.message.clear();
  const double time_s = failure.time_s;
  read_error_file(failure.error_text, failure);
  failure.time_s = time_s;
  if (failure.message.empty())
    failure.message = "its error file has no \"message\" that could be read as JSON";
  return failure;
}

}  // namespace lockstep::launcher
