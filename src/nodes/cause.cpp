#include "nodes/cause.h"

namespace lockstep::nodes {
namespace {

// Two words may differ by this much in their time to the leader.
constexpr std::uint64_t kAlike = 20'000'000;

}  // namespace

void Cause::open(std::uint64_t now) { since_ = now; }

void Cause::clear() {
  since_.reset();
  failures_.clear();
  finals_ = 0;
}

void Cause::add(const NodeFailure& failure) {
  if (failures_.try_emplace(failure.node, failure).second) finals_ += failure.final ? 1 : 0;
}

const NodeFailure* Cause::root(bool of_final) const {
  const auto oldest = [&](auto counts) {
    const NodeFailure* found = nullptr;
    for (const auto& [node, failure] : failures_)
      if ((failure.final || !of_final) && counts(failure) &&
          (found == nullptr || failure.at < found->at))
        found = &failure;
    return found;
  };
  const NodeFailure* first = oldest([](const NodeFailure&) { return true; });
  if (first == nullptr) return nullptr;
  const NodeFailure* evident = oldest([&](const NodeFailure& failure) {
    return failure.is_evident && failure.at <= first->at + kAlike;
  });
  return evident != nullptr ? evident : first;
}

}  // namespace lockstep::nodes
