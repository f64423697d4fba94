// Milliseconds from a loader's making to its first batch, with two threads that prefetch, and
// pictures a second of a loader without threads, on one core: batches of pictures cropped, flipped
// and normalised. The first batch is checked before: the sampler's ids, and each picture as the
// data set gives it alone; the batches of the rate by their targets.
//
//   loader_bench [--json FILE] [--rounds N] cifar=FOLDER photographs=FOLDER
//
// cifar: CIFAR-10 as it is published, padded crops, batches of 128. photographs: by class in
// folders, cut to 224 x 224, batches of 32.
#include <ATen/Functions.h>
#include <ATen/Parallel.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lockstep/vision.h"

namespace lockstep::data {
namespace {

using namespace transforms;  // NOLINT(google-build-using-namespace): as vision.h shows it
using Pictures = std::shared_ptr<const PictureSet>;

constexpr int kThreads = 2;
constexpr std::int64_t kAhead = 4;  // batches
constexpr double kRateSeconds = 1;  // of whole epochs, at least one

[[noreturn]] void fail(const std::string& what) {
  std::fprintf(stderr, "loader_bench: %s\n", what.c_str());
  std::exit(1);
}

template <class T>
T take(Result<T> result) {
  if (!result.ok()) fail(result.error().message);
  return *std::move(result);
}

struct Row {
  std::string name;
  std::vector<double> first_batch_ms;
  std::vector<double> images_per_s;  // of each epoch
};

DataPlan plan_of(const Pictures& set, std::int64_t batch, std::uint64_t seed) {
  DataPlan plan;
  plan.dataset_size = set->size();
  plan.batch_size = batch;
  plan.seed = seed;
  return plan;
}

struct First {
  std::unique_ptr<Loader> loader;  // its threads are about the next batches
  Batch batch;
};

First first_batch(const Pictures& set, const DataPlan& plan) {
  auto loader = take(Loader::make(set, plan, {.prefetch_threads = kThreads}));
  std::vector<ShareId> next;
  const std::int64_t ahead = std::min(kAhead, plan.steps_per_epoch());
  for (std::int64_t step = 0; step < ahead; ++step) next.push_back({{0, step}, 0});
  loader->prefetch(next);
  Batch batch = take(loader->get(next.front()));
  return {std::move(loader), std::move(batch)};
}

void check(const Pictures& set, const DataPlan& plan) {
  const Batch batch = first_batch(set, plan).batch;
  DistributedSampler sampler;
  sampler.dataset_size = plan.dataset_size;
  sampler.seed = plan.seed;
  std::vector<std::int64_t> ids = take(sampler.order(0));
  ids.resize(static_cast<std::size_t>(plan.batch_size));
  if (batch.ids != ids) fail("the first batch has not the sampler's ids");
  for (std::size_t i = 0; i < ids.size(); ++i) {
    const Batch alone = take(set->get(std::vector{ids[i]}, Pass{plan.seed, 0, true}));
    const auto at = static_cast<std::int64_t>(i);
    if (!at::equal(batch.inputs[at], alone.inputs[0]) ||
        batch.targets[at].item<std::int64_t>() != set->label(ids[i]))
      fail("picture " + std::to_string(ids[i]) + " of the first batch is not the data set's");
  }
}

// Each step's targets are the labels of its ids: read in the clock, as a loop would.
double epoch_rate(Loader& loader, const Pictures& set, std::uint64_t epoch) {
  const auto begin = std::chrono::steady_clock::now();
  std::int64_t pictures = 0;
  for (std::int64_t step = 0; step < loader.plan().steps_per_epoch(); ++step) {
    const Batch batch = take(loader.get({{epoch, step}, 0}));
    const auto last = static_cast<std::int64_t>(batch.ids.size()) - 1;
    if (batch.inputs.size(0) != last + 1 ||
        batch.targets[last].item<std::int64_t>() != set->label(batch.ids.back()))
      fail("a batch that is not its ids'");
    pictures += last + 1;
  }
  return static_cast<double>(pictures) /
         std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

std::vector<double> epoch_rates(const Pictures& set, const DataPlan& plan) {
  const auto loader = take(Loader::make(set, plan, {.prefetch_threads = 0}));
  std::vector<double> rates;
  const auto begin = std::chrono::steady_clock::now();
  const auto spent = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  while (rates.empty() || spent() < kRateSeconds)
    rates.push_back(epoch_rate(*loader, set, rates.size()));
  return rates;
}

Row measure(const std::string& name, const Pictures& set, std::int64_t batch, int rounds) {
  check(set, plan_of(set, batch, 0));
  Row row{name, {}, {}};
  for (int round = 0; round < rounds; ++round) {
    const DataPlan plan = plan_of(set, batch, static_cast<std::uint64_t>(round));
    const auto begin = std::chrono::steady_clock::now();
    const First first = first_batch(set, plan);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    if (first.batch.inputs.size(0) != batch) fail("a batch of another size");
    row.first_batch_ms.push_back(spent.count());
  }
  at::set_num_threads(1);
  row.images_per_s = epoch_rates(set, plan_of(set, batch, 0));
  at::set_num_threads(kThreads);
  return row;
}

Row row_of(const std::string& kind, const std::string& folder, int rounds) {
  if (kind == "cifar")
    return measure(kind,
                   take(open_cifar10(folder, Split::kTrain,
                                     {RandomCrop{32, 32, 4}, RandomHorizontalFlip{}, ToTensor{},
                                      Normalize{{.491F, .482F, .447F}, {.247F, .243F, .262F}}})),
                   128, rounds);
  if (kind == "photographs")
    return measure(kind,
                   take(open_image_folder(
                       folder, {RandomResizedCrop{224, 224}, RandomHorizontalFlip{}, ToTensor{},
                                Normalize{{.485F, .456F, .406F}, {.229F, .224F, .225F}}})),
                   32, rounds);
  fail("'" + kind + "' is neither cifar nor photographs");
}

void print(const std::vector<Row>& rows, const std::string& json) {
  nlohmann::ordered_json told;
  for (const Row& row : rows)
    told[row.name] = {{"first_batch_ms", row.first_batch_ms}, {"images_per_s", row.images_per_s}};
  const std::string text = told.dump() + "\n";
  std::fputs(text.c_str(), stdout);
  if (json.empty()) return;
  std::ofstream out(json);
  out << text;
  if (!out.flush()) fail("cannot write " + json);
}

int run(int argc, char** argv) {
  std::string json;
  int rounds = 20;
  std::vector<std::pair<std::string, std::string>> sets;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    const std::size_t equals = word.find('=');
    if (word == "--json" && i + 1 < argc)
      json = argv[++i];
    else if (word == "--rounds" && i + 1 < argc)
      rounds = std::atoi(argv[++i]);
    else if (equals != std::string::npos)
      sets.emplace_back(word.substr(0, equals), word.substr(equals + 1));
    else
      fail("'" + word + "' is no KIND=FOLDER");
  }
  if (rounds < 1 || sets.empty()) fail("needs KIND=FOLDER, and at least one round");
  std::vector<Row> rows;
  rows.reserve(sets.size());
  at::set_num_threads(1);
  for (const auto& [kind, folder] : sets) rows.push_back(row_of(kind, folder, rounds));
  print(rows, json);
  return 0;
}

}  // namespace
}  // namespace lockstep::data

int main(int argc, char** argv) { return lockstep::data::run(argc, argv); }
