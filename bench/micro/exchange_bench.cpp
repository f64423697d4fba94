// Time of one exchange between the processes on one host, the slowest member's. Pieces are written
// anew before each one, as backward would. Two clocks, both from the first publish():
//
//   whole  every chunk of every sum is written and visible to this member, wherever it lies: what
//          an allreduce gives, and where Gloo's clock ends as well. The optimizer reads the sums
//          where they are, so nothing is copied out.
//   read   whole, and every byte of the sums read once by this member: the half that another one
//          wrote comes from its cache.
//
// Sums are verified outside the clocks: those of the warm-up, of every eighth of the samples, and
// the last.
//
//   exchange_bench [--json FILE] [--members N]   median, least and 99th percentile in microseconds
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
#include <cstring>
#include <string>
#include <vector>

#include "comm/exchange.h"
#include "comm/shm/layout.h"
#include "programs/read_all.h"

namespace lockstep {
namespace {

constexpr std::size_t kMaxSamples = 4096, kVerified = 8;
constexpr std::uint64_t kBucketFloats = std::uint64_t{25}
                                        << 18;  // 25 MiB, DistributedDataParallel's

struct Options {
  std::string json;
  std::uint32_t members = 2;
};

struct Case {
  const char* name;
  std::uint64_t floats;
  std::size_t samples;
};
constexpr Case kCases[] = {{"4B", 1, 4000},
                           {"64KB", 16384, 2000},
                           {"1MB", 262144, 500},
                           {"25MB", 25 * 262144, 100},
                           {"44.7MB", 11173962, 60}};  // ResNet-18's parameters

struct Shared {
  std::atomic<std::uint64_t> arrived;
  std::atomic<std::uint64_t> checksum;
  std::uint64_t whole_ns[coord::kMaxWorkers][kMaxSamples];
  std::uint64_t read_ns[coord::kMaxWorkers][kMaxSamples];
};

struct Times {
  std::vector<double> whole, read;  // ascending, microseconds
};

template <class T>
T* map_shared(std::uint64_t bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::perror("mmap");
    std::exit(1);
  }
  return static_cast<T*>(memory);
}

comm::ExchangePlan plan_for(const Case& work, std::uint32_t members) {
  comm::ExchangePlan plan;
  plan.virtual_workers = members;
  plan.scale = 1.0F / static_cast<float>(members);
  for (std::uint64_t left = work.floats; left > 0;) {
    const std::uint64_t count = std::min(left, kBucketFloats);
    plan.buckets.push_back({comm::DType::kFloat32, count});
    left -= count;
  }
  return plan;
}

float value(std::uint32_t rank, std::uint64_t i, std::uint64_t txn) {
  return static_cast<float>((rank + 1) * (i % 7 + 1) + txn % 5);
}

void fill(comm::Exchange& exchange, const comm::ExchangePlan& plan, std::uint32_t rank,
          std::uint64_t txn) {
  for (std::uint32_t b = 0; b < plan.buckets.size(); ++b) {
    auto* floats = reinterpret_cast<float*>(exchange.piece(rank, b).data());
    float pattern[7 * 16];
    for (std::uint64_t i = 0; i < std::size(pattern); ++i) pattern[i] = value(rank, i, txn);
    for (std::uint64_t i = 0; i < plan.buckets[b].count; i += std::size(pattern))
      std::memcpy(floats + i, pattern,
                  std::min(std::size(pattern), plan.buckets[b].count - i) * sizeof(float));
  }
}

bool verify(const comm::Exchange& exchange, const comm::ExchangePlan& plan, std::uint64_t txn) {
  for (std::uint32_t b = 0; b < plan.buckets.size(); ++b) {
    const auto* sum = reinterpret_cast<const float*>(exchange.sum(b).data());
    for (std::uint64_t i = 0; i < plan.buckets[b].count; ++i) {
      float expected = 0;  // small integers: exact in any order
      for (std::uint32_t r = 0; r < plan.virtual_workers; ++r) expected += value(r, i, txn);
      if (sum[i] != expected * plan.scale) {
        std::fprintf(stderr, "txn %llu bucket %u element %llu: %g, expected %g\n",
                     static_cast<unsigned long long>(txn), b, static_cast<unsigned long long>(i),
                     static_cast<double>(sum[i]), static_cast<double>(expected * plan.scale));
        return false;
      }
    }
  }
  return true;
}

void meet(Shared& shared, std::uint32_t members, std::uint64_t round) {
  shared.arrived.fetch_add(1);
  while (shared.arrived.load() < members * (round + 1)) sched_yield();
}

int member(coord::Board board, Shared& shared, const comm::ExchangePlan& plan, const Case& work,
           std::uint32_t rank) {
  coord::Table table;
  table.generation = Generation(1);
  for (std::uint32_t r = 0; r < plan.virtual_workers; ++r)
    table.members.push_back({WorkerUid(r + 1), Slot(r)});
  auto exchange = comm::make_shm_exchange(board, Slot(rank), WorkerUid(rank + 1), plan);
  const std::size_t warm_up = 3;
  for (std::size_t i = 0; i < work.samples + warm_up; ++i) {
    table.txn = Txn(i);
    if (!exchange->begin(table).ok()) return 1;
    if (i == 0) exchange->prefault(false);
    const coord::Node node = exchange->ownership().pieces()[rank].node;
    fill(*exchange, plan, rank, i);
    meet(shared, plan.virtual_workers, i);
    const std::uint64_t start = monotonic_ns();
    for (std::uint32_t b = 0; b < plan.buckets.size(); ++b) {
      exchange->publish(node, b);
      exchange->progress();
    }
    const auto outcome =
        exchange->wait([] { return true; }, Deadline::in(std::chrono::seconds(20)));
    const std::uint64_t whole = monotonic_ns();
    if (!outcome.ok()) {
      std::fprintf(stderr, "%s\n", outcome.error().message.c_str());
      return 1;
    }
    for (std::uint32_t b = 0; b < plan.buckets.size(); ++b)
      shared.checksum += bench::read_all(exchange->sum(b));
    const std::uint64_t read = monotonic_ns();
    if (i >= warm_up) {
      shared.whole_ns[rank][i - warm_up] = whole - start;
      shared.read_ns[rank][i - warm_up] = read - start;
    }
    const bool last = i + 1 == work.samples + warm_up;
    if ((i < warm_up || last || i % (work.samples / kVerified) == 0) && !verify(*exchange, plan, i))
      return 1;
  }
  return 0;
}

std::vector<double> slowest(const std::uint64_t (&ns)[coord::kMaxWorkers][kMaxSamples],
                            std::uint32_t members, std::size_t samples) {
  std::vector<double> times;
  for (std::size_t i = 0; i < samples; ++i) {
    std::uint64_t most = 0;
    for (std::uint32_t rank = 0; rank < members; ++rank) most = std::max(most, ns[rank][i]);
    times.push_back(static_cast<double>(most) / 1000.0);
  }
  std::sort(times.begin(), times.end());
  return times;
}

// Empty after a failure.
Times measure(const Case& work, std::uint32_t members) {
  const comm::ExchangePlan plan = plan_for(work, members);
  const coord::BoardPlan board_plan{members, 0, 64};
  const coord::Board measure_only(nullptr, board_plan);
  const auto layout =
      comm::shm::Layout::make(plan, coord::kBoardBytes - measure_only.data_offset());
  const std::uint64_t bytes = measure_only.data_offset() + layout.value().end();
  auto* memory = map_shared<std::byte>(bytes);
  auto* shared = map_shared<Shared>(sizeof(Shared));
  std::vector<pid_t> children;
  for (std::uint32_t rank = 0; rank < members; ++rank) {
    const pid_t child = fork();
    if (child == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      _exit(member(coord::Board(memory, board_plan), *shared, plan, work, rank));
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
    times = {slowest(shared->whole_ns, members, work.samples),
             slowest(shared->read_ns, members, work.samples)};
  munmap(memory, bytes);
  munmap(shared, sizeof(Shared));
  return times;
}

int run(const Options& options) {
  std::string json = "[";
  std::printf("%-8s %12s %12s %12s %12s   microseconds, %u members\n", "size", "least", "median",
              "p99", "read", options.members);
  for (const Case& work : kCases) {
    const Times times = measure(work, options.members);
    if (times.whole.empty()) return 1;
    const double median = times.whole[times.whole.size() / 2];
    const double p99 = times.whole[times.whole.size() * 99 / 100];
    const double read = times.read[times.read.size() / 2];
    std::printf("%-8s %12.2f %12.2f %12.2f %12.2f\n", work.name, times.whole.front(), median, p99,
                read);
    char line[256];
    std::snprintf(line, sizeof line,
                  "%s\n{\"name\": \"exchange/%s\", \"unit\": \"us\", \"value\": %.3f, \"min\": "
                  "%.3f, \"p99\": %.3f, \"read\": %.3f, \"samples\": %zu}",
                  json.size() > 1 ? "," : "", work.name, median, times.whole.front(), p99, read,
                  times.whole.size());
    json += line;
  }
  json += "\n]\n";
  if (options.json.empty()) return 0;
  std::FILE* file = std::fopen(options.json.c_str(), "w");
  if (file == nullptr || std::fputs(json.c_str(), file) < 0 || std::fclose(file) != 0) {
    std::perror(options.json.c_str());
    return 1;
  }
  return 0;
}

}  // namespace
}  // namespace lockstep

int main(int argc, char** argv) {
  lockstep::Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    if (argument == "--json" && i + 1 < argc) {
      options.json = argv[++i];
    } else if (argument == "--members" && i + 1 < argc) {
      options.members = static_cast<std::uint32_t>(std::clamp(std::atoi(argv[++i]), 1, 16));
    } else {
      std::fprintf(stderr, "usage: exchange_bench [--json FILE] [--members N]\n");
      return 2;
    }
  }
  return lockstep::run(options);
}
