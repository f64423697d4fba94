// Which of two hosts that have lost each other goes on, where a lock file says so (--tie-break).
#include <unistd.h>

#include <utility>

#include "base/log.h"
#include "base/text.h"
#include "launcher/hosts/hosts_run.h"
#include "launcher/output/host_name.h"

namespace lockstep::launcher {

Status HostsRun::open_tie_break() {
  const std::string& path = around_.options.nodes.lock_directory;
  if (path.empty()) return {};
  TieBreak::Around around{around_.loop, *timers_,
                          [this](std::uint64_t set, bool has) {
                            if (file_.set == set) file_.is_own = has;
                            quorum_->agent().file_answered(set, has, now());
                            wake();
                            around_.look();
                          },
                          [this](const Error& error) {
                            if (head_->ended()) return;  // who has left is not seen any more
                            head_->leave(exit_code(error.kind), error.message);
                            around_.look();
                          }};
  tie_break_ = std::make_unique<TieBreak>(std::move(around));
  return tie_break_->open(
      LockDirectory(path, mesh_->party().incarnation,
                    for_terminal("run '" + around_.options.run_id + "', the launcher on " +
                                 host_name() + ", process " + std::to_string(::getpid()))));
}

void HostsRun::tell_who_goes_on() const {
  const std::size_t count = mesh_->formed().hosts.size();
  const std::string& path = around_.options.nodes.lock_directory;
  if (count > 2 && path.empty()) return;
  log_info((count == 2 ? "if the two nodes lose each other, "
                       : "once two nodes are left, if these lose each other, ") +
           (path.empty() ? "node 0 goes on, and node 1 ends with 75 (--tie-break lockfile=DIR lets "
                           "either of them go on)"
                         : "the one goes on that makes the lock file in '" + path +
                               "', and the other one ends with 75 (--tie-break)"));
}

void HostsRun::compare_directories() {
  if (!tie_break_) return;
  for (std::size_t host = 0; host < mesh_->formed().hosts.size(); ++host)
    if (!is_self(host))
      tie_break_->compare(mesh_->formed().hosts[host].incarnation, "node " + std::to_string(host));
}

void HostsRun::ask_for_file() {
  if (!tie_break_) return;
  const quorum::Agent& agent = quorum_->agent();
  std::optional<std::uint64_t> set = agent.wanted_file(now());
  if (!set && lead_) set = lead_->wanted_file();
  if (set && file_.set != *set)
    for (const quorum::Member& member : agent.facts().set.members)
      if (!is_self(member.host)) file_ = {*set, member.host};
  tie_break_->want(set, "node " + std::to_string(file_.other));
  head_->wait_alone(set && !agent.hears_leader(now()));
}

// Of that host's launcher: it is gone, has read that another set is in force, or has nothing left
// to decide.
bool HostsRun::asks_no_more(std::size_t host) const {
  const quorum::Agent& agent = quorum_->agent();
  const quorum::Member& member = quorum_->member(host);
  const auto& final = agent.facts().final;
  const bool knows_end = final && final->in_force &&
                         (agent.have_newest().contains(member) || agent.leader() == member);
  return ended_.contains(host) || agent.is_out(member) || knows_end;
}

// A lock file that nobody asks for any more: only the two of its set may. Who has been denied it,
// and ends, asks no more, and the other one has it.
std::optional<std::uint64_t> HostsRun::unneeded_file() const {
  if (!tie_break_ || !quorum_) return {};
  if (is_denied()) return file_.set;
  if (file_.is_own && asks_no_more(file_.other)) return file_.set;
  return {};
}

// And has not heard since that the other one goes on with it.
bool HostsRun::is_denied() const {
  const quorum::Agent& agent = quorum_->agent();
  return agent.is_denied_file() && agent.ending() &&
         agent.ending()->why == quorum::Ending::kNoQuorum;
}

}  // namespace lockstep::launcher
