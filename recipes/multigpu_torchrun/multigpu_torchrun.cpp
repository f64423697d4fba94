// The blog's trainer under the launcher (tutorial 003): an epoch line of each rank, a snapshot.pt
// every so many epochs.
//
//   lockstep run --standalone --nproc-per-node 4 multigpu_torchrun 50 10
#include "toy.h"

int main(int argc, char** argv) {
  multigpu::Options options = multigpu::options_of("multigpu_torchrun", true);
  lockstep::CommandLine line("multigpu_torchrun",
                             "a toy model with snapshots, on any number of workers");
  multigpu::parse(line, options, argc, argv);
  auto context = lockstep::init();
  if (!context.ok()) lockstep::exit_with(context.error());
  lockstep::exit_with(*context, multigpu::train(*context, options));
}
