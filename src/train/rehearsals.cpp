#include "train/rehearsals.h"

#include <algorithm>
#include <bit>
#include <sstream>
#include <string>

namespace lockstep::training {
namespace {

std::int64_t asked_for(const RunOptions& options) {
  return options.rehearse.value_or(options.deterministic == Deterministic::kStrict ? 1 : 0);
}

}  // namespace

Rehearsals::Rehearsals(const RunOptions& options, std::int64_t updates)
    : asked_(asked_for(options)),
      left_(std::make_shared<Left>(static_cast<std::size_t>(updates), asked_)),
      promised_(options.deterministic == Deterministic::kStrict && options.rehearse != 0),
      unproved_(static_cast<std::size_t>(updates)) {}

TrainState::Text Rehearsals::text() const {
  const auto save = [left = left_] {
    std::string text;
    if (std::ranges::count(*left, 0) == std::ssize(*left)) return text;
    for (const std::int64_t steps : *left)
      text += (text.empty() ? "" : " ") + std::to_string(steps);
    return text;
  };
  // A step may have another number of updates than it had.
  const auto load = [left = left_](const std::string& text) -> Status {
    std::istringstream in(text);
    for (std::int64_t& steps : *left)
      if (!(in >> steps)) steps = 0;
    return {};
  };
  return {"lockstep.rehearsal", save, load, /*hashed=*/false, /*optional=*/true};
}

void Rehearsals::begin(const RunOptions& options) {
  for (std::int64_t& steps : *left_)
    steps = options.rehearse ? *options.rehearse : std::min(steps, asked_for(options));
}

// The next virtual worker's each time: steps 1, 2, 4 and so on are the first, second and third. In
// each update of a step it is another one's, so that who repeats it has not done so in the update
// before: what the closure has kept there it does not have. For the same reason one share is left
// out, in turn, behind the first of the steps in which all are.
std::vector<bool> Rehearsals::due(const Position& position, std::uint32_t virtual_workers,
                                  bool buffers) const {
  const std::int64_t left = (*left_)[static_cast<std::size_t>(position.update)];
  std::vector<bool> shares(virtual_workers, left > 0);
  if (left > 0 && left < asked_ && virtual_workers > 1)
    shares[static_cast<std::uint64_t>(position.global_step + position.update) % virtual_workers] =
        false;
  if (left > 0 || !promised_ || !position.is_early()) return shares;
  const auto number = std::bit_width(static_cast<std::uint64_t>(position.global_step));
  shares[static_cast<std::uint32_t>(number + position.update) % virtual_workers] = true;
  if (buffers && position.global_step > 1) shares.front() = true;
  return shares;
}

void Rehearsals::count(std::int64_t update) {
  std::int64_t& steps = (*left_)[static_cast<std::size_t>(update)];
  steps = std::max<std::int64_t>(steps - 1, 0);
}

}  // namespace lockstep::training
