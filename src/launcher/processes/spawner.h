// Starts workers: by a request to the zygote, or by fork + exec. Keeps one zygote alive for
// programs that link Lockstep.
//
// Errors: what cannot be started comes back as event::SpawnFailed or event::ZygoteLost. Threads:
// the main thread.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <functional>
#include <map>
#include <optional>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "coord/actions.h"
#include "coord/events.h"
#include "coord/messages.h"
#include "launcher/options/options.h"
#include "launcher/output/logs.h"
#include "launcher/processes/process.h"
#include "launcher/processes/spare_zygote.h"
#include "launcher/processes/spawned.h"
#include "launcher/processes/worker_env.h"
#include "launcher/program/program.h"

namespace lockstep::launcher {

// What a worker is to know of itself.
coord::message::ForkRequest fork_request(const coord::action::Spawn& spawn,
                                         const std::string& run_id, const Variables& variables);

class Spawner {
 public:
  using Feed = std::function<void(coord::Event)>;

  // All references must outlive the object. `spawned`: of a run of lockstep::spawn().
  Spawner(const LaunchOptions& options, const Program& program, std::optional<Spawned> spawned,
          Loop& loop, Feed feed);
  ~Spawner();
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  bool plain() const { return !program_.linked; }
  // The worker is in the launcher's process group: what the terminal sends reaches both.
  bool shares_terminal() const { return terminal_ == TerminalUse::kShares; }
  bool is_spawned() const { return spawned_.has_value(); }  // by lockstep::spawn()
  bool uses_zygote() const {
    return program_.linked && options_.start_method != StartMethod::kExec;
  }

  // Starts the worker; event Forked or SpawnFailed follows. Returns the agent's end of its socket
  // (none for plain programs). `board`: the memfd, -1 for plain programs.
  UniqueFd start(const coord::action::Spawn& spawn, const Variables& variables, int board,
                 const Outputs& outputs);

  // On several nodes. `lock`: a descriptor that plain programs inherit; -1: none. `pid_slot`: the
  // next one's (SpawnSpec).
  void on_node(int lock, std::atomic<pid_t>* pid_slot) {
    inherited_ = lock;
    pid_slot_ = pid_slot;
  }

  // Kills the old zygote, if any, and starts another. In a run of spawn() takes the one that is
  // there, its spare later.
  void restart_zygote();
  // True if the event was the zygote's.
  bool zygote_event(const ChildEvent& event);
  // Lets the zygote go: it ends itself, at once.
  void close();
  pid_t zygote_pid() const { return zygote_pid_; }
  // The zygote, or its spare.
  bool keeps(pid_t pid) const { return pid == zygote_pid_ || pid == spare_.pid(); }

 private:
  UniqueFd fork_worker(const coord::action::Spawn& spawn, const Variables& variables, int board,
                       const Outputs& outputs);
  UniqueFd execute_worker(const coord::action::Spawn& spawn, const Variables& variables, int board,
                          const Outputs& outputs);
  void execute_plain(const coord::action::Spawn& spawn, const Variables& variables,
                     const Outputs& outputs);
  void take_spawned_zygote();
  void watch_zygote(Zygote zygote);
  void read_zygote();
  void refuse_zygote(std::uint32_t version);
  void forked(const coord::message::Forked& answer);
  void end_unheard();

  const LaunchOptions& options_;
  const Program& program_;
  Loop& loop_;
  Feed feed_;
  TerminalUse terminal_;
  std::optional<Spawned> spawned_;  // its zygote: until it is taken
  SpareZygote spare_;
  pid_t zygote_pid_ = -1;
  UniqueFd zygote_;
  int inherited_ = -1;
  std::atomic<pid_t>* pid_slot_ = nullptr;
  bool main_spoke_ = false;                      // a zygote was ready, or rank 0 was executed
  std::map<std::uint64_t, WorkerUid> requests_;  // not answered by the zygote
};

}  // namespace lockstep::launcher
