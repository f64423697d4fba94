#include "launcher/nodes/node_lock.h"

#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <utility>

#include "base/hash.h"
#include "control/sockets.h"

namespace lockstep::launcher {

NodeLock::NodeLock(const std::string& node)
    : name_("lockstep-lock-" + std::to_string(::geteuid()) + "-" + sha256_hex(node).substr(0, 32)) {
}

bool NodeLock::take() {
  if (socket_) return true;
  if (auto socket = control::listen_by_name(name_); socket.ok()) socket_ = *std::move(socket);
  return is_held();
}

std::string NodeLock::machine() const {
  std::string boot;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat info {};
  if (::stat("/proc/self/ns/net", &info) != 0) info.st_ino = 0;
  return boot + "/" + std::to_string(info.st_ino) + "/" + name_;
}

}  // namespace lockstep::launcher
