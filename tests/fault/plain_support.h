// Programs that know nothing of Lockstep: scripts of a test's own, under the launcher.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/unique_fd.h"
#include "fault/launcher_support.h"

namespace lockstep::test {

// A port of the loopback that nobody has now, another one each time, below those that the kernel
// gives to others.
inline int free_port() {
  static int next = ::getpid() * 37;  // tests that start at one moment have neighbouring pids
  while (true) {
    const int port = 20'000 + next++ % 12'000;
    const UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    if (::bind(fd.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) return port;
  }
}

// A python3 that can import torch: python3 itself, or what the test's environment names.
inline std::string torch_python() {
  const char* named = std::getenv("LOCKSTEP_PYTHON");
  for (const std::string candidate : {named == nullptr ? "" : named, "python3"})
    if (!candidate.empty() && run({candidate, "-c", "import torch"}).code == 0) return candidate;
  return "";
}

class Plain : public ToyRun {
 protected:
  Outcome launch(const Words& options, const Words& program,
                 const Child::Variables& variables = {}) const {
    return run(command_of(options, program), variables);
  }
  // The only folder below the log directory.
  std::filesystem::path log_folder() const {
    for (const auto& entry : std::filesystem::directory_iterator(folder_ / "logs"))
      return entry.path();
    return {};
  }
};

}  // namespace lockstep::test
