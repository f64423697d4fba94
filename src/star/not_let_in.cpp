#include "star/not_let_in.h"

#include <cstddef>

#include "base/log.h"
#include "star/beat.h"

namespace lockstep::star {
namespace {

constexpr std::size_t kMostSaid = 64;

// Who closes without a word is a probe of somebody's; who has another key or version is perhaps a
// node of this run, and so is somebody's torchrun, or a worker of another run.
bool may_be_a_node(const control::Failure& failure) {
  return control::is_other_launcher(failure.outcome) ||
         (failure.outcome == control::Outcome::kNotLockstep &&
          failure.text.find("TCPStore") != std::string::npos);
}

}  // namespace

void NotLetIn::note(const control::Failure& failure) {
  if (!may_be_a_node(failure)) return log_debug("turned away: " + failure.text);
  say(control::to_string(failure.outcome), failure.from, failure.text);
}

void NotLetIn::say(const std::string& kind, const std::string& address, const std::string& what) {
  if (may_say(kind, address)) log_warning("not let in: " + what);
}

bool NotLetIn::may_say(const std::string& kind, const std::string& address) {
  std::erase_if(silent_about_, [](const auto& entry) { return entry.second.passed(); });
  return silent_about_.size() < kMostSaid &&
         silent_about_.try_emplace({kind, address}, Deadline::in(kLineEvery)).second;
}

}  // namespace lockstep::star
