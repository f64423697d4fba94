#include "launcher/nodes/alone.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <utility>

#include "base/hash.h"

namespace lockstep::launcher {

AloneLock::AloneLock(const std::string& node)
    : name_("lockstep-alone-" + std::to_string(::geteuid()) + "-" +
            sha256_hex(node).substr(0, 32)) {}

bool AloneLock::take() {
  if (socket_) return true;
  UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  std::copy(name_.begin(), name_.end(), address.sun_path + 1);  // abstract
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name_.size());
  if (socket && ::bind(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) == 0)
    socket_ = std::move(socket);
  return is_held();
}

std::string AloneLock::machine() const {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat info {};
  if (::stat("/proc/self/ns/net", &info) != 0) info.st_ino = 0;
  return boot + "/" + std::to_string(info.st_ino) + "/" + name_;
}

}  // namespace lockstep::launcher
