// A plain run on one host: the run's part and its only host's, in one head. Programs without the
// ELF note never say Hello: there is no table and no replacement, any failure is a restart of all,
// and the run is done when all have exited 0.
#pragma once

#include "coord/head.h"
#include "coord/plain/host.h"
#include "coord/plain/run.h"

namespace lockstep::coord::plain {

class OneHost final : public Head {
 public:
  OneHost(const HostConfig& config, int max_restarts);

  Actions handle(const Event& event, std::uint64_t now_ns) override;
  bool looks_for_left() const override { return host_.looks_for_left(); }
  void nothing_is_left() override { host_.nothing_is_left(); }
  RunStatus status() const override;
  std::uint64_t next_deadline(std::uint64_t now_ns) const override;

 private:
  Run run_;
  Host host_;
};

}  // namespace lockstep::coord::plain
