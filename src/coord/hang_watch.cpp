#include "coord/hang_watch.h"

#include <algorithm>

namespace lockstep::coord {
namespace {

// The agent looks at a member's vitals once it has stood still for about this long.
constexpr std::uint64_t kMoment = 100'000'000;

std::size_t index_of(Phase phase) { return static_cast<std::size_t>(phase); }

// In the others it waits, or is through.
bool stands_by_itself(Phase phase) {
  return phase != Phase::kExchange && phase != Phase::kDone && index_of(phase) < kPhases;
}

std::uint64_t minus(std::uint64_t a, std::uint64_t b) { return a > b ? a - b : 0; }

}  // namespace

const char* to_string(Phase phase) {
  return index_of(phase) < kPhases ? kPhaseNames[index_of(phase)] : "an unknown phase";
}

bool is_computing(Phase phase) {
  return phase == Phase::kData || phase == Phase::kForward || phase == Phase::kBackward ||
         phase == Phase::kOptimizer || phase == Phase::kEvaluate;
}

void HangWatch::Watched::begin(Phase to, std::uint64_t count) {
  phase = to;
  progress = count;
  lasted = counted = excused = ran = tell_at = 0;
}

HangWatch::Standstill HangWatch::Watched::standstill(WorkerUid worker) const {
  const double share = lasted == 0 ? 0 : static_cast<double>(ran) / static_cast<double>(lasted);
  return {worker, phase, lasted, counted, 2 * counted > lasted, share};
}

void HangWatch::observe(const WorkerProgress& seen, const WorkerVitals& vitals, bool awaited,
                        std::uint64_t now) {
  // A program that asks again and again whether there is a next step does nothing but count.
  const std::uint64_t progress = seen.phase == Phase::kIdle ? seen.applied : seen.progress;
  const auto [it, is_new] = watched_.try_emplace(seen.uid);
  Watched& watched = it->second;
  if (!is_new && stands_by_itself(watched.phase)) {
    const std::uint64_t passed = minus(now, watched.at);
    watched.excused += minus(vitals.excused_ns, watched.vitals.excused_ns);
    const std::uint64_t own = minus(passed, watched.excused);
    watched.excused -= passed - own;
    watched.lasted += own;
    watched.counted += strict() || awaited ? own : 0;
    watched.ran += minus(vitals.ran_ns, watched.vitals.ran_ns);
  }
  watched.at = now;
  watched.vitals = vitals;
  if (!is_new && watched.phase == seen.phase && watched.progress == progress) return;
  if (!is_new) learn(watched.phase, watched.lasted, 0);
  watched.begin(seen.phase, progress);
}

void HangWatch::skip_to(std::uint64_t now) {
  for (auto& [worker, watched] : watched_) watched.at = now;
}

bool HangWatch::any_still() const {
  return std::ranges::any_of(watched_,
                             [](const auto& entry) { return entry.second.lasted >= kMoment; });
}

std::uint64_t HangWatch::limit(Phase phase) const {
  if (strict()) return strict_;
  const std::size_t i = index_of(phase);
  return std::max({kLeast, 10 * ended_[i], 2 * cut_short_[i]});
}

std::optional<HangWatch::Standstill> HangWatch::hung() const {
  std::optional<Standstill> worst;
  for (const auto& [worker, watched] : watched_) {
    if (!stands_by_itself(watched.phase) || watched.counted <= limit(watched.phase)) continue;
    if (!worst || watched.counted > worst->counted) worst = watched.standstill(worker);
  }
  return worst;
}

void HangWatch::evicted(const Standstill& hang) {
  learn(hang.phase, 0, hang.counted);
  forget(hang.worker);
  for (auto& [worker, watched] : watched_) watched.counted = 0;
}

std::vector<HangWatch::Standstill> HangWatch::to_tell() {
  std::vector<Standstill> news;
  for (auto& [worker, watched] : watched_) {
    if (!stands_by_itself(watched.phase)) continue;
    const std::uint64_t usual = 2 * ended_[index_of(watched.phase)];
    if (watched.lasted < std::max({kFirstTold, usual, watched.tell_at})) continue;
    watched.tell_at = 2 * watched.lasted;
    news.push_back(watched.standstill(worker));
  }
  return news;
}

void HangWatch::learn(Phase phase, std::uint64_t ended, std::uint64_t cut_short) {
  if (strict() || !stands_by_itself(phase)) return;
  const std::size_t i = index_of(phase);
  const std::uint64_t before = limit(phase);
  ended_[i] = std::max(ended_[i], ended);
  cut_short_[i] = std::max(cut_short_[i], cut_short);
  if (limit(phase) == before) return;
  learnt_.clear();
  for (std::size_t p = 0; p < kPhases; ++p)
    if (limit(static_cast<Phase>(p)) > kLeast)
      learnt_.push_back({kPhaseNames[p], static_cast<double>(ended_[p]) * 1e-9,
                         static_cast<double>(cut_short_[p]) * 1e-9});
}

void HangWatch::remember(const std::vector<rundir::Standstill>& earlier) {
  const auto ns = [](double seconds) { return static_cast<std::uint64_t>(seconds * 1e9); };
  for (const rundir::Standstill& one : earlier)
    for (std::size_t p = 0; p < kPhases; ++p)
      if (one.phase == kPhaseNames[p])
        learn(static_cast<Phase>(p), ns(one.longest_s), ns(one.cut_short_s));
}

}  // namespace lockstep::coord
