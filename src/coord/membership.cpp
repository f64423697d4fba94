#include "coord/membership.h"

#include <algorithm>
#include <optional>
#include <type_traits>
#include <utility>
#include <variant>

#include "coord/host_keeper.h"

namespace lockstep::coord {

// The host's keeper and, where this host leads, the run's. On the only host of a run what the two
// say to each other are function calls.
struct Coordinator::State {
  State(const Config& settings, HostPlace here)
      : config(settings),
        place(std::move(here)),
        facts(first_facts(place.workers)),
        host(config, facts.hosts[place.self].stay, facts, turn,
             [this](const HostView& view, const Report& report) {
               run ? run->hear(place.self, view, report) : place.to_run(view, report);
             }) {
    if (place.to_run) return;
    run.emplace(config, place.workers, facts, turn, [this](const auto&, const Order& order) {
      host.obey(host.obeyed() + 1, order);
      look();
    });
  }
  void look() {
    if (run) run->look_at(place.self, host.view());
  }
  bool fires() { return host.fire_timer() || (run && run->fire_timer()); }
  void begin(std::uint64_t now_ns);
  void follow();
  Actions in_turn(std::uint64_t now_ns, auto what);

  const Config config;
  const HostPlace place;
  Turn turn;
  RunFacts facts;
  HostKeeper host;
  std::optional<RunKeeper> run;
  std::optional<RunLead> lead;
};

namespace {

template <class Keeper, class What>
concept Hears = requires(Keeper& keeper, const What& what) {
  keeper.on(what);
};

// A start is for both, a tick for their timers alone; all else is the host's or the run's.
template <class What>
constexpr int kHearers = std::is_same_v<What, event::Start>  ? 2
                         : std::is_same_v<What, event::Tick> ? 0
                                                             : 1;

// What has come to this launcher, and is the run's business.
template <class What>
constexpr bool kIsTold =
    std::is_same_v<What, event::Signal> || std::is_same_v<What, event::RecordsFailed>;

}  // namespace

void Coordinator::State::begin(std::uint64_t now_ns) {
  const std::uint64_t gap = turn.now == 0 ? 0 : now_ns - turn.now;
  turn.now = now_ns;
  turn.actions.clear();
  if (gap <= kAgentPause || facts.group == Group::kStopped) return;
  host.forget_pause(gap);
  if (run) run->forget_pause(gap);
}

// What comes of it.
void Coordinator::State::follow() {
  const Group& group = facts.group;
  look();
  while (fires()) look();
  host.watch_standstills();
  if (run) run->look();
  if (group == Group::kStarting || group == Group::kRunning) host.spawn_missing();
  look();
  if (run) run->write_tables();
  if (group == Group::kRunning) host.choose_donor();
}

Actions Coordinator::State::in_turn(std::uint64_t now_ns, auto what) {
  begin(now_ns);
  if (facts.group == Group::kStopped) return {};
  what();
  follow();
  return std::move(turn.actions);
}

Coordinator::Coordinator(const Config& config) : Coordinator(config, {0, {config.workers}}) {}
Coordinator::Coordinator(const Config& config, HostPlace place)
    : state_(std::make_unique<State>(config, std::move(place))) {}
Coordinator::~Coordinator() = default;

Actions Coordinator::handle(const Event& event, std::uint64_t now_ns) {
  State& s = *state_;
  const auto give = [&](const auto& what) {
    using What = std::decay_t<decltype(what)>;
    static_assert(Hears<RunKeeper, What> + Hears<HostKeeper, What> + kIsTold<What> ==
                  kHearers<What>);
    if constexpr (Hears<RunKeeper, What>)
      if (s.run) s.run->on(what);
    if constexpr (Hears<HostKeeper, What>) s.host.on(what);
    if constexpr (kIsTold<What>) s.host.tell({what});
    if constexpr (std::is_same_v<What, event::Scale>) {
      if (s.lead) return s.lead->on(what, now_ns);
      if (!s.run)
        s.turn.act(action::Reply{what.request, false,
                                 "of a run on several nodes the launcher that leads it is asked",
                                 ErrorKind::kUsage},
                   "another host leads");
    }
  };
  Actions actions = s.in_turn(now_ns, [&] { std::visit(give, event); });
  if (s.lead) s.lead->pass(now_ns);
  return actions;
}

// The run stops once nobody is left on any host.
Actions Coordinator::follow(const RunState& state, std::uint64_t now_ns) {
  State& s = *state_;
  return s.in_turn(now_ns, [&] {
    const std::vector<HostFacts> before = std::exchange(s.facts, state.facts).hosts;
    for (std::size_t h = 0; h < before.size(); ++h) {  // newer pulses may be here
      s.facts.hosts[h].goes_on = before[h].goes_on;
      s.facts.hosts[h].waits = before[h].waits;
    }
    if (s.facts.hosts[s.place.self].standing != Standing::kOut)
      for (const GivenOrder& given : state.orders)
        if (given.number > s.host.obeyed() && std::ranges::binary_search(given.to, s.place.self))
          s.host.obey(given.number, given.order);
    if (s.facts.group == Group::kStopped)
      s.turn.act(action::Stop{s.facts.stop_code}, s.facts.stop_reason);
  });
}

void Coordinator::note(const std::vector<Pulse>& pulses) { set(state_->facts, pulses); }

Actions Coordinator::append(const std::vector<Stay>& out, std::uint64_t now_ns) {
  return state_->in_turn(now_ns, [&] {
    for (const Stay stay : out) state_->host.append(stay);
  });
}

RunLead& Coordinator::lead(const RunState& state, std::uint64_t as_of) {
  return state_->lead.emplace(state_->config, state, as_of);
}

void Coordinator::lead_no_more() { state_->lead.reset(); }
RunLead* Coordinator::leads() { return state_->lead ? &*state_->lead : nullptr; }

const RunFacts& Coordinator::facts() const { return state_->facts; }
HostView Coordinator::view() const { return state_->host.view(); }

RunStatus Coordinator::status() const {
  static constexpr const char* kGroups[] = {"starting",  "running",  "restarting",
                                            "finishing", "stopping", "stopped"};
  State& s = *state_;
  const RunFacts& facts = s.facts;
  RunStatus status;
  status.node = s.place.self;
  status.nodes = s.place.workers.size();
  status.state = kGroups[static_cast<int>(facts.group)];
  status.target_world_size = facts.target();
  status.virtual_workers = facts.virtual_workers;
  status.replacements_left = facts.replacements_left;
  status.max_replacements = s.config.max_replacements;
  status.restarts = facts.restarts;
  status.max_restarts = s.config.max_restarts;
  for (const WorkerView& worker : s.host.view().workers)  // of this host, where another one leads
    status.committed = std::max(status.committed, worker.seen.applied);
  const auto tell = [&](auto& run) {
    status.world_size = run.members();
    status.committed = run.committed();
  };
  if (s.run) tell(*s.run);
  if (s.lead) tell(*s.lead);
  return status;
}

std::uint64_t Coordinator::next_deadline(std::uint64_t now_ns) const {
  std::uint64_t next = state_->host.next_deadline(now_ns + kAgentPause / 2);
  if (state_->run) next = state_->run->next_deadline(next);
  if (state_->lead) next = state_->lead->next_deadline(next);
  return std::max(next, now_ns);
}

}  // namespace lockstep::coord
