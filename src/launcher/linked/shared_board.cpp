#include "launcher/linked/shared_board.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "coord/board_memory.h"

namespace lockstep::launcher {
namespace {

Error no_memory(const char* call, int code) {
  std::string message =
      std::string("cannot make the run's shared memory: ") + call + ": " + std::strerror(code);
  rlimit limit{};
  if (code == EFBIG && ::getrlimit(RLIMIT_FSIZE, &limit) == 0 &&
      limit.rlim_cur < coord::kBoardBytes)
    message += "; the limit on file sizes is " + std::to_string(limit.rlim_cur) +
               " bytes, 1 TiB is needed (sparse, hardly any of it is used): run 'ulimit -f "
               "unlimited' first";
  if (code == ENOMEM)
    message +=
        "; it takes 1 TiB of address space, hardly any of it used: run 'ulimit -v unlimited' first";
  return {ErrorKind::kUnavailable, message};
}

}  // namespace

Result<SharedBoard> SharedBoard::make() {
  UniqueFd fd(::memfd_create("lockstep", MFD_CLOEXEC));
  if (!fd) return no_memory("memfd_create", errno);
  if (::ftruncate(fd.get(), static_cast<off_t>(coord::kBoardBytes)) != 0)
    return no_memory("ftruncate", errno);
  void* memory = coord::map_board(fd.get(), coord::kBoardBytes);
  if (memory == MAP_FAILED) return no_memory("mmap", errno);
  SharedBoard board(std::move(fd), memory);
  coord::label_board(board.view().header());
  return board;
}

SharedBoard& SharedBoard::operator=(SharedBoard&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(memory_, other.memory_);
  std::swap(plan_, other.plan_);
  return *this;
}

SharedBoard::~SharedBoard() {
  if (memory_ != nullptr) ::munmap(memory_, coord::kBoardBytes);
}

}  // namespace lockstep::launcher
