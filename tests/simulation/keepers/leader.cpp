// What agents say to each other, and what the one that leads does.
#include <algorithm>
#include <iterator>
#include <utility>

#include "coord/keeper_wire.h"
#include "run.h"

namespace lockstep::simulation {

using coord::Standing;

void SimHost::open(std::size_t with) {
  if (leading_) leading_->talks[with].open(word());
  if (leader_ == with) talk_.open(coordinator_.view());
}

void SimHost::close(std::size_t with) {
  if (leading_) leading_->talks[with].close();
  if (leader_ == with) talk_.close();
}

void SimHost::hear_leader(std::size_t from, const std::string& frame) {
  if (leader_ != from) return;
  const auto heard = talk_.hear(frame);
  require(heard.ok(), "the leader is not understood");
  if (const auto* word = std::get_if<coord::RunWord>(&*heard))
    return coordinator_.note(word->pulses);
  hear(std::get<link::Round>(std::get<link::RoundMessage>(*heard)));
}

void SimHost::hear(const link::Round& round) {
  const link::Answer answer{.stamp = round.stamp,
                            .host = static_cast<link::HostIndex>(index_),
                            .have = {},
                            .other_tables = {},
                            .appended = {}};
  require(talk_.tell(answer).ok(), "an answer cannot be told");
}

void SimHost::hear_host(std::size_t from, const std::string& frame) {
  if (!leading_) return;
  const auto heard = leading_->talks[from].hear(frame);
  require(heard.ok(), "a host is not understood");
  if (const auto* said = std::get_if<link::RoundMessage>(&*heard)) {
    if (const auto* answer = std::get_if<link::Answer>(said)) run_.answer(index_, *answer);
    return;
  }
  const auto& word = std::get<coord::HostWord>(*heard);
  lead_turn([&](coord::RunLead& run) { run.hear(from, word, now()); });
}

void SimHost::hear(const quorum::Message& message) {
  quorum::Message heard = message;
  const bool old = message.role == quorum::Role::kLeads && message.term < agent_.term();
  if (old && run_.blunder == Blunder::kOldLeader) {
    heard.term = agent_.term();
    quorum::Facts facts = *message.facts;
    facts.stamp = {agent_.term(), agent_.facts().stamp.seq + 1};
    heard.facts = std::move(facts);
  }
  const bool waits = agent_.hear(heard, now());
  serve();
  if (waits && !is_lost && run_.has_connection(index_, heard.from.host))
    run_.say(index_, heard.from.host, agent_.say(heard.from, now()));
}

void SimHost::hear_refusal(const quorum::Member& by) {
  if (is_lost || run_.is_over()) return;
  agent_.refused(by, now());
  serve();
}

void SimHost::beat() {
  if (is_lost) return;
  agent_.pass(now());
  quorum::Members all;
  for (const auto& host : run_.hosts) all.insert(host->agent().self());
  if (index_ == 0) agent_.form(all, now());
  serve();
  say_all();
  if (leading_)
    for (link::LeaderTalk& talk : leading_->talks) talk.look(word());
}

void SimHost::say_all() {
  for (std::size_t h = 0; h < run_.hosts.size(); ++h)
    if (h != index_ && !is_lost && run_.has_connection(index_, h) &&
        agent_.speaks_to(run_.hosts[h]->agent().self(), now()))
      run_.say(index_, h, agent_.say(run_.hosts[h]->agent().self(), now()));
}

// What follows from what its agent knows now.
void SimHost::serve() {
  if (in_turn_ || is_lost || std::exchange(serves_, true)) return;
  follow_leader();
  carry_out();
  follow();
  go_on_leading();
  serves_ = false;
  const quorum::Set& set = agent_.facts().set;
  if (agent_.ending() || (set && !set.has(agent_.self()))) return run_.lose(index_);
  const auto says = std::tuple(agent_.term(), agent_.role(), agent_.vote(), agent_.leader(),
                               agent_.facts().stamp, agent_.in_force());
  if (std::exchange(said_, says) != says) say_all(), serve();
}

void SimHost::follow_leader() {
  const auto leader = agent_.leader();
  if (!leader || (leader_ == leader->host && leads_in_ == agent_.term())) return;
  talk_.close();
  leader_ = leader->host;
  leads_in_ = agent_.term();
  if (leader_ != index_ && run_.has_connection(index_, *leader_)) talk_.open(coordinator_.view());
}

// Its link closes pairs, which takes a moment.
void SimHost::carry_out() {
  if (newest_run_ != agent_.facts().run) {
    newest_run_ = agent_.facts().run;
    since_ = now();
  }
  const Stamp stamp = agent_.facts().stamp;
  if (agent_.acknowledged() == stamp || carrying_out_ == stamp) return;
  carrying_out_ = stamp;
  run_.clock.after(run_.random.between(kMicrosecond, 2 * kMillisecond), [this, stamp] {
    if (is_lost || run_.is_over()) return;
    agent_.acknowledge(stamp, now());
    serve();
    say_all();
  });
}

void SimHost::follow() {
  const quorum::Facts& facts = agent_.facts();
  if (!facts.set || agent_.in_force() != facts.stamp || facts.stamp <= followed_) return;
  followed_ = facts.stamp;
  if (facts.run.empty() || std::exchange(followed_run_, facts.run) == facts.run) return;
  const auto state = coord::decode_run_state(facts.run);
  require(state.ok(), "a state is not understood");
  turn([&](coord::Coordinator& it) { return it.follow(*state, now()); });
  if (run_.blunder != Blunder::kHeard) talk_.forget(state->facts.hosts[index_].heard);
}

void SimHost::lead() {
  const std::string& run = agent_.facts().run;
  coord::RunState taken =
      run.empty() ? coord::first_state(run_.shape.workers, now()) : *coord::decode_run_state(run);
  if (!run.empty()) run_.see("elections");
  if (!taken.replacements.empty()) run_.see("elections after replacements");
  if (run_.blunder == Blunder::kBudgets) taken.replacements = {}, taken.restarts = {};
  if (run_.blunder == Blunder::kOrders) taken.orders = {};
  if (run_.blunder == Blunder::kIncidents) taken.incidents = {};
  if (run_.blunder == Blunder::kRanks)
    for (coord::HostState& host : taken.hosts) std::ranges::reverse(host.ranks);
  if (run_.blunder == Blunder::kHeard)
    for (coord::HostFacts& host : taken.facts.hosts) host.heard -= host.heard > 0 ? 1 : 0;
  leading_.emplace();
  leading_->term = agent_.term();
  leading_->start = taken.facts.group == coord::Group::kRestarting ? -1 : taken.facts.restarts;
  leading_->excludes_at = now() + run_.random.between(0, 4) * kSecond / 2;
  coordinator_.lead(taken, run.empty() ? now() : since_);
  for (std::size_t h = 0; h < run_.hosts.size(); ++h) {
    leading_->talks.emplace_back(
        static_cast<link::HostIndex>(h),
        [this, h](const std::string& frame) { run_.send(index_, h, false, frame); });
    if (run_.has_connection(index_, h)) leading_->talks[h].open(word());
  }
  const quorum::Facts& facts = agent_.facts();
  for (std::size_t h = 0; h < run_.hosts.size(); ++h) {
    const quorum::Member& member = run_.hosts[h]->agent().self();
    if (!facts.set.has(member) && !facts.change.has(member))
      coordinator_.leads()->lose_host(h, "it was lost before the run had begun", now());
  }
  talk_.close();
  talk_.open(coordinator_.view());
}

void SimHost::lead_no_more() {
  run_.see("leaders that lead no more");
  leading_.reset();
  coordinator_.lead_no_more();
}

void SimHost::lead_turn(const std::function<void(coord::RunLead&)>& what) {
  if (!leading_ || is_lost) return;
  what(*coordinator_.leads());
  serve();
}

void SimHost::tell(const link::Round& round) {
  for (const link::HostIndex host : round.set)
    require(leading_->talks[host].tell(round).ok(), "a round cannot be told");
}

// Whoever is silent, if the others are a quorum: without those, too, that are given up, and may be
// heard again.
void SimHost::exclude(coord::RunLead& run) {
  const quorum::Set& set = agent_.facts().set;
  const quorum::Members silent = agent_.silent(now());
  quorum::Members keep;
  if (!run.has_decided())
    for (const quorum::Member& one : set.members)
      if (!silent.contains(one) && leading_->given_up.erase(one.host) != 0) run.keep_host(one.host);
  for (const quorum::Member& one : set.members)
    if (!silent.contains(one) && !leading_->given_up.contains(one.host)) keep.insert(one);
  if (silent.empty() || now() < leading_->excludes_at) return;
  if (agent_.facts().change || !agent_.can_decide(keep, now())) return;
  for (const quorum::Member& gone : silent)
    if (leading_->given_up.insert(gone.host).second)
      run.lose_host(gone.host, "its agent is silent", now());
}

// In one stamp with the change of the set that it names. True: it is written.
bool SimHost::write() {
  const quorum::Facts& facts = agent_.facts();
  quorum::Members stay;
  bool changes = false;
  for (const quorum::Member& member : facts.set.members) {
    const bool out = leading_->state->facts.hosts[member.host].standing == Standing::kOut;
    if (!out) stay.insert(member);
    changes = changes || (out && (!facts.change || facts.change.has(member)));
  }
  const std::string run = coord::encode(*leading_->state);
  return changes ? agent_.decide(stay, run, now()) : agent_.write(run, now());
}

void SimHost::go_on_leading() {
  const bool leads = agent_.leads(now()) && agent_.facts().set;
  if (leading_ && (!leads || leading_->term != agent_.term())) lead_no_more();
  if (!leads) return;
  if (!leading_) lead();
  coord::RunLead& run = *coordinator_.leads();
  exclude(run);
  const auto pulses = coord::pulses_of(run.facts());
  if (std::exchange(leading_->told, pulses) != pulses)
    for (link::LeaderTalk& talk : leading_->talks) talk.look(word());
  run.pass(now());
  if (!leading_->state) leading_->state = run.write();
  if (leading_->state && !leading_->written && write()) {
    leading_->written = agent_.facts().stamp;
    run_.written();
  }
  begin_rounds();
  if (!leading_ || !leading_->written || agent_.in_force() < *leading_->written) return;
  leading_->written.reset();
  const coord::RunState known = *std::exchange(leading_->state, std::nullopt);
  run_.know(known);
  const bool restarts = known.facts.group == coord::Group::kRestarting;
  if (leading_ && !restarts &&
      std::exchange(leading_->start, known.facts.restarts) != known.facts.restarts)
    forget_rounds();  // the group has started anew
  coord::RunLead::Follows follows = run.in_force();
  obey(follows.actions);
  follow();  // first, then rounds
  if (leading_) {
    std::ranges::move(follows.take_out, std::back_inserter(leading_->take_out));
    std::ranges::move(follows.bring, std::back_inserter(leading_->bring));
  }
  begin_rounds();
  said_ = {};  // once more
}

void SimHost::forget_rounds() {
  leading_->take_out.clear();
  leading_->bring.clear();
  run_.forget_rounds();
}

void SimHost::begin_rounds() {
  if (!leading_ || !coordinator_.leads()->may_begin_rounds(coordinator_.facts())) return;
  for (const auto& [stay, of_set] : std::exchange(leading_->take_out, {}))
    if (leading_) run_.take_out(index_, stay, of_set);
  if (!leading_) return;
  for (const Stay stay : std::exchange(leading_->bring, {}))
    if (leading_) run_.bring(index_, stay);
}

}  // namespace lockstep::simulation
