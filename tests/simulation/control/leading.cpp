// What the agent that leads does, and rounds.
#include <algorithm>
#include <utility>

#include "coord/keeper_wire.h"
#include "host.h"

namespace lockstep::simulation {

using coord::Standing;

std::vector<coord::Pulse> ControlCluster::pulses(Host& host) const {
  return coord::pulses_of(host.coordinator->leads()->facts());
}

void ControlCluster::lead(Host& host) {
  const std::string& run = host.agent->facts().run;
  host.leading.emplace();
  host.leading->term = host.agent->term();
  host.coordinator->lead(run.empty() ? coord::first_state(workers_, clock_.now()) : decoded(run),
                         clock_.now());
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    host.leading->talks.emplace_back(
        static_cast<link::HostIndex>(h),
        [this, &host, h](const std::string& frame) { send(host.index, h, frame, false); });
    if (hosts_[h]->is_alive || run.empty()) host.leading->talks[h].open({});
  }
  host.talk->close();
  host.talk->open(host.coordinator->view());
}

void ControlCluster::lead_no_more(Host& host) {
  host.leading.reset();
  host.coordinator->lead_no_more();
}

// Whoever is silent, if the others are a quorum.
void ControlCluster::exclude(Host& host) {
  const quorum::Set& set = host.agent->facts().set;
  const quorum::Members silent = host.agent->silent(clock_.now());
  if (!set || silent.empty() || host.agent->facts().change) return;
  quorum::Members keep(set.members.begin(), set.members.end());
  for (const quorum::Member& gone : silent) keep.erase(gone);
  if (!host.agent->can_decide(keep, clock_.now())) return;
  for (const quorum::Member& gone : silent)
    host.coordinator->leads()->lose_host(gone.host, "its agent is silent", clock_.now());
}

// In one stamp with the change of the set that it names. True: it is written.
bool ControlCluster::write(Host& host) {
  const quorum::Facts& facts = host.agent->facts();
  quorum::Members stay;
  bool changes = false;
  for (const quorum::Member& member : facts.set.members) {
    const bool out = host.leading->state->facts.hosts[member.host].standing == Standing::kOut;
    if (!out) stay.insert(member);
    changes = changes || (out && (!facts.change || facts.change.has(member)));
  }
  const std::string run = coord::encode(*host.leading->state);
  return changes ? host.agent->decide(stay, run, clock_.now())
                 : host.agent->write(run, clock_.now());
}

void ControlCluster::go_on_leading(Host& host) {
  const bool leads = host.agent->leads(clock_.now()) && host.agent->facts().set;
  if (host.leading && (!leads || host.leading->term != host.agent->term())) lead_no_more(host);
  if (!leads) return;
  if (!host.leading) lead(host);
  coord::RunLead& run = *host.coordinator->leads();
  run.pass(clock_.now());
  const std::uint64_t next = run.next_deadline(clock_.now() + 50 * kMillisecond);
  if (next < clock_.now() + 50 * kMillisecond && host.wakes_at < clock_.now()) {
    host.wakes_at = std::max(next, clock_.now() + kMicrosecond);
    clock_.after(host.wakes_at - clock_.now(), [this, &host] { serve(host); });
  }
  if (!host.leading->state) host.leading->state = run.write();
  if (host.leading->state && !host.leading->written && write(host))
    host.leading->written = host.agent->facts().stamp;
  if (!host.leading->written || host.agent->in_force() < *host.leading->written) {
    lead_rounds(host);
    return;
  }
  host.leading->written.reset();
  host.leading->state.reset();
  coord::RunLead::Follows follows = run.in_force();
  obey(host, follows.actions);
  follow(host);
  for (const auto& out : follows.take_out) host.leading->to_take_out.push_back(out);
  lead_rounds(host);
  host.said = {};  // once more
}

void ControlCluster::begin_rounds(Host& host) {
  std::vector<Stay> stays;
  for (const coord::HostFacts& one : host.coordinator->facts().hosts)
    if (one.standing != Standing::kOut ||
        std::ranges::find(host.leading->to_take_out, one.stay, &std::pair<Stay, bool>::first) !=
            host.leading->to_take_out.end())
      stays.push_back(one.stay);
  host.leading->keeper.emplace(boards_.plan, host.leading->term, stays);
}

// As launcher/hosts/ has it.
void ControlCluster::lead_rounds(Host& host) {
  Leading& leading = *host.leading;
  if (leading.to_take_out.empty() && !leading.keeper) return;
  if (!leading.keeper) begin_rounds(host);
  bool begins = false;
  if (!leading.to_take_out.empty()) leading.keeper->know(*host.board);
  for (const auto& [stay, of_set] : std::exchange(leading.to_take_out, {})) {
    of_set ? leading.keeper->lose_host(stay) : leading.keeper->lose_workers(stay);
    leading.going.emplace_back(stay, of_set);
    begins = true;
  }
  if (begins) tell_round(host);
  if (!leading.filled && leading.keeper->is_answered()) {
    leading.filled = true;
    for (const link::Fills& fills : leading.keeper->fills())
      require(leading.talks[fills.host].tell(fills).ok(), "fills are too long");
  }
  if (leading.told_end || !leading.filled || !leading.keeper->round().out.empty()) return;
  leading.told_end = true;
  host.coordinator->leads()->taken_out(std::exchange(leading.going, {}), leading.any_table,
                                       clock_.now());
  serve(host);
}

void ControlCluster::tell_round(Host& host) {
  Leading& leading = *host.leading;
  leading.filled = leading.told_end = leading.any_table = false;
  const link::Round& round = leading.keeper->round();
  for (const link::HostIndex to : round.set)
    require(leading.talks[to].tell(round).ok(), "a round is too long");
}

void ControlCluster::answered(Host& host, const link::RoundMessage& message) {
  Leading& leading = *host.leading;
  if (!leading.keeper) return;
  if (const auto* answer = std::get_if<link::Answer>(&message)) {
    if (leading.keeper->hear(*answer)) leading.any_table = leading.any_table || answer->has_table();
  } else if (const auto* appended = std::get_if<link::Appended>(&message)) {
    leading.keeper->hear(*appended);
  }
}

// Its link closes what the round closes, and fills come, a moment later.
void ControlCluster::hear_round(Host& host, const link::RoundMessage& message) {
  if (const auto* round = std::get_if<link::Round>(&message)) {
    if (!host.rounds->hear(*round)) return;
    clock_.after(200 * kMicrosecond, [this, &host, stamp = round->stamp] {
      host.closed = stamp;
      serve(host);
    });
  }
  const auto* fills = std::get_if<link::Fills>(&message);
  if (fills == nullptr || !host.rounds->hear(*fills)) return;
  clock_.after(kMillisecond, [this, &host, get = fills->get] {
    host.board->fill(get);
    serve(host);
  });
}

void ControlCluster::go_on_with_rounds(Host& host) {
  if (!host.closed) return;
  if (const auto answer = host.rounds->answer(*host.board, boards_.plan, *host.closed))
    require(host.talk->tell(*answer).ok(), "an answer is too long");
  const auto append = host.rounds->append(*host.board);
  if (!append) return;
  turn(host, [&](coord::Coordinator& it) { return it.append(append->hosts, clock_.now()); });
  require(host.talk->tell(append->told).ok(), "what is appended is too long");
}

}  // namespace lockstep::simulation
