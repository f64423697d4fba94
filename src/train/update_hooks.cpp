#include "train/update_hooks.h"

#include <ATen/core/grad_mode.h>

#include <utility>

#include "base/guard.h"

namespace lockstep::training {

void UpdateHooks::add(Hook hook) {
  if (closed_)
    refused_ = Error{ErrorKind::kUsage,
                     "on_update() after the run was opened: a newcomer makes its first update "
                     "while it is being opened, and would miss it there. Call it before "
                     "Step::open() or Trainer::fit(); what it needs of the loop goes into the "
                     "train state"};
  else if (!hook)
    refused_ = Error{ErrorKind::kUsage, "on_update() with an empty function"};
  else
    hooks_.push_back(std::move(hook));
}

Status UpdateHooks::run(UpdateEnd& end, const std::function<std::string()>& where) const {
  return guarded(where, ErrorKind::kInternal, [&]() -> Status {
    const at::NoGradGuard no_grad;
    for (const Hook& hook : hooks_) hook(end);
    return {};
  });
}

}  // namespace lockstep::training
