#include "options.h"

#include <time.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include "lockstep/command_line.h"
#include "lockstep/context.h"

namespace cifar_cluster {
namespace {

using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::Status;

constexpr double kMostBytes = 64e9;  // of random pictures

Status check(const Options& options) {
  if (options.enable_gpu == "true")
    return Error{ErrorKind::kUsage,
                 "--enable_gpu is 'true', but this build has no GPU support: give auto or false, "
                 "or leave it out, to train on the CPU"};
  const double side = static_cast<double>(options.image_size);
  const double bytes =
      3 * sizeof(float) * side * side *
      (static_cast<double>(options.train_samples) + static_cast<double>(options.val_samples));
  if (options.custom_data && bytes > kMostBytes)
    return Error{ErrorKind::kUsage,
                 "--train-samples " + std::to_string(options.train_samples) +
                     " and --val-samples " + std::to_string(options.val_samples) +
                     " of --image-size " + std::to_string(options.image_size) + " would take " +
                     std::to_string(static_cast<std::int64_t>(bytes / 1e9)) +
                     " GB of memory; at most " +
                     std::to_string(static_cast<std::int64_t>(kMostBytes / 1e9))};
  return {};
}

// datetime.datetime.now().year
std::uint64_t this_year() {
  const std::time_t now = ::time(nullptr);
  std::tm local{};
  ::localtime_r(&now, &local);
  return static_cast<std::uint64_t>(local.tm_year) + 1900;
}

std::string folder_of_program() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

void add_bool(lockstep::CommandLine& line, const std::string& name, bool& target,
              const std::string& help) {
  line.add_choice(
      name, {"true", "false"}, target ? "true" : "false",
      [&target](const std::string& value) { target = value == "true"; }, help);
}

// As on the command line.
struct Start {
  std::string address;
  int rank = -1, world_size = -1;  // the environment's
  int seconds = 300;
};

// Without a word of it the environment may have one.
std::optional<lockstep::Rendezvous> rendezvous_of(const lockstep::CommandLine& line,
                                                  const Start& start) {
  const bool any = line.given("--init-method") || line.given("--rank") ||
                   line.given("--world-size") || line.given("--init-timeout");
  if (!any) return std::nullopt;
  // The document's default, where the environment has none.
  const bool first = line.given("--world-size") && !line.given("--rank") && !std::getenv("RANK");
  lockstep::Rendezvous found{start.address, first ? 0 : start.rank, start.world_size};
  if (line.given("--init-timeout")) found.wait = std::chrono::seconds(start.seconds);
  return found;
}

void add_arguments(lockstep::CommandLine& line, Options& options, Start& start) {
  line.add_choice(
      "--enable-gpu", {"true", "false", "auto"}, options.enable_gpu,
      [&](const std::string& value) { options.enable_gpu = value; }, "auto: if this build can");
  line.add("--lr", options.lr, "learning rate of one virtual worker; the run's is that times V",
           {.least = 0});
  line.add("--init-method", start.address,
           "one command for each rank: tcp://HOST:PORT where they meet, on this machine; blank: by "
           "'lockstep run', or MASTER_ADDR and MASTER_PORT");
  line.add("--rank", start.rank, "of this command's process; -1: RANK, or else 0", {.least = -1});
  line.add("--world-size", start.world_size, "number of ranks; -1: WORLD_SIZE, or else 1",
           {.least = -1});
  line.add("--init-timeout", start.seconds,
           "seconds that the first start waits for all ranks, in place of LOCKSTEP_INIT_TIMEOUT",
           {.least = 1, .most = 1800});
  add_bool(line, "--custom-data", options.custom_data,
           "random pictures of two classes: nothing is to be downloaded");
  line.add_path(
      "--data-url", options.data_url,
      "a folder with cifar-10-batches-py or cifar-10-batches-bin, or with pictures by class in "
      "train and val");
  line.add_path("--output-dir", options.output_dir,
                "a folder for epoch_N.pth; made if it is not there");
  line.add("--image-size", options.image_size, "pictures' height and width",
           {.least = 1, .most = 4096});
  line.add("--train-samples", options.train_samples, "of the random data", {.least = 2});
  line.add("--val-samples", options.val_samples, "of the random data", {.least = 2});
  line.add_choice(
      "--memory-format", {"contiguous", "channels_last"}, "contiguous",
      [&](const std::string& value) { options.channels_last = value == "channels_last"; },
      "of pictures and convolutions' weights: channels_last is faster on a CPU, with other bits");
  add_bool(line, "--module-prefix", options.module_prefix,
           "names in epoch_N.pth begin with 'module.', as the original's");
  line.add_path("--weights", options.weights,
                "a new run goes on after epoch N from this epoch_N.pth, whoever wrote it");
}

}  // namespace

Options parse(int argc, char** argv) {
  Options options;
  const std::string here = folder_of_program();
  options.data_url = here + "/input_dir";
  options.output_dir = here + "/output_dir";
  options.run.name = "cifar_cluster";
  options.run.output = "";
  options.run.epochs = 100;
  options.run.batch_size = 128;
  options.run.drop_last = true;
  options.run.log_every = {};
  options.run.seed = this_year();
  lockstep::CommandLine line("cifar_cluster",
                             "CIFAR-10 with a ResNet-18, on any number of workers; DIR/run in "
                             "--output-dir DIR is the run directory unless --output is given");
  Start start;
  add_arguments(line, options, start);
  lockstep::add_run_options(line, options.run);
  line.on_unknown([&](const std::string& words) {
    options.warnings += "WARNING:root:unknown arguments, left aside: " + words + "\n";
  });
  line.parse(argc, argv);

  options.seed = options.run.seed;
  options.seed_given = line.given("--seed");
  options.rendezvous = rendezvous_of(line, start);
  // DistributedSampler's own seed is 0, and the original's epochs begin with set_epoch(1).
  options.run.seed = 1;
  if (options.run.output.empty()) options.run.output = options.output_dir + "/run";
  if (options.custom_data)
    options.warnings +=
        "WARNING:root:you are training on custom random dataset, validation accuracy may range "
        "from 0.4 to 0.6.\n";
  else if (line.given("--train-samples") || line.given("--val-samples"))
    options.warnings +=
        "WARNING:root:--train-samples and --val-samples are of the random data (--custom_data "
        "true), left aside\n";
  if (const Status status = check(options); !status.ok()) lockstep::exit_with(status.error());
  return options;
}

void greet(const Options& options) {
  std::printf("enable_gpu %s: training on the CPU%s\n", options.enable_gpu.c_str(),
              options.enable_gpu == "auto" ? ", as this build has no GPU support" : "");
  std::fputs(options.warnings.c_str(), stderr);
}

}  // namespace cifar_cluster
