// Starts workers: by a request to the zygote, or by fork + exec. Keeps one zygote alive for
// programs that link Lockstep.
//
// Errors: what cannot be started comes back as event::SpawnFailed or event::ZygoteLost. Threads:
// the main thread.
#pragma once

#include <sys/types.h>

#include <functional>
#include <map>

#include "base/unique_fd.h"
#include "coord/actions.h"
#include "coord/events.h"
#include "coord/messages.h"
#include "launcher/logs.h"
#include "launcher/loop.h"
#include "launcher/options.h"
#include "launcher/process.h"
#include "launcher/program.h"
#include "launcher/worker_env.h"

namespace lockstep::launcher {

class Spawner {
 public:
  using Feed = std::function<void(coord::Event)>;

  // All references must outlive the object.
  Spawner(const LaunchOptions& options, const Program& program, Loop& loop, Feed feed)
      : options_(options), program_(program), loop_(loop), feed_(std::move(feed)) {}
  ~Spawner();
  Spawner(const Spawner&) = delete;
  Spawner& operator=(const Spawner&) = delete;

  bool plain() const { return !program_.linked; }
  bool uses_zygote() const {
    return program_.linked && options_.start_method != StartMethod::kExec;
  }

  // Starts the worker; event Forked or SpawnFailed follows. Returns the agent's end of its socket
  // (none for plain programs). `board`: the memfd, -1 for plain programs.
  UniqueFd start(const coord::action::Spawn& spawn, const Variables& variables, int board,
                 const Outputs& outputs);

  // Kills the old zygote, if any, and starts another.
  void restart_zygote();
  // True if the event was the zygote's.
  bool zygote_event(const ChildEvent& event);
  // Lets the zygote go: it ends itself, at once.
  void close();
  pid_t zygote_pid() const { return zygote_pid_; }

 private:
  UniqueFd fork_worker(const coord::action::Spawn& spawn, const Variables& variables, int board,
                       const Outputs& outputs);
  UniqueFd execute_worker(const coord::action::Spawn& spawn, const Variables& variables, int board,
                          const Outputs& outputs);
  void execute_plain(const coord::action::Spawn& spawn, const Variables& variables,
                     const Outputs& outputs);
  void read_zygote();
  void refuse_zygote(std::uint32_t version);
  void forked(const coord::message::Forked& answer);

  const LaunchOptions& options_;
  const Program& program_;
  Loop& loop_;
  Feed feed_;
  pid_t zygote_pid_ = -1;
  UniqueFd zygote_;
  std::map<std::uint64_t, WorkerUid> requests_;  // not answered by the zygote
};

}  // namespace lockstep::launcher
