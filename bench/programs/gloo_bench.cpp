// Time of one allreduce between two processes by the Gloo of the torch wheel that Lockstep is built
// with: the slower process's, data written anew before each one. The counterpart of
// micro/exchange_bench, with the same two clocks: whole (the process's own tensor holds the sum)
// and read (whole, and every byte of it read once). Sums are verified outside the clocks: those of
// the warm-up, of every eighth of the samples, and the last.
//
// Each size is measured under several settings, and the one with the least median is reported.
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
#include "programs/read_all.h"

namespace {

constexpr std::size_t kRanks = 2, kMostSamples = 1000, kVerified = 8;

struct Case {
  const char* name;
  std::int64_t floats;
  std::size_t samples;
};
constexpr Case kCases[] = {{"4B", 1, 1000},
                           {"64KB", 16384, 500},
                           {"1MB", 262144, 200},
                           {"25MB", 25 * 262144, 20},
                           {"44.7MB", 11173962, 15}};

struct Setting {
  const char* name;
  int threads;  // of the process group
  bool meet;    // both begin at once; otherwise as the data are there, as in training
};
constexpr Setting kSettings[] = {{"2 threads, met", 2, true},
                                 {"1 thread, met", 1, true},
                                 {"2 threads, in a row", 2, false},
                                 {"1 thread, in a row", 1, false}};

struct Shared {
  std::atomic<std::uint64_t> arrived;
  std::uint64_t whole_ns[kRanks][kMostSamples], read_ns[kRanks][kMostSamples];
  std::atomic<std::uint64_t> checksum;
};

struct Times {
  std::vector<double> whole, read;  // ascending, microseconds
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

int rank_main(const std::string& store_file, const Case& work, const Setting& setting,
              Shared& shared, std::size_t rank) {
  at::set_num_threads(1);
  auto options = c10d::ProcessGroupGloo::Options::create();
  options->devices = {c10d::ProcessGroupGloo::createDeviceForHostname("127.0.0.1")};
  options->timeout = std::chrono::seconds(60);
  options->threads = setting.threads;
  const auto store = c10::make_intrusive<c10d::FileStore>(store_file, static_cast<int>(kRanks));
  c10d::ProcessGroupGloo group(store, static_cast<int>(rank), static_cast<int>(kRanks), options);
  std::vector<at::Tensor> tensors{at::empty({work.floats})};
  const std::size_t warm_up = std::max<std::size_t>(5, work.samples / 10);
  for (std::size_t i = 0; i < work.samples + warm_up; ++i) {
    auto* floats = tensors[0].mutable_data_ptr<float>();
    for (std::int64_t k = 0; k < work.floats; ++k) floats[k] = value(rank, k, i);
    if (setting.meet || i == 0) meet(shared, i);
    const std::uint64_t start = lockstep::monotonic_ns();
    group.allreduce(tensors)->wait();
    const std::uint64_t whole = lockstep::monotonic_ns();
    shared.checksum += lockstep::bench::read_all(std::as_bytes(
        std::span(tensors[0].const_data_ptr<float>(), static_cast<std::size_t>(work.floats))));
    const std::uint64_t read = lockstep::monotonic_ns();
    if (i >= warm_up) {
      shared.whole_ns[rank][i - warm_up] = whole - start;
      shared.read_ns[rank][i - warm_up] = read - start;
    }
    const bool last = i + 1 == work.samples + warm_up;
    if ((i < warm_up || last || i % (work.samples / kVerified) == 0) && !verify(tensors[0], i)) {
      std::fprintf(stderr, "gloo_bench: a wrong sum of %s\n", work.name);
      return 1;
    }
  }
  return 0;
}

std::vector<double> slowest(const std::uint64_t (&ns)[kRanks][kMostSamples], std::size_t samples) {
  std::vector<double> times;
  for (std::size_t i = 0; i < samples; ++i)
    times.push_back(static_cast<double>(std::max(ns[0][i], ns[1][i])) / 1000.0);
  std::ranges::sort(times);
  return times;
}

// Empty after a failure.
Times measure(const Case& work, const Setting& setting, const std::string& store_file) {
  void* memory =
      mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return {};
  auto* shared = static_cast<Shared*>(memory);
  std::vector<pid_t> children;
  for (std::size_t rank = 0; rank < kRanks; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(rank_main(store_file, work, setting, *shared, rank));
    }
    children.push_back(child);
  }
  bool good = true;
  for (const pid_t child : children) {
    int status = 0;
    good = waitpid(child, &status, 0) == child && status == 0 && good;
  }
  Times times;
  if (good)
    times = {slowest(shared->whole_ns, work.samples), slowest(shared->read_ns, work.samples)};
  munmap(memory, sizeof(Shared));
  return times;
}

double median(const std::vector<double>& ascending) { return ascending[ascending.size() / 2]; }

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3 || std::string_view(argv[1]) != "--json") {
    std::fprintf(stderr, "usage: gloo_bench --json FILE\n");
    return 2;
  }
  nlohmann::json result = nlohmann::json::array();
  for (const Case& work : kCases) {
    const std::string store_file = std::string(argv[2]) + ".store";
    Times best;
    const char* setting_of_best = "";
    for (const Setting& setting : kSettings) {
      const Times times = measure(work, setting, store_file);
      std::filesystem::remove(store_file);
      if (times.whole.empty()) return 1;
      if (!best.whole.empty() && median(times.whole) >= median(best.whole)) continue;
      best = times;
      setting_of_best = setting.name;
    }
    result.push_back({{"name", std::string("gloo/") + work.name},
                      {"unit", "us"},
                      {"value", median(best.whole)},
                      {"min", best.whole.front()},
                      {"p99", best.whole[best.whole.size() * 99 / 100]},
                      {"read", median(best.read)},
                      {"setting", setting_of_best},
                      {"samples", best.whole.size()}});
  }
  std::ofstream(argv[2]) << result.dump(1) << "\n";
  return 0;
}
