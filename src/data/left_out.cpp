#include "data/left_out.h"

#include <mutex>
#include <set>

#include "base/log.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kMostNamed = 20;

// By its name where it has one: a picture that is trained on and evaluated is told once.
void say(const std::string& key, const std::string& line) {
  static std::mutex mutex;
  static std::set<std::string> named;  // the log is the process's, too
  const std::lock_guard lock(mutex);
  if (named.size() > kMostNamed || !named.insert(key).second) return;
  if (named.size() <= kMostNamed)
    log_once(line, LogLevel::kWarning, key);
  else
    log_once("more than " + std::to_string(kMostNamed) +
                 " samples are left out as damaged; the others are not named (a run's "
                 "metrics.jsonl counts them, its ledger.jsonl has those of training)",
             LogLevel::kWarning);
}

}  // namespace

void say_replaced(const Dataset& set, std::int64_t id, std::int64_t sound) {
  const std::string number = "sample " + std::to_string(id) + " of the training set";
  const std::string why = set.why_left_out(id);
  say(why.empty() ? number : why,
      "left out: " + (why.empty() ? number + ", by the data set" : why) + "; in training sample " +
          std::to_string(sound) + ", the next sound one, stands in for it");
}

void say_left_out(const Dataset& set, std::span<const std::int64_t> asked,
                  std::span<const std::int64_t> given) {
  auto next = given.begin();
  for (const std::int64_t id : asked) {
    if (next != given.end() && *next == id) {
      ++next;
      continue;
    }
    const std::string number = "sample " + std::to_string(id) + " of the set that is evaluated";
    const std::string why = set.why_left_out(id);
    say(why.empty() ? number : why,
        "left out: " + (why.empty() ? number + ", by the data set" : why));
  }
}

std::string because(const Dataset& set, std::int64_t id) {
  const std::string why = set.why_left_out(id);
  return why.empty() ? why : " (one of them: " + why + ")";
}

}  // namespace lockstep::data
