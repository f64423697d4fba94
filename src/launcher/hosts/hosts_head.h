// Who decides about the workers of a linked program on one of several hosts: nobody until all
// agents have met, then the coordinator. What comes from the network waits here for the agent's
// next turn, which obeys what follows. The run's end waits until all agents know of it.
//
// Threads: one at a time. Errors: none; a run that cannot begin ends with Stop.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "coord/membership.h"

namespace lockstep::launcher {

class HostsHead final : public coord::Head {
 public:
  explicit HostsHead(const coord::Config& config) : config_(config) {}

  void form(coord::HostPlace place);  // all have met
  bool is_formed() const { return coordinator_.has_value(); }
  // Once it is formed.
  coord::Coordinator& coordinator() { return *coordinator_; }
  using Work = std::function<coord::Actions(coord::Coordinator&, std::uint64_t now_ns)>;
  void later(Work work) { works_.push_back(std::move(work)); }
  // This host takes part no more: its workers are killed, and the launcher ends with this code.
  void leave(int code, std::string why);
  // The run has ended here, and the launcher is to end so.
  const std::optional<coord::action::Stop>& ended() const { return ended_; }
  const std::string& ended_by() const { return ended_by_; }
  void let_go() { is_let_go_ = true; }  // once it has ended here
  // Nobody can stop the run now, and it may be long: whoever sends a signal ends this launcher.
  void wait_alone(bool waits) { waits_alone_ = waits; }

  coord::Actions handle(const coord::Event& event, std::uint64_t now_ns) override;
  coord::RunStatus status() const override;
  std::uint64_t next_deadline(std::uint64_t now_ns) const override;

 private:
  coord::Actions wait(const coord::Event& event);
  void tell_signal(coord::Actions& actions);
  void hold_end(coord::Actions& actions);
  void end(coord::Actions& actions);

  const coord::Config config_;
  std::optional<coord::Coordinator> coordinator_;
  bool started_ = false, over_ = false, is_let_go_ = false, waits_alone_ = false;
  int signal_ = 0;  // the last one
  std::vector<Work> works_;
  std::optional<coord::action::Stop> ended_;
  std::string ended_by_;
  std::optional<std::pair<int, std::string>> leaves_;
};

}  // namespace lockstep::launcher
