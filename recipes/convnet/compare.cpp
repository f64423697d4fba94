// convnet_compare RUN...: times and losses of runs of convnet, side by side.
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <vector>

#include "records.h"

namespace {

using convnet::Record;

constexpr std::int64_t kEvery = 10'000;  // samples from row to row: the tutorial's lines of one GPU

// Of the first step with which the run has seen so many samples; nullptr: it has not.
const double* loss_at(const Record& record, std::int64_t samples) {
  std::int64_t seen = 0;
  for (const auto& [number, step] : record.losses)
    if ((seen += step.samples) >= samples) return &step.loss;
  return nullptr;
}

std::int64_t samples_of(const Record& record) {
  std::int64_t seen = 0;
  for (const auto& [number, step] : record.losses) seen += step.samples;
  return seen;
}

void print_runs(const std::vector<Record>& records) {
  std::printf("%4s  %-8s %7s %7s %10s  %s\n", "run", "mode", "workers", "steps", "seconds",
              "directory");
  for (std::size_t i = 0; i < records.size(); ++i) {
    const Record& r = records[i];
    std::printf("%4zu  %-8s %7d %7zu ", i + 1, std::string(name_of(r.mode)).c_str(), r.workers,
                r.losses.size());
    if (r.seconds > 0)
      std::printf("%10.1f", r.seconds);
    else
      std::printf("%10s", "unfinished");
    std::printf("  %s\n", r.folder.c_str());
  }
}

void print_losses(const std::vector<Record>& records) {
  std::int64_t most = 0;
  for (const Record& r : records) most = std::max(most, samples_of(r));
  std::printf("\n%9s", "samples");
  for (std::size_t i = 0; i < records.size(); ++i)
    std::printf("  %8s", ("loss " + std::to_string(i + 1)).c_str());
  std::printf("\n");
  for (std::int64_t samples = kEvery; samples <= most; samples += kEvery) {
    std::printf("%9ld", long{samples});
    for (const Record& r : records)
      if (const double* loss = loss_at(r, samples))
        std::printf("  %8.4f", *loss);
      else
        std::printf("  %8s", "-");
    std::printf("\n");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  const bool help = !words.empty() && words.front() == "--help";
  if (words.empty() || help) {
    std::fputs(
        "convnet_compare RUN...: times and losses of runs of convnet, side by side.\n"
        "RUN: a run directory (convnet --output). A row for each 10,000 samples; the loss is the "
        "one that the run prints.\n",
        help ? stdout : stderr);
    return help ? 0 : 2;
  }
  std::vector<Record> records;
  for (const std::string& word : words) {
    auto record = convnet::read_record(word);
    if (!record.ok()) {
      std::fprintf(stderr, "convnet_compare: error: %s\n", record.error().message.c_str());
      return lockstep::exit_code(record.error().kind);
    }
    records.push_back(*std::move(record));
  }
  print_runs(records);
  print_losses(records);
  return 0;
}
