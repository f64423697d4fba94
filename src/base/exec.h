// What stands between fork() and execve(), made before the fork: after it a program with threads
// may make few calls.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <string>
#include <vector>

#include "lockstep/status.h"

namespace lockstep {

// An argv or envp.
class ExecWords {
 public:
  explicit ExecWords(std::vector<std::string> words);
  ExecWords(const ExecWords&) = delete;
  ExecWords& operator=(const ExecWords&) = delete;
  char* const* get() const { return pointers_.data(); }

 private:
  std::vector<std::string> words_;
  std::vector<char*> pointers_;
};

// The environment of this process, with `changes` (NAME=value) over it and `removed` taken out.
std::vector<std::string> environment_with(const std::vector<std::string>& changes,
                                          const std::vector<std::string>& removed = {});

// All signals at their default but an ignored HUP, which is nohup's wish; these alone blocked. A
// blocked signal stays pending meanwhile.
void reset_signals(const sigset_t& blocked);
// The same with none blocked. In the child.
void reset_signals();

bool is_ignored(int signal);

// Forks. `become` is called in the child: it executes `file`, or returns errno. Returns once that
// is executed; a child that has failed is reaped. A child that forks and ends counts as the one
// that it has left behind. Errors: kUsage if the file cannot be executed, kUnavailable for what the
// system refuses.
Result<pid_t> fork_and_execute(const std::string& file, const std::function<int()>& become);

}  // namespace lockstep
