#include "coord/run_clock.h"

#include <algorithm>

namespace lockstep::coord {

void RunClock::begin(const RunTime& time, std::uint64_t now) {
  limit_ = time.limit;
  last_step_ = time.stop_after_step;
  if (from_) return;
  ran_ = time.ran;
  from_ = now;
}

RunClock::Known RunClock::known(std::uint64_t now) const {
  return {
      {.ran = ran(now), .limit = limit_, .stop_after_step = last_step_}, from_.has_value(), up_};
}

void RunClock::go_on(const Known& known, std::uint64_t now) {
  limit_ = known.time.limit;
  ran_ = known.time.ran;
  last_step_ = known.time.stop_after_step;
  up_ = known.up;
  if (known.runs) from_ = now;
}

std::optional<std::uint64_t> RunClock::deadline() const {
  if (limit_ == 0 || up_ || last_step_ != 0) return std::nullopt;
  return *from_ + (limit_ - std::min(limit_, ran_));
}

// Members wait until it is recorded, so no table is missed.
bool RunClock::name_last(std::uint64_t step) {
  if (step == 0 || step == last_step_) return false;
  last_step_ = step;
  return true;
}

rundir::TimeStop RunClock::stop(std::uint64_t now) const {
  return {last_step_, static_cast<double>(limit_) * 1e-9, static_cast<double>(ran(now)) * 1e-9};
}

}  // namespace lockstep::coord
