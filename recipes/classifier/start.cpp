#include "start.h"

#include <cstdlib>

#include "lockstep/spawn.h"

namespace classifier {

void add_spawn(lockstep::CommandLine& line, int& workers) {
  constexpr int kMostWorkers = 128;  // lockstep::spawn()'s limit
  line.add("--spawn", workers,
           "workers that the program starts itself, as mp.spawn does; 0: none, it is started by "
           "'lockstep run', by hand or alone",
           {.least = 0, .most = kMostWorkers});
}

void start(int workers, const std::function<lockstep::Status(lockstep::Context&)>& train) {
  if (workers > 0) {
    const lockstep::Status done = lockstep::spawn(workers, train);
    if (!done.ok()) lockstep::exit_with(done.error());
    std::exit(0);
  }
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, train(*context));
}

}  // namespace classifier
