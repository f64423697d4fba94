#include "coord/run_lead.h"

#include <algorithm>
#include <iterator>

#include "coord/head.h"

namespace lockstep::coord {
namespace {

// A host has a moment's words, and obeys in a moment: whoever does not is broken. All orders are in
// the state, which has to fit into a frame (control/connection.h).
constexpr std::size_t kMostWaiting = 4096, kMostOrders = 384;
constexpr std::size_t kMostOrderBytes = std::size_t{3} << 17;

std::vector<std::uint32_t> workers_of(const RunState& state) {
  std::vector<std::uint32_t> workers;
  for (const HostFacts& host : state.facts.hosts) workers.push_back(host.asked);
  return workers;
}

// Between two decisions, for each host: less than it costs to tell it of one.
constexpr std::uint64_t kPace = 20'000;

// Without what changes all the time, and what hosts obey: new orders are in the count of them.
std::string essence(RunState state) {
  state.now = state.applied = state.furthest = state.clock.time.ran = 0;
  state.orders.clear();
  for (HostFacts& host : state.facts.hosts) host.goes_on = false, host.waits = {};
  return encode(state);
}

}  // namespace

std::vector<Pulse> pulses_of(const RunFacts& facts) {
  constexpr int kEnough = 2;  // one of them is another host
  std::vector<Pulse> pulses;
  int go_on = 0;
  std::map<Txn, int> wait;
  for (const HostFacts& host : facts.hosts) {
    if (host.standing != Standing::kHere) continue;
    Pulse pulse{.host = host.stay.host};
    if (host.goes_on && go_on < kEnough) ++go_on, pulse.goes_on = true;
    if (host.waits.items > 0 && ++wait[host.waits.txn] <= kEnough) pulse.waits = host.waits;
    if (pulse.goes_on || pulse.waits.items > 0) pulses.push_back(pulse);
  }
  return pulses;
}

void set(RunFacts& facts, const std::vector<Pulse>& pulses) {
  for (HostFacts& host : facts.hosts) host.goes_on = false, host.waits = {};
  for (const Pulse& pulse : pulses) {
    if (pulse.host >= facts.hosts.size()) continue;
    facts.hosts[pulse.host].goes_on = pulse.goes_on;
    facts.hosts[pulse.host].waits = pulse.waits;
  }
}

RunLead::RunLead(const Config& config, const RunState& state, std::uint64_t as_of)
    : pace_(kPace * state.hosts.size()),
      run_(
          config, workers_of(state), facts_, turn_,
          [this](const auto& hosts, const Order& order) { give(hosts, order); },
          [this](Stay stay, bool of_set) { held_.take_out.emplace_back(stay, of_set); },
          [this](Stay stay) { held_.bring.push_back(stay); }),
      ordered_(state.ordered),
      obeyed_(state.hosts.size()),
      waiting_(state.hosts.size()) {
  turn_.now = as_of;
  for (const GivenOrder& given : state.orders)
    orders_.push_back({given, encode(given.order).size()});
  run_.take_over(state, as_of);
}

// One that goes to several is there once.
void RunLead::give(const std::vector<HostIndex>& hosts, const Order& order) {
  GivenOrder given{++ordered_, order, hosts};
  std::ranges::sort(given.to);
  orders_.push_back({std::move(given), encode(order).size()});
}

void RunLead::take(std::uint64_t now, auto what) {
  const std::uint64_t gap = now - turn_.now;
  turn_.now = now;
  if (facts_.group == Group::kStopped) return;
  if (gap > kAgentPause && begun_) run_.forget_pause(gap);
  what();
  due_ = true;
}

void RunLead::pass(std::uint64_t now) {
  if (now < decided_at_ + pace_) return;
  take(now, [] {});
  due_ = false;
  may_write_ = true;
  decided_at_ = now;
  if (facts_.group != Group::kStopped) decide();
}

void RunLead::decide() {
  if (!begun_ && may_begin()) begin();
  if (!begun_) return;
  while (run_.fire_timer()) {
  }
  run_.look();
  run_.write_tables();
  lose_who_obeys_nothing();
  drop_what_is_obeyed();
  std::ranges::move(std::exchange(turn_.actions, {}), std::back_inserter(held_.actions));
}

void RunLead::lose_who_obeys_nothing() {
  std::vector<std::size_t> count(obeyed_.size()), bytes(obeyed_.size());
  for (const Pending& one : orders_)
    for (const HostIndex host : one.given.to)
      if (has_to_obey(host, one.given.number) &&
          (++count[host] >= kMostOrders || (bytes[host] += one.bytes) >= kMostOrderBytes))
        run_.lose_host(host, "it does nothing of the last " + std::to_string(count[host]) +
                                 " things that it was told to do");
}

// What a lost host was told nobody does any more.
bool RunLead::has_to_obey(HostIndex host, std::uint64_t number) const {
  return obeyed_[host] < number && facts_.hosts[host].standing != Standing::kOut;
}

void RunLead::drop_what_is_obeyed() {
  std::erase_if(orders_, [this](const Pending& one) {
    return std::ranges::none_of(
        one.given.to, [&](HostIndex host) { return has_to_obey(host, one.given.number); });
  });
}

void RunLead::hear(std::size_t host, const HostWord& word, std::uint64_t now) {
  if (word.view.obeyed > ordered_)
    return lose_host(host, "it says that it has obeyed what it was never told", now);
  obeyed_[host] = std::max(obeyed_[host], word.view.obeyed);
  take(now, [&] {
    if (begun_) {
      run_.look_at(host, word.view);
      run_.hear(host, word.view, word.report);
    } else {
      wait(host, word);
    }
  });
}

// What is next: a view tells of its host's reports, which are to be heard before it. Of views alone
// the newest counts.
void RunLead::wait(std::size_t host, const HostWord& word) {
  const auto is_view = [](const HostWord& one) {
    return std::holds_alternative<report::Seen>(one.report);
  };
  std::deque<HostWord>& words = waiting_[host];
  const std::uint64_t heard = words.empty() ? facts_.hosts[host].heard : words.back().view.reported;
  if (word.view.reported != heard + (is_view(word) ? 0 : 1)) return;
  if (words.size() >= kMostWaiting) return;
  if (!words.empty() && is_view(words.back()) && is_view(word)) words.pop_back();
  words.push_back(word);
}

void RunLead::lose_host(std::size_t host, const std::string& why, std::uint64_t now) {
  take(now, [&] { begun_ ? run_.lose_host(host, why) : void(lost_.emplace(host, why)); });
}

// A host that a round was to take out of the tables may be lost since: then another one follows.
void RunLead::taken_out(const std::vector<std::pair<Stay, bool>>& out, bool any_table,
                        std::uint64_t now) {
  take(now, [&] {
    std::vector<Stay> stays;
    for (const auto& [stay, of_set] : out)
      if (of_set || facts_.hosts[stay.host].standing != Standing::kOut) stays.push_back(stay);
    if (begun_) run_.taken_out(stays, any_table);
  });
}

void RunLead::have_come(const std::vector<Stay>& stays, std::uint64_t now) {
  take(now, [&] {
    if (begun_) run_.have_come(stays);
  });
}

void RunLead::on(const event::Scale& scale, std::uint64_t now) {
  take(now, [&] { run_.on(scale); });
}

std::uint64_t RunLead::next_deadline(std::uint64_t until) {
  const std::uint64_t next = decided_at_ + pace_;
  if (due_) return std::min(until, next);
  return begun_ ? std::max(run_.next_deadline(until), std::min(until, next)) : until;
}

bool RunLead::may_begin() const {
  for (std::size_t h = 0; h < waiting_.size(); ++h)
    if (facts_.hosts[h].standing != Standing::kOut && waiting_[h].empty() && !lost_.contains(h))
      return false;
  return true;
}

void RunLead::begin() {
  begun_ = true;
  for (std::size_t h = 0; h < waiting_.size(); ++h)
    if (!waiting_[h].empty()) run_.meet(h, waiting_[h].front().view);
  run_.go_on();
  for (std::size_t h = 0; h < waiting_.size(); ++h)
    for (const HostWord& word : std::exchange(waiting_[h], {})) {
      run_.look_at(h, word.view);
      run_.hear(h, word.view, word.report);
    }
  for (const auto& [host, why] : std::exchange(lost_, {})) run_.lose_host(host, why);
}

// Of what changes all the time it has what is told of it, too.
RunState RunLead::state() const {
  RunState state = run_.state();
  set(state.facts, pulses_of(state.facts));
  for (const Pending& one : orders_) state.orders.push_back(one.given);
  return state;
}

std::optional<RunState> RunLead::write() {
  if (is_written_ || !std::exchange(may_write_, false)) return std::nullopt;
  RunState now = state();
  std::string what = essence(now);
  const bool is_news =
      written_ != what || !held_.actions.empty() || !held_.take_out.empty() || !held_.bring.empty();
  if (!is_news) return std::nullopt;
  written_ = std::move(what);
  written_with_ = std::exchange(held_, {});
  // Where the group starts anew no host of before is in its tables, and none needs a round.
  std::erase_if(written_with_.take_out, [this](const auto& out) { return !run_.goes(out.first); });
  std::erase_if(written_with_.bring, [this](Stay stay) { return !run_.comes(stay); });
  is_written_ = true;
  return now;
}

RunLead::Follows RunLead::in_force() {
  is_written_ = false;
  return std::exchange(written_with_, {});
}

}  // namespace lockstep::coord
