// The program `lockstep-link`, which the agent of a host executes for a run on several hosts: it
// keeps the host's board a replica of the others' (docs/design/hosts.md, "Links").
//
// Exit codes: 0 when its agent has closed their socket or is gone; 2 for a wrong command line or
// descriptor, 65 for what is no message of an agent's, 69 for what the system refuses. No signal
// but SIGKILL ends it: one that is typed, or sent to a whole job, is the agent's to answer.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/guard.h"
#include "base/log.h"
#include "base/process_setup.h"
#include "base/signals_blocked.h"
#include "base/unique_fd.h"
#include "carrier/board_memory.h"
#include "carrier/service.h"
#include "carrier/start.h"
#include "coord/board_memory.h"

namespace {

using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::Result;
using lockstep::Status;
using lockstep::UniqueFd;
using lockstep::carrier::BoardMemory;
using lockstep::carrier::Service;
using lockstep::carrier::Start;

Error no_good(const char* option, int fd, const std::string& what) {
  return {ErrorKind::kUsage,
          "lockstep-link: " + std::string(option) + " " + std::to_string(fd) + " is " + what};
}

// The socket's option, or -1.
int asked(int fd, int option) {
  int value = 0;
  socklen_t size = sizeof value;
  return ::getsockopt(fd, SOL_SOCKET, option, &value, &size) == 0 ? value : -1;
}

Status check_descriptors(const Start& start) {
  for (const auto& [option, fd] : {std::pair("--board", start.board),
                                   {"--agent", start.agent},
                                   {"--listener", start.listener}})
    if (fd <= STDERR_FILENO || ::fcntl(fd, F_SETFD, FD_CLOEXEC) != 0)
      return no_good(option, fd, "no descriptor that this process has inherited");
  if (asked(start.agent, SO_DOMAIN) != AF_UNIX || asked(start.agent, SO_TYPE) != SOCK_STREAM)
    return no_good("--agent", start.agent, "no stream socket within this machine");
  if (asked(start.listener, SO_ACCEPTCONN) != 1 || asked(start.listener, SO_DOMAIN) == AF_UNIX)
    return no_good("--listener", start.listener, "no TCP socket that listens");
  return lockstep::coord::check_board(start.board);
}

// A board, mapped whole.
class Mapped {
 public:
  static Result<Mapped> open(int memory) {
    struct stat file {};
    if (::fstat(memory, &file) != 0) return no_good("--board", memory, std::strerror(errno));
    const auto bytes = static_cast<std::uint64_t>(file.st_size);
    if (bytes < lockstep::coord::fixed_bytes())
      return no_good("--board", memory,
                     "too short for a board: " + std::to_string(bytes) + " bytes");
    void* const base = lockstep::coord::map_board(memory, bytes);
    if (base == MAP_FAILED)
      return Error{ErrorKind::kUnavailable,
                   "lockstep-link: cannot map the run's shared memory of " + std::to_string(bytes) +
                       " bytes: " + std::strerror(errno)};
    return Mapped(base, bytes);
  }
  Mapped(Mapped&& other) noexcept
      : base_(std::exchange(other.base_, nullptr)), bytes_(other.bytes_) {}
  Mapped& operator=(Mapped&&) = delete;
  ~Mapped() {
    if (base_ != nullptr) ::munmap(base_, bytes_);
  }

  std::byte* base() const { return static_cast<std::byte*>(base_); }
  std::uint64_t bytes() const { return bytes_; }

 private:
  Mapped(void* base, std::uint64_t bytes) : base_(base), bytes_(bytes) {}
  void* base_;
  std::uint64_t bytes_;
};

Status serve(const std::vector<std::string>& words) {
  LOCKSTEP_ASSIGN(const Start start, lockstep::carrier::read_start(words, LOCKSTEP_VERSION));
  LOCKSTEP_TRY(check_descriptors(start));
  UniqueFd board(start.board), agent(start.agent), listener(start.listener);
  LOCKSTEP_ASSIGN(const Mapped mapped, Mapped::open(board.get()));
  board.reset();
  std::unique_ptr<BoardMemory> memory;
  const auto look = [&]() -> std::optional<Service::Board> {
    memory = BoardMemory::open(mapped.base(), mapped.bytes(), start.self.stay);
    if (!memory) return std::nullopt;
    return Service::Board{memory->plan(), *memory};
  };
  const lockstep::coord::Board view(mapped.base(), {});
  const lockstep::links::Limits limits{.silence = start.silence, .ping = start.ping};
  LOCKSTEP_ASSIGN(const auto service,
                  Service::open({look, view.header().link_bell, start.self, limits},
                                std::move(agent), std::move(listener)));
  return service->run();
}

}  // namespace

int main(int argc, char** argv) {
  lockstep::prepare_process();
  const lockstep::SignalsBlocked blocked;
  const Status ended = lockstep::guarded("lockstep-link", ErrorKind::kInternal, [&] {
    return serve(std::vector<std::string>(argv + 1, argv + argc));
  });
  if (ended.ok()) return 0;
  lockstep::log_error(ended.error().message);
  return lockstep::exit_code(ended.error().kind);
}
