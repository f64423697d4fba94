#include "coord/membership.h"

#include <algorithm>
#include <type_traits>
#include <utility>
#include <variant>

#include "coord/host_keeper.h"
#include "coord/run_keeper.h"

namespace lockstep::coord {

// One host: both keepers, and what they say to each other, as function calls.
struct Coordinator::State {
  explicit State(const Config& settings)
      : config(settings),
        host(config, facts, turn, [this](const Report& report) { run.hear(report); }),
        run(config, facts, host.workers(), turn, [this](const Order& order) { host.obey(order); }) {
  }

  const Config config;
  Turn turn;
  RunFacts facts;
  HostKeeper host;
  RunKeeper run;
};

namespace {

template <class Keeper, class What>
concept Hears = requires(Keeper& keeper, const What& what) {
  keeper.on(what);
};

}  // namespace

Coordinator::Coordinator(const Config& config) : state_(std::make_unique<State>(config)) {}
Coordinator::~Coordinator() = default;

Actions Coordinator::handle(const Event& event, std::uint64_t now_ns) {
  State& s = *state_;
  const std::uint64_t gap = s.turn.now == 0 ? 0 : now_ns - s.turn.now;
  s.turn.now = now_ns;
  s.turn.actions.clear();
  const Group& group = s.facts.group;
  if (group == Group::kStopped) return {};
  if (gap > kAgentPause) {
    s.host.forget_pause(gap);
    s.run.forget_pause(gap);
  }
  std::visit(
      [&](const auto& what) {
        using What = std::decay_t<decltype(what)>;
        if constexpr (Hears<RunKeeper, What>) s.run.on(what);
        if constexpr (Hears<HostKeeper, What>) s.host.on(what);
      },
      event);
  while (s.host.fire_timer() || s.run.fire_timer()) continue;
  s.host.watch_standstills();
  s.run.look();
  if (group == Group::kStarting || group == Group::kRunning) s.host.spawn_missing();
  s.run.write_tables();
  if (group == Group::kRunning) s.host.choose_donor();
  return std::move(s.turn.actions);
}

RunStatus Coordinator::status() const {
  static constexpr const char* kGroups[] = {"starting",  "running",  "restarting",
                                            "finishing", "stopping", "stopped"};
  RunKeeper& run = state_->run;
  const RunFacts& facts = state_->facts;
  const Workers& workers = state_->host.workers();
  const auto members = std::count_if(workers.begin(), workers.end(), [](const auto& entry) {
    return entry.second.stage == Stage::kMember && !entry.second.dismissed;
  });
  return {kGroups[static_cast<int>(facts.group)],
          members,
          facts.target,
          facts.virtual_workers,
          run.committed(),
          run.replacements_left(),
          state_->config.max_replacements,
          facts.restarts,
          state_->config.max_restarts};
}

std::uint64_t Coordinator::next_deadline(std::uint64_t now_ns) const {
  std::uint64_t next = now_ns + kAgentPause / 2;
  next = state_->run.next_deadline(state_->host.next_deadline(next));
  return std::max(next, now_ns);
}

}  // namespace lockstep::coord
