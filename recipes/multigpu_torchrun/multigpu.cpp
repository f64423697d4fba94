// The blog's trainer with workers of its own (tutorial 003, as mp.spawn starts them): an epoch line
// of each rank, a checkpoint.pt every so many epochs.
//
//   multigpu 50 10 --nprocs 4
#include <algorithm>
#include <thread>

#include "toy.h"

namespace {

// Where the original asks for the number of GPUs; a run has 128 workers at most.
int usable_cpus() {
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1U, 128U));
}

}  // namespace

int main(int argc, char** argv) {
  multigpu::Options options = multigpu::options_of("multigpu", false);
  int workers = usable_cpus();
  lockstep::CommandLine line("multigpu", "a toy model on workers that the program starts itself");
  line.add("--nprocs", workers, "workers; the number of usable CPUs unless given",
           {.least = 1, .most = 128});
  multigpu::parse(line, options, argc, argv);
  const lockstep::Status done = lockstep::spawn(
      workers, [&](lockstep::Context& context) { return multigpu::train(context, options); });
  if (!done.ok()) lockstep::exit_with(done.error());
}
