// What carried_rate and gan_rate share: two forms of a loop by name, its options, and the time of a
// turn of it.
//
//   lockstep run ... PROGRAM FORM WARM_UP TURNS RUN_DIR     prints {"ms": MILLISECONDS_OF_A_TURN}
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/deadline.h"
#include "lockstep/context.h"
#include "lockstep/step.h"

namespace lockstep::bench {

struct RateJob {
  std::string form;
  std::int64_t warm_up = 0, turns = 0;
  std::string run_dir;
  std::int64_t all() const { return warm_up + turns; }
};

// Nothing but steps: no checkpoint, line or rehearsal; V = 2.
inline RunOptions rate_options(const char* name, const RateJob& job) {
  RunOptions options;
  options.name = name;
  options.output = job.run_dir;
  options.virtual_workers = 2;
  options.resume = "never";
  options.checkpoint_every = {};
  options.log_every = {};
  options.rehearse = 0;
  return options;
}

// turn(): Result<bool>, false once the run is over, before which rank 0 prints the time.
template <class Turn>
Status timed(const Context& context, const RateJob& job, const Turn& turn) {
  std::uint64_t begin = 0;
  for (std::int64_t i = 0;; ++i) {
    if (i == job.warm_up) begin = monotonic_ns();
    if (i == job.all() && context.rank() == 0)
      std::printf("{\"ms\": %.4f}\n", static_cast<double>(monotonic_ns() - begin) * 1e-6 /
                                          static_cast<double>(job.turns));
    LOCKSTEP_ASSIGN(const bool more, turn());
    if (!more) return {};
  }
}

// The whole of main(); train(context, job): Status.
template <class Train>
int rate_main(int argc, char** argv, const std::string& program, const std::string& first,
              const std::string& second, const Train& train) {
  const std::string form = argc == 5 ? argv[1] : "";
  if (form != first && form != second) {
    std::fprintf(stderr, "usage: %s %s|%s WARM_UP TURNS RUN_DIR\n", program.c_str(), first.c_str(),
                 second.c_str());
    return 2;
  }
  auto context = init();
  if (!context.ok()) exit_with(context.error());
  exit_with(*context, train(*context, {form, std::atol(argv[2]), std::atol(argv[3]), argv[4]}));
}

}  // namespace lockstep::bench
