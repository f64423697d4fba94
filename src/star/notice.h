// Tells whoever is started at the endpoint of a linked program's run that the run goes on without
// it (Gathering's has_run): dials there each L, and says what this agent's run is.
//
// Ownership: `loop` and `timers` must outlive it. Errors: none; nobody has to be there. Threads:
// the loop's.
#pragma once

#include <memory>
#include <string_view>

#include "base/loop.h"
#include "control/connection.h"
#include "control/dial.h"
#include "star/messages.h"
#include "star/spoke.h"

namespace lockstep::star {

class Notice {
 public:
  // `claim.run`: the run's. The first dial is at once.
  Notice(Loop& loop, control::Timers& timers, Spoke::Plan plan, message::Claim claim);
  ~Notice();
  Notice(const Notice&) = delete;
  Notice& operator=(const Notice&) = delete;

 private:
  void dial();
  void tell();
  void hear(std::string_view frame);

  Loop& loop_;
  control::Timers& timers_;
  const Spoke::Plan plan_;
  const message::Claim claim_;
  std::unique_ptr<control::Dial> dial_;
  std::shared_ptr<control::Connection> connection_;  // the last one
  control::Timers::Timer next_;
};

}  // namespace lockstep::star
