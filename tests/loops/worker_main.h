// What workers that are given CASE and a folder begin and end with.
#pragma once

#include <torch/types.h>

#include "lockstep/context.h"

namespace loops {

// `run`: Status(Context&), with random numbers that all workers begin with alike.
template <class Run>
[[noreturn]] void run_worker(Run run) {
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  at::manual_seed(0);
  lockstep::exit_with(*context, run(*context));
}

}  // namespace loops
