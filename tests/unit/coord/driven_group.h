// A head with workers that exist in a test's words only, in virtual time.
#pragma once

#include <csignal>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "coord/membership.h"
#include "coord/plain/one_host.h"
#include "unit/coord/times.h"

namespace lockstep::coord {

inline constexpr ExitStatus kKilled{-1, SIGKILL};

// Of a program without transactions: plain, or a loop over a process group (whose DrivenGroup has
// `elastic` false).
inline std::unique_ptr<Head> fixed_head(bool plain, int workers, int max_restarts = 0) {
  const std::vector<int> signals{SIGTERM, SIGINT, SIGHUP, SIGQUIT, SIGUSR1};
  if (plain)
    return std::make_unique<plain::OneHost>(
        plain::HostConfig{.workers = workers, .stop_signals = signals}, max_restarts);
  return std::make_unique<Coordinator>(Config{.workers = static_cast<std::uint32_t>(workers),
                                              .max_restarts = max_restarts,
                                              .stop_signals = signals,
                                              .timing = {}});
}

class DrivenGroup {
 public:
  static constexpr std::uint32_t kShares = 8;

  explicit DrivenGroup(std::unique_ptr<Head> head) : head_(std::move(head)) {
    feed(event::Start{});
  }
  explicit DrivenGroup(const Config& config) : DrivenGroup(std::make_unique<Coordinator>(config)) {}

  // Until all are ready and the first table is out.
  void start() {
    feed(event::ZygoteReady{});
    while (const auto spawn = take_spawn()) greet(spawn->uid);
    for (const auto& [uid, seen] : workers) feed(event::Ready{uid, Txn(0), 0, run_time});
  }
  void greet(WorkerUid uid) {
    feed(event::Forked{uid, 100});
    feed(event::Hello{uid});
    feed(event::Described{uid, kShares, elastic, std::nullopt});
    workers[uid].uid = uid;
  }
  void exit(WorkerUid uid, ExitStatus status) {
    observe();
    workers.erase(uid);
    feed(event::Exited{uid, status});
  }
  void feed(const Event& event) {
    for (Action& action : head_->handle(event, now)) {
      if (const auto* print = std::get_if<action::Print>(&action.what)) {
        const bool policy = print->text.ends_with("(--max-restarts)");  // each run's first
        (policy ? policies : printed) += print->text + "\n";
      }
      if (const auto* table = std::get_if<action::WriteTable>(&action.what)) table_ = table->table;
      if (const auto* stop = std::get_if<action::Stop>(&action.what)) exit_code = stop->exit_code;
      actions.push_back(std::move(action));
    }
    if (!head_->looks_for_left()) return;
    head_->nothing_is_left();  // workers have no helpers here
    feed(event::Tick{});
  }
  // Time passes, with a tick every 10 ms (in minutes every 200 ms) and whatever `meanwhile` does.
  void pass(
      std::uint64_t span, const std::function<void()>& meanwhile = [] {}) {
    for (const std::uint64_t end = now + span; now < end && !exit_code;) {
      now += span < 100 * kSecond ? 10 * kMillisecond : 200 * kMillisecond;
      observe();
      feed(event::Tick{});
      meanwhile();
    }
  }
  // The newest table of the same members.
  void be_at(Txn txn) { table_->txn = txn; }
  void observe() {
    event::Progress report;
    for (const auto& [uid, seen] : workers) report.workers.push_back(seen);
    if (table_) report.tables.push_back(*table_);
    feed(report);
  }

  // The oldest action of this kind that no one has taken yet.
  template <class What>
  std::optional<What> take() {
    for (auto it = actions.begin(); it != actions.end(); ++it) {
      const auto* what = std::get_if<What>(&it->what);
      if (what == nullptr) continue;
      const What taken = *what;
      actions.erase(it);
      return taken;
    }
    return std::nullopt;
  }
  std::optional<action::Spawn> take_spawn() { return take<action::Spawn>(); }
  bool killed(WorkerUid uid) const {
    for (const Action& action : actions)
      if (const auto* kill = std::get_if<action::Kill>(&action.what); kill && kill->uid == uid)
        return true;
    return false;
  }
  RunStatus status() const { return head_->status(); }

  bool elastic = true;  // what its workers say they are
  RunTime run_time;     // what they say of the run's
  std::uint64_t now = kSecond;
  std::map<WorkerUid, WorkerProgress> workers;  // alive, as the board shows them
  Actions actions;
  std::string printed, policies;
  std::optional<int> exit_code;

 private:
  std::unique_ptr<Head> head_;
  std::optional<Table> table_;
};

}  // namespace lockstep::coord
