#include "coord/deadlines.h"

#include <algorithm>

namespace lockstep::coord {

const char* to_string(Phase phase) {
  static constexpr const char* kNames[] = {"idle",     "data",      "forward",  "backward",
                                           "exchange", "optimizer", "snapshot", "evaluate",
                                           "heal",     "done"};
  const auto index = static_cast<std::uint64_t>(phase);
  return index < std::size(kNames) ? kNames[index] : "an unknown phase";
}

bool is_computing(Phase phase) {
  return phase == Phase::kData || phase == Phase::kForward || phase == Phase::kBackward ||
         phase == Phase::kOptimizer || phase == Phase::kEvaluate;
}

bool is_between(Phase phase) {
  return phase == Phase::kIdle || phase == Phase::kSnapshot || phase == Phase::kHeal;
}

void HangWatch::observe(const WorkerProgress& worker, bool has_committed, bool awaited,
                        std::uint64_t now) {
  // A program that asks again and again whether there is a next step does nothing but count.
  const std::uint64_t progress = worker.phase == Phase::kIdle ? worker.applied : worker.progress;
  const bool free = is_between(worker.phase) && !awaited;
  const auto [it, is_new] = watched_.try_emplace(worker.uid);
  Watched& watched = it->second;
  watched.ran = worker.ran_ns;
  watched.starved = worker.starved_ns;
  if (!is_new && !free && watched.phase == worker.phase && watched.progress == progress) return;
  if (!is_new && (is_computing(watched.phase) || is_between(watched.phase))) {
    std::uint64_t& longest = longest_[static_cast<std::size_t>(watched.phase)];
    longest = std::max(longest, watched.still(now));
    if (watched.phase != worker.phase) passed_[static_cast<std::size_t>(watched.phase)] = true;
  }
  watched.phase = worker.phase;
  watched.progress = progress;
  watched.has_committed = has_committed;
  watched.restart(now);
}

void HangWatch::Watched::restart(std::uint64_t now) {
  since = now;
  ran_before = ran;
  starved_before = starved;
}

std::uint64_t HangWatch::Watched::still(std::uint64_t now) const {
  const std::uint64_t waited = starved > starved_before ? starved - starved_before : 0;
  return now - since - std::min(now - since, waited);
}

void HangWatch::excuse(WorkerUid worker, std::uint64_t now) {
  if (const auto found = watched_.find(worker); found != watched_.end()) found->second.restart(now);
}

std::uint64_t HangWatch::limit(const Watched& watched) const {
  const auto phase = static_cast<std::size_t>(watched.phase);
  const std::uint64_t learnt = 10 * longest_[phase];
  if (is_between(watched.phase)) return std::max(between_, learnt);
  const bool known = passed_[phase] || (watched.has_committed && watched.phase != Phase::kEvaluate);
  if (known || first_ <= floor_) return std::max(floor_, learnt);
  const std::uint64_t ran = watched.ran - std::min(watched.ran, watched.ran_before);
  return std::max(first_ + std::min(ran, 9 * first_), learnt);
}

std::optional<HangWatch::Hang> HangWatch::hung(std::uint64_t now,
                                               const std::function<bool(WorkerUid)>& counts) const {
  std::optional<Hang> worst;
  for (const auto& [worker, watched] : watched_) {
    if ((!is_computing(watched.phase) && !is_between(watched.phase)) || !counts(worker)) continue;
    const std::uint64_t still = watched.still(now);
    if (still > limit(watched) && (!worst || still > worst->still))
      worst = Hang{worker, watched.phase, still};
  }
  return worst;
}

void HangWatch::grant(std::uint64_t now) {
  for (auto& [worker, watched] : watched_)
    watched.since = std::max(
        watched.since, now - std::min(now, limit(watched) - std::min(limit(watched), floor_)));
}

void HangWatch::restart(std::uint64_t now) {
  for (auto& [worker, watched] : watched_) watched.restart(now);
}

}  // namespace lockstep::coord
