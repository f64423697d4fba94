#include "launcher/by_hand/attached.h"

#include <fcntl.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "base/endpoint.h"
#include "base/errors.h"
#include "base/processes.h"
#include "coord/descriptors.h"
#include "launcher/options/option_table.h"

namespace lockstep::launcher {

std::string Attached::address() const { return "tcp://" + endpoint_text(host, port); }

Result<std::optional<Attached>> take_attached() {
  const char* text = std::getenv(coord::kAttachedVariable);
  if (text == nullptr) return std::optional<Attached>();
  int fd = -1, workers = 0, port = 0, starter = 0, end = 0;
  long long wait = 0;
  const bool read =
      std::sscanf(text, "%d:%d:%lld:%d:%d:%n", &fd, &workers, &wait, &port, &starter, &end) == 5 &&
      end > 0;
  if (!read || workers < 1 || fd <= 2 || ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
    return misuse(std::string(coord::kAttachedVariable) + "=" + in_quotes(text) +
                  " names no socket of this process; lockstep::init() alone sets it");
  UniqueFd starter_fd(static_cast<int>(::syscall(SYS_pidfd_open, starter, 0)));
  Attached attached{UniqueFd(fd), workers, std::chrono::milliseconds(wait),
                    text + end,   port,    std::move(starter_fd)};
  ::unsetenv(coord::kAttachedVariable);
  return std::optional(std::move(attached));
}

void fit_options(LaunchOptions& options, const Attached& attached) {
  options.nproc_per_node = attached.workers;
  options.start_method = StartMethod::kExec;  // there is no zygote
  options.max_restarts = options.max_replacements = 0;
  options.log_dir.clear();
  options.redirects = options.tee = {};
  options.local_ranks_filter.clear();
  options.master_addr = attached.host;
  options.master_port = attached.port;
}

bool is_stopped(pid_t pid) {
  const auto found = stat_of(pid);
  return found && found->state == 'T';
}

}  // namespace lockstep::launcher
