// Which hosts are in the tables: they go when nobody of them could go on, and come back as new
// stays.
#include <algorithm>
#include <utility>

#include "coord/run_keeper.h"

namespace lockstep::coord {

void RunKeeper::look_at_hosts() {
  if (!facts_.is_training()) return;
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    const HostFacts& facts = facts_.hosts[h];
    if (facts.standing == Standing::kHere && has_nobody(h)) take_out(h);
    if (facts.standing == Standing::kForming && !hosts_[h].ranks.empty()) bring(h);
    const bool is_over = facts.standing == Standing::kGoing && hosts_[h].off_tables;
    if (!is_over || is_taking_out() || facts_.in_order || facts.target == 0 ||
        !hosts_[h].is_current() || !hosts_[h].view.is_empty())
      continue;
    begin(h);
    if (proposal_) tell(h, order::Propose{*proposal_, "its host comes back"});
  }
  finish_if_all_have();
}

// In a round a board stays as it is, also one that is out of the tables: what it has answered it is
// to send.
bool RunKeeper::is_taking_out() const {
  return std::ranges::any_of(facts_.hosts, [this](const auto& host) { return goes(host.stay); });
}

bool RunKeeper::goes(Stay stay) const {
  const HostFacts& facts = facts_.hosts[stay.host];
  return facts.stay == stay && facts.standing >= Standing::kGoing && !hosts_[stay.host].off_tables;
}

bool RunKeeper::comes(Stay stay) const {
  const HostFacts& facts = facts_.hosts[stay.host];
  const RunHost& host = hosts_[stay.host];
  return facts.stay == stay && facts.standing == Standing::kForming && host.comes && !host.has_come;
}

bool RunKeeper::have_boards(const RunFacts& in_force) const {
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    if (in_force.hosts[h].standing != Standing::kOut && !hosts_[h].is_of_this_board()) return false;
  return true;
}

// Newcomers of a host that has had members take their state from these, and cannot any more. Where
// the run stops in order members end well, and what the others need of the host is there.
bool RunKeeper::has_nobody(std::size_t host) const {
  const RunHost& known = hosts_[host];
  const bool comes = !known.was_member && known.view.any([](const WorkerView& worker) {
    return worker.stage == Stage::kReady && !worker.dismissed;
  });
  return !comes && !known.view.stopped && !anybody_holds_state(host);
}

// A table that lists it may be out, whether anybody has seen it or not.
void RunKeeper::take_out(std::size_t host) {
  const Stay stay = facts_.hosts[host].stay;
  turn_.print(action::Severity::kWarning, "node " + std::to_string(host) +
                                              " has no worker left that could go on; the others "
                                              "take over what it owned");
  close(host);
  if (take_out_) take_out_(stay, false);
}

void RunKeeper::close(std::size_t host) {
  facts_.hosts[host].standing = Standing::kGoing;
  hosts_[host].ranks.clear();
  hosts_[host].orphaned_since.reset();
  tell(host, order::Kill{"its host is out of the tables"});
}

// Who has been in no table has taken none along: the first one may have been made since.
void RunKeeper::taken_out(const std::vector<Stay>& stays, bool any_table) {
  bool was_listed = false;
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    if (std::find(stays.begin(), stays.end(), facts_.hosts[h].stay) != stays.end() &&
        facts_.hosts[h].standing >= Standing::kGoing) {
      hosts_[h].off_tables = true;
      was_listed = was_listed || hosts_[h].has_come;
    }
  if (!any_table && was_listed && facts_.is_training()) write_first_table_again();
}

void RunKeeper::begin(std::size_t host) {
  facts_.hosts[host].standing = Standing::kForming;
  hosts_[host].begin(ordered_ + 1);
  tell(host, order::Begin{});
}

// Its first worker is ready, and its board has the run's plan.
void RunKeeper::bring(std::size_t host) {
  RunHost& known = hosts_[host];
  if (known.has_come || facts_.group != Group::kRunning || std::exchange(known.comes, true)) return;
  if (bring_) bring_(facts_.hosts[host].stay);
}

void RunKeeper::have_come(const std::vector<Stay>& stays) {
  for (std::size_t h = 0; h < hosts_.size(); ++h)
    if (hosts_[h].comes && std::ranges::find(stays, facts_.hosts[h].stay) != stays.end())
      hosts_[h].has_come = true;
}

Rank RunKeeper::rank_of(WorkerUid uid) const {
  if (!proposal_) return {};
  const auto& members = proposal_->members;
  const auto found = std::ranges::find(members, uid, &Member::uid);
  return Rank(found == members.end() ? 0 : static_cast<int>(found - members.begin()));
}

void RunKeeper::lose_host(std::size_t host, const std::string& why) {
  HostFacts& facts = facts_.hosts[host];
  if (facts.standing == Standing::kOut) return;
  const std::string cause = "lost with node " + std::to_string(host) + " (" + why + ")";
  for (const WorkerView& worker : hosts_[host].view.workers) {
    if (!works() || (!worker.holds_state() && !worker.proposed) || worker.dismissed) continue;
    incidents_.add({worker.uid, rank_of(worker.uid), cause}, interrupted_by(worker), true, 0,
                   turn_.now);
  }
  // Of one that has led before, and is not met: those that it had in the tables.
  if (hosts_[host].view.now == 0 && works() && proposal_)
    for (const WorkerUid uid : hosts_[host].ranks) {
      if (!proposal_->has(uid)) continue;
      WorkerView member;
      member.proposed = true;
      incidents_.add({uid, rank_of(uid), cause}, interrupted_by(member), true, 0, turn_.now);
    }
  facts.standing = Standing::kOut;
  facts.wanted = facts.target = 0;
  const bool had_come = hosts_[host].has_come;
  hosts_[host].begin(ordered_ + 1);
  hosts_[host].has_come = had_come;
  turn_.print(action::Severity::kWarning,
              "node " + std::to_string(host) + " is lost (" + why + "); the others go on");
  if (take_out_) take_out_(facts.stay, true);
}

// The last host that has members: the first has the tables to write. It serves as long as somebody
// elsewhere waits for a state.
void RunKeeper::choose_server() {
  std::optional<std::size_t> server;
  bool waits = false;
  for (std::size_t h = 0; h < hosts_.size(); ++h) {
    const Standing standing = facts_.hosts[h].standing;
    if (standing != Standing::kForming && standing != Standing::kHere) continue;
    waits = waits || (hosts_[h].has_come && !hosts_[h].was_member && !hosts_[h].ranks.empty());
    if (hosts_[h].was_member && facts_.hosts[h].goes_on) server = h;
  }
  if (!waits) server.reset();
  if (server == server_) return;
  if (server_) tell(*server_, order::Serve{false});
  server_ = server;
  if (server_) tell(*server_, order::Serve{true});
}

}  // namespace lockstep::coord
