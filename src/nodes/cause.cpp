#include "nodes/cause.h"

namespace lockstep::nodes {
namespace {

// By which two words' ways to the leader may well differ.
constexpr std::uint64_t kAlike = 20'000'000;

}  // namespace

void Cause::open(std::uint64_t now) { since_ = now; }

void Cause::clear() {
  since_.reset();
  mishaps_.clear();
  finals_ = 0;
}

void Cause::add(const Mishap& mishap) {
  if (mishaps_.try_emplace(mishap.node, mishap).second) finals_ += mishap.final ? 1 : 0;
}

const Mishap* Cause::root(bool of_final) const {
  const auto oldest = [&](auto counts) {
    const Mishap* found = nullptr;
    for (const auto& [node, mishap] : mishaps_)
      if ((mishap.final || !of_final) && counts(mishap) &&
          (found == nullptr || mishap.at < found->at))
        found = &mishap;
    return found;
  };
  const Mishap* first = oldest([](const Mishap&) { return true; });
  if (first == nullptr) return nullptr;
  const Mishap* evident = oldest(
      [&](const Mishap& mishap) { return mishap.is_evident && mishap.at <= first->at + kAlike; });
  return evident != nullptr ? evident : first;
}

}  // namespace lockstep::nodes
