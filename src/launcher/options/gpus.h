// GPUs as workers of plain programs see them, for --nproc-per-node gpu and auto.
#pragma once

#include <string>
#include <vector>

#include "launcher/options/options.h"
#include "lockstep/status.h"

namespace lockstep::launcher {

// NVIDIA's, by the driver's own library (NVML); 0: there is none, or no driver. After 4 s, and each
// time the wait has doubled, it is said what is waited for. kUnavailable: no answer within 120 s,
// or a driver that does not work. Forks, so it is for a process with one thread.
Result<int> gpus_of_machine();

// torch.cuda.device_count(): of CUDA_VISIBLE_DEVICES the numbers up to the first that no GPU has,
// or the names (GPU-, MIG-) up to the first that is none. A device twice: none at all.
// `visible_devices` as in LaunchOptions.
int visible_gpus(const std::vector<std::string>& visible_devices, int of_machine);

// What `auto` and `gpu` are, once it is known whether the program is a plain one: its workers are
// as many as GPUs. kUsage: there is none, or the program links Lockstep; or --virtual-local-rank
// has not a device for each worker.
Status settle_workers(LaunchOptions& options, bool linked,
                      Result<int> (*of_machine)() = gpus_of_machine);

}  // namespace lockstep::launcher
