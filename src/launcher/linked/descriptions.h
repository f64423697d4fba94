// What the workers of a run say that they are about to run: the first one's word holds, all others
// are compared with it. They wait here until the run directory's lock is there, or refused.
//
// Errors: kUsage. Threads: one.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "coord/events.h"
#include "coord/messages.h"
#include "launcher/options/options.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

class Descriptions {
 public:
  using Describe = coord::message::Describe;

  // The first one must fit the options, and must be possible at all: else the error, and it is as
  // if nothing had been said.
  Status add(WorkerUid worker, Describe description, const LaunchOptions& options);
  // For all that wait: `refusal`, or how they differ from the first.
  std::vector<coord::event::Described> settle(const std::optional<Error>& refusal);
  // The next one is the first again.
  void forget();

  const Describe* first() const { return first_ ? &*first_ : nullptr; }
  bool is_elastic() const { return first_ && first_->elastic; }
  // One did not fit the options.
  bool refused_options() const { return refused_options_; }

 private:
  std::optional<Describe> first_;
  bool told_ = false;  // what it is, by the first that was settled
  std::map<WorkerUid, Describe> waiting_;
  bool refused_options_ = false;
};

}  // namespace lockstep::launcher
