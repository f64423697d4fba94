// What the program does at each update, in every worker (Step::on_update(), Trainer::on_update()).
//
// Errors: kUsage, see check(); what a hook throws. Threads: one.
#pragma once

#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "lockstep/status.h"
#include "lockstep/step.h"

namespace lockstep::training {

class UpdateHooks {
 public:
  using Hook = std::function<void(UpdateEnd&)>;

  void add(Hook hook);
  // Of something else that comes too late, or is wrong.
  void refuse(Error error) { refused_ = std::move(error); }
  // The run is being opened: from here on none can be added.
  void close() { closed_ = true; }
  // kUsage: one was added that is empty, or too late.
  Status check() const { return refused_; }
  bool empty() const { return hooks_.empty(); }
  // All of them in order, without gradients. `where` begins an error's message.
  Status run(UpdateEnd& end, const std::function<std::string()>& where) const;

 private:
  std::vector<Hook> hooks_;
  bool closed_ = false;
  Status refused_;
};

}  // namespace lockstep::training
