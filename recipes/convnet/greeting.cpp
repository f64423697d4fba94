#include "greeting.h"

#include <torch/headeronly/version.h>

#include <cstdio>
#include <fstream>
#include <string>
#include <thread>

#include "lockstep/models.h"

namespace convnet {
namespace {

std::string cpu_name() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);)
    if (const auto colon = line.find(": "); line.starts_with("model name") && colon != line.npos)
      return line.substr(colon + 2);
  return "CPU";
}

}  // namespace

void greet(const Options& options) {
  if (!lockstep::is_first_main() || !options.first_command()) return;
  if (options.others_start)
    std::fprintf(stderr,
                 "convnet: --gpus: the launcher starts the workers (--nproc-per-node), and they "
                 "share %d virtual workers\n",
                 options.run.virtual_workers);
  const auto model = lockstep::models::convnet();
  std::printf("%d.%d.%d\nFalse\n%u\n%s\n%s\n", TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR,
              TORCH_VERSION_PATCH, std::thread::hardware_concurrency(), cpu_name().c_str(),
              lockstep::models::python_repr(*model).c_str());
  if (options.mode == Mode::kDataParallel && options.replicas > 1)
    std::printf("Using  %d  GPUs!\n", options.replicas);
  std::fflush(stdout);
}

}  // namespace convnet
