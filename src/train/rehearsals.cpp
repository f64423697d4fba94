#include "train/rehearsals.h"

#include <algorithm>
#include <sstream>
#include <string>

namespace lockstep::training {
namespace {

std::int64_t asked_for(const RunOptions& options) {
  return options.rehearse.value_or(options.deterministic == Deterministic::kStrict ? 1 : 0);
}

}  // namespace

Rehearsals::Rehearsals(const RunOptions& options, std::int64_t updates)
    : left_(std::make_shared<Left>(static_cast<std::size_t>(updates), asked_for(options))),
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

void Rehearsals::count(std::int64_t update) {
  std::int64_t& steps = (*left_)[static_cast<std::size_t>(update)];
  steps = std::max<std::int64_t>(steps - 1, 0);
}

}  // namespace lockstep::training
