#include "data/left_out.h"

#include <utility>

namespace lockstep::data {
namespace {

constexpr int kMostNamed = 20;

}  // namespace

LeftOut::LeftOut(std::string of) : of_(std::move(of)), room_("left out of " + of_, kMostNamed) {}

// By its name where it has one: a picture that is trained on and evaluated is told once.
void LeftOut::say(const Dataset& set, std::int64_t id, const std::string& what_then) {
  const std::lock_guard lock(mutex_);
  if (full_) return;
  const std::string number = "sample " + std::to_string(id) + " of " + of_;
  const std::string why = set.why_left_out(id);
  if (!is_first_to_say(why.empty() ? number : why)) return;
  if (room_.take())
    return log_warning("left out: " + (why.empty() ? number + ", by the data set" : why) +
                       what_then);
  full_ = true;
  log_once("more than " + std::to_string(kMostNamed) + " samples of " + of_ +
               " are left out as damaged; the others are not named (a run's metrics.jsonl counts "
               "them, its ledger.jsonl has those of training)",
           LogLevel::kWarning);
}

void LeftOut::say_replaced(const Dataset& set, std::int64_t id, std::int64_t sound) {
  say(set, id,
      "; in training sample " + std::to_string(sound) + ", the next sound one, stands in for it");
}

void LeftOut::say_left_out(const Dataset& set, std::span<const std::int64_t> asked,
                           std::span<const std::int64_t> given) {
  auto next = given.begin();
  for (const std::int64_t id : asked) {
    if (next != given.end() && *next == id)
      ++next;
    else
      say(set, id, "");
  }
}

std::string because(const Dataset& set, std::int64_t id) {
  const std::string why = set.why_left_out(id);
  return why.empty() ? why : " (one of them: " + why + ")";
}

}  // namespace lockstep::data
