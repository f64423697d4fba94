// Of a run of lockstep::spawn(), whose zygote cannot be executed again: a second one, forked from
// the first, that waits to take its place.
//
// Threads: the main thread.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "base/unique_fd.h"
#include "launcher/processes/spawned.h"

namespace lockstep::launcher {

class SpareZygote {
 public:
  static constexpr std::uint64_t kRequest = 0;  // as a worker's uid never is

  // Unless it is there or asked for: asks the zygote at the other end of `socket`.
  void ask(int socket);
  // The zygote's answer; negative: it was not forked.
  void forked(pid_t pid);
  // Nobody will tell its pid any more: it ends by itself, as its socket does.
  void forget_unless_forked();
  // True if it was this one that has ended.
  bool ended(pid_t pid);
  // It, if it lives; nothing is left here.
  std::optional<Zygote> take();

  // -1: none, or not known yet.
  pid_t pid() const { return zygote_.pid; }

 private:
  Zygote zygote_;
  int asked_ = 0;
};

}  // namespace lockstep::launcher
