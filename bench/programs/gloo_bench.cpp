// Time of one allreduce between two processes by the Gloo of the torch wheel that Lockstep is built
// with: the slower process's, data written anew before each one. Sums are verified first. The
// counterpart of micro/exchange_bench.
//
//   gloo_bench --json FILE      least, median and 99th percentile in microseconds
#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <sched.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "base/deadline.h"

namespace {

constexpr std::size_t kRanks = 2, kWarmUp = 3, kMostSamples = 2000;

struct Case {
  const char* name;
  std::int64_t floats;
  std::size_t samples;
};
constexpr Case kCases[] = {{"4B", 1, 2000},
                           {"64KB", 16384, 1000},
                           {"1MB", 262144, 300},
                           {"25MB", 25 * 262144, 40},
                           {"44.7MB", 11173962, 30}};

struct Shared {
  std::atomic<std::uint64_t> arrived;
  std::uint64_t ns[kRanks][kMostSamples];
};

float value(std::size_t rank, std::int64_t i, std::size_t round) {
  return static_cast<float>((rank + 1) * static_cast<std::size_t>(i % 7 + 1) + round % 5);
}

bool verify(const at::Tensor& sum, std::size_t round) {
  const auto* floats = sum.const_data_ptr<float>();
  for (std::int64_t i = 0; i < sum.numel(); ++i)
    if (floats[i] != value(0, i, round) + value(1, i, round)) return false;
  return true;
}

void meet(Shared& shared, std::uint64_t round) {
  shared.arrived.fetch_add(1);
  while (shared.arrived.load() < kRanks * (round + 1)) sched_yield();
}

int rank_main(const std::string& store_file, const Case& work, Shared& shared, std::size_t rank) {
  at::set_num_threads(1);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  options->timeout = std::chrono::seconds(60);
  const auto store = c10::make_intrusive<c10d::FileStore>(store_file, static_cast<int>(kRanks));
  c10d::ProcessGroupGloo group(store, static_cast<int>(rank), static_cast<int>(kRanks), options);
  std::vector<at::Tensor> tensors{at::empty({work.floats})};
  for (std::size_t i = 0; i < work.samples + kWarmUp; ++i) {
    auto* floats = tensors[0].mutable_data_ptr<float>();
    for (std::int64_t k = 0; k < work.floats; ++k) floats[k] = value(rank, k, i);
    meet(shared, i);
    const std::uint64_t start = lockstep::monotonic_ns();
    group.allreduce(tensors)->wait();
    const std::uint64_t stop = lockstep::monotonic_ns();
    if (i >= kWarmUp) {
      shared.ns[rank][i - kWarmUp] = stop - start;
    } else if (!verify(tensors[0], i)) {
      std::fprintf(stderr, "gloo_bench: a wrong sum of %s\n", work.name);
      return 1;
    }
  }
  return 0;
}

// Ascending, microseconds; empty after a failure.
std::vector<double> measure(const Case& work, const std::string& store_file) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  auto* shared = static_cast<Shared*>(memory);
  std::vector<pid_t> children;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(rank_main(store_file, work, *shared, rank));
    }
    children.push_back(child);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    good = waitpid(child, &status, 0) == child && status == 0 && good;
  }
  std::vector<double> times;
  for (std::size_t i = 0; good && i < work.samples; ++i)
    times.push_back(static_cast<double>(std::max(shared->ns[0][i], shared->ns[1][i])) / 1000.0);
  std::sort(times.begin(), times.end());
  munmap(memory, sizeof(Shared));
  return times;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::string_view(argv[1]) != "--json") {
    std::fprintf(stderr, "usage: gloo_bench --json FILE\n");
    return 2;
  }
  nlohmann::json result = nlohmann::json::array();
  for (const Case& work : kCases) {
    const std::string store_file = std::string(argv[2]) + ".store";
    const std::vector<double> times = measure(work, store_file);
    std::filesystem::remove(store_file);
    if (times.empty()) return 1;
    result.push_back({{"name", std::string("gloo/") + work.name},
                      {"unit", "us"},
                      {"value", times[times.size() / 2]},
                      {"min", times.front()},
                      {"p99", times[times.size() * 99 / 100]},
                      {"samples", times.size()}});
  }
  std::ofstream(argv[2]) << result.dump(1) << "\n";
  return 0;
}
