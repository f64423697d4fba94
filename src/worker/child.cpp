#include "worker/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <unistd.h>

#include "base/log.h"
#include "base/unique_fd.h"
#include "worker/forwarded_signals.h"

namespace lockstep::worker {

void die_with(pid_t parent, int signal) {
  if (::prctl(PR_SET_PDEATHSIG, signal) != 0) end_with(spawn_refused("prctl(PR_SET_PDEATHSIG)"));
  if (::getppid() != parent) ::_exit(1);  // it was gone before its death could be a signal
}

void leave_terminal() {
  ::setsid();
  if (::isatty(STDIN_FILENO) == 0) return;
  const UniqueFd nothing(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(nothing.get(), STDIN_FILENO);
}

void end_with(const Error& error) {
  log_error(error.message);
  ::_exit(exit_code(error.kind));
}

ErrorKind kind_of(int code) {
  for (const ErrorKind kind :
       {ErrorKind::kUsage, ErrorKind::kBadData, ErrorKind::kUnavailable, ErrorKind::kResumable})
    if (code == exit_code(kind)) return kind;
  return ErrorKind::kAborted;
}

}  // namespace lockstep::worker
