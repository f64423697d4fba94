// Saving and loading ResNet-18 with Adam (134 MB): the stall, written and synced, loaded. Each
// round saves other values and loads them into blank tensors; compared outside the clock.
//
//   checkpoint_bench [FOLDER] [REPEATS]     JSON on standard output; times in ms, medians
#include <ATen/Parallel.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/deadline.h"
#include "checkpoint/tensors.h"
#include "checkpoint/writer.h"

using namespace lockstep;
using namespace lockstep::checkpoint;

namespace {

using Shape = std::vector<std::int64_t>;

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "checkpoint_bench: %s\n", what.c_str());
  std::exit(1);
}

void require(const Status& status) {
  if (!status.ok()) fail(status.error().message);
}

template <class T>
T require(Result<T> result) {
  if (!result.ok()) fail(result.error().message);
  return *std::move(result);
}

// torchvision's resnet18 of 10 classes: names and shapes of parameters and of batch norm's
// statistics.
void add_norm(NamedTensors& model, const std::string& name, std::int64_t width) {
  for (const char* part : {".weight", ".bias", ".running_mean", ".running_var"})
    model.emplace_back(name + part, at::randn({width}));
}

NamedTensors resnet18() {
  NamedTensors model = {{"conv1.weight", at::randn({64, 3, 7, 7})}};
  add_norm(model, "bn1", 64);
  std::int64_t in = 64;
  for (int layer = 1; layer <= 4; ++layer) {
    const std::int64_t out = std::int64_t{32} << layer;
    for (int block = 0; block < 2; ++block) {
      const std::string name = "layer" + std::to_string(layer) + "." + std::to_string(block);
      model.emplace_back(name + ".conv1.weight", at::randn({out, in, 3, 3}));
      model.emplace_back(name + ".conv2.weight", at::randn({out, out, 3, 3}));
      add_norm(model, name + ".bn1", out);
      add_norm(model, name + ".bn2", out);
      if (in != out) model.emplace_back(name + ".downsample.0.weight", at::randn({out, in, 1, 1}));
      if (in != out) add_norm(model, name + ".downsample.1", out);
      in = out;
    }
  }
  model.emplace_back("fc.weight", at::randn({10, 512}));
  model.emplace_back("fc.bias", at::randn({10}));
  return model;
}

NamedTensors moments(const NamedTensors& model) {
  NamedTensors adam;
  for (const char* moment : {"exp_avg/", "exp_avg_sq/"})
    for (const auto& [name, tensor] : model)
      if (name.find("running") == std::string::npos)
        adam.emplace_back(moment + name, at::randn(tensor.sizes()));
  return adam;
}

std::vector<CheckpointPart> blank(const std::vector<CheckpointPart>& parts) {
  std::vector<CheckpointPart> result;
  for (const CheckpointPart& part : parts) {
    result.push_back({part.name, {}});
    for (const auto& [name, tensor] : part.tensors)
      result.back().tensors.emplace_back(name, at::zeros_like(tensor));
  }
  return result;
}

bool equal(const std::vector<CheckpointPart>& a, const std::vector<CheckpointPart>& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    for (std::size_t j = 0; j < a[i].tensors.size(); ++j)
      if (!at::equal(a[i].tensors[j].second, b[i].tensors[j].second)) return false;
  return true;
}

// Other values in what is saved, none of them in what is loaded into.
void renew(const std::vector<CheckpointPart>& parts, const std::vector<CheckpointPart>& target) {
  for (const CheckpointPart& part : parts)
    for (const auto& [name, tensor] : part.tensors) at::Tensor(tensor).normal_();
  for (const CheckpointPart& part : target)
    for (const auto& [name, tensor] : part.tensors) at::Tensor(tensor).zero_();
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

template <class Call>
double milliseconds(Call call) {
  const std::uint64_t start = monotonic_ns();
  call();
  return static_cast<double>(monotonic_ns() - start) / 1e6;
}

// The yardstick of the stall: one plain copy between pages that are all there.
double copy_ms(std::size_t bytes) {
  std::vector<char> from(bytes, 1);
  std::vector<char> to(bytes, 2);
  std::vector<double> times;
  for (int i = 0; i < 5; ++i)
    times.push_back(milliseconds([&] { std::memcpy(to.data(), from.data(), bytes); }));
  return to[bytes / 2] == 1 ? median(times) : 0;
}

struct Times {
  std::vector<double> stall, written, loaded;
  std::uint64_t begun_ns = 0, published_ns = 0;
};

void measure(Writer& writer, const std::string& run_dir, const std::vector<CheckpointPart>& parts,
             const std::vector<CheckpointPart>& target, std::uint64_t txn, Times& times) {
  const Deadline deadline = Deadline::in(std::chrono::seconds(60));
  renew(parts, target);
  times.begun_ns = monotonic_ns();
  times.stall.push_back(milliseconds([&] {
    const Sources sources = require(Sources::of(parts));
    require(writer.snapshot(sources.parts(), "{}", {txn, 0, txn}, 1, WhenBusy::kWait, deadline));
  }));
  require(writer.wait(deadline));
  times.written.push_back(static_cast<double>(times.published_ns - times.begun_ns) / 1e6);
  times.loaded.push_back(milliseconds([&] { require(load_checkpoint(run_dir, target)); }));
  if (!equal(parts, target)) fail("what was loaded is not what was saved");
}

}  // namespace

int main(int argc, char** argv) {
  const std::filesystem::path base = argc > 1 ? argv[1] : ".";
  const int repeats = argc > 2 ? std::atoi(argv[2]) : 7;
  at::set_num_threads(1);
  const std::string run_dir =
      (base / ("checkpoint_bench." + std::to_string(monotonic_ns()))).string();
  require(posix_env().make_dirs(run_dir));
  const NamedTensors model = resnet18();
  const std::vector<CheckpointPart> parts = {{"model", model}, {"optimizer", moments(model)}};
  const std::vector<CheckpointPart> target = blank(parts);
  std::uint64_t bytes = 0;
  Times times;
  {
    Writer writer(posix_env(), {.run_dir = run_dir,
                                .run_identity = "bench",
                                .virtual_workers = 1,
                                .keep_last = 1,
                                .gate = {},
                                .done = [&](const RunCursor&, const Result<Published>& result) {
                                  if (!result.ok()) return;
                                  bytes = result->bytes;
                                  times.published_ns = monotonic_ns();
                                }});
    measure(writer, run_dir, parts, target, 1, times);
    times = {};  // the first one faulted the pages in
    for (int i = 0; i < repeats; ++i)
      measure(writer, run_dir, parts, target, static_cast<std::uint64_t>(i) + 2, times);
  }
  require(posix_env().remove_all(run_dir));
  const double copy = copy_ms(bytes);
  const nlohmann::json result = {
      {"bytes", bytes},
      {"samples", repeats},
      {"copy_ms", copy},
      {"stall_ms", median(times.stall)},
      {"stall_over_copy", median(times.stall) / copy},
      {"written_synced_ms", median(times.written)},
      {"written_synced_GBps", static_cast<double>(bytes) / median(times.written) / 1e6},
      {"loaded_ms", median(times.loaded)}};
  std::printf("%s\n", result.dump(2).c_str());
  return 0;
}
