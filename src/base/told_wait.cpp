#include "base/told_wait.h"

#include "base/log.h"

namespace lockstep {

void ToldWait::pause() {
  lockstep::pause(std::chrono::milliseconds(50));
  tell();
}

void ToldWait::tell() {
  const auto waited = Deadline::Clock::now() - since_;
  if (waited < next_) return;
  next_ = 2 * waited;
  log_info("has waited " +
           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(waited).count()) +
           " s for " + whom_());
}

}  // namespace lockstep
