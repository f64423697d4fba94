// Three launchers of one run on several nodes, on this machine: they meet at a loopback endpoint.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "fault/plain_support.h"

namespace lockstep::test {

class ThreeNodes : public Plain {
 protected:
  static constexpr int kNodes = 3;

  void start(int rank, const Words& program, const Words& options = {},
             const Child::Variables& variables = {}) {
    Words all{"--nnodes",         "3", "--node-rank",     std::to_string(rank),
              "--nproc-per-node", "2", "--rdzv-endpoint", endpoint_,
              "--rdzv-id",        id_};
    all.insert(all.end(), options.begin(), options.end());
    launcher(rank) = std::make_unique<Child>(command_of(all, program), variables);
  }
  std::unique_ptr<Child>& launcher(int rank) { return launchers_[static_cast<std::size_t>(rank)]; }
  void expect_all_end_with(int code) {
    for (const auto& launcher : launchers_) {
      if (!launcher) continue;
      const Outcome outcome = launcher->wait(std::chrono::seconds(60));
      EXPECT_EQ(outcome.code, code) << outcome.err;
    }
  }
  static std::string free_port() { return std::to_string(test::free_port()); }

  const std::string endpoint_ = "127.0.0.1:" + free_port(), id_ = "run at " + endpoint_;

 private:
  std::array<std::unique_ptr<Child>, kNodes> launchers_;
};

}  // namespace lockstep::test
