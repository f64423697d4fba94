#include "options.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <string_view>

#include "lockstep/command_line.h"
#include "lockstep/spawn.h"
#include "tutorial.h"

namespace convnet {
namespace {

using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::Status;
using lockstep::data::Shuffle;

constexpr int kMostGpus = 128;  // lockstep::spawn()'s limit
constexpr int kLeastSide = 4;

// What the document's own arguments say, before they are settled.
struct Cluster {
  int nodes = 1;
  int gpus = 0;  // of each node; 0: not given
  int nr = 0;
  int seconds = 300;                        // --init-timeout
  int all() const { return nodes * gpus; }  // the document's world size
};

// argparse's short names with one dash, as the document has them.
std::string spelled_out(const std::string& word) {
  for (const auto& [brief, name] : {std::pair{"-nr", "--nr"}, {"-n", "--nodes"}, {"-g", "--gpus"}})
    if (word == brief) return name;
  return word;
}

// The mode decides the defaults of other options, so it is looked for before they are read.
Mode mode_in(const std::vector<std::string>& words) {
  Mode mode = Mode::kDistributed;
  for (std::size_t i = 1; i < words.size(); ++i) {
    constexpr std::string_view kName = "--mode=";
    if (words[i].starts_with(kName)) mode = mode_named(words[i].substr(kName.size()));
    if (words[i] == "--mode" && i + 1 < words.size()) mode = mode_named(words[i + 1]);
  }
  return mode;
}

bool one_process(Mode mode) { return mode == Mode::kSingle || mode == Mode::kDataParallel; }

Error wrong(const std::string& what) { return Error{ErrorKind::kUsage, what}; }

Status check_nodes(const Cluster& cluster, Mode mode) {
  const std::string nodes = std::to_string(cluster.nodes);
  if (cluster.nr >= cluster.nodes)
    return wrong("--nr is " + std::to_string(cluster.nr) + "; with --nodes " + nodes +
                 " it is at most " + std::to_string(cluster.nodes - 1));
  if (cluster.nodes == 1) return {};
  if (one_process(mode))
    return wrong("--nodes is " + nodes + "; --mode " + std::string(name_of(mode)) + " has one");
  if (cluster.gpus == 0)
    return wrong("--nodes is " + nodes + ", and --gpus (-g) is missing: how many workers each has");
  if (cluster.all() > kMostGpus)
    return wrong("--nodes times --gpus is " + std::to_string(cluster.all()) + "; at most " +
                 std::to_string(kMostGpus) + " workers are possible");
  return {};
}

// Where it is not fp32, it decides the arithmetic.
Status settle_precision(Options& options) {
  if (options.opt_level == OptLevel::kO0) return {};
  if (options.mode == Mode::kDataParallel)
    return wrong(
        "--opt-level: --mode dp trains in fp32 (O0); the document, too, has mixed "
        "precision with DistributedDataParallel alone");
  options.run.identity["opt_level"] = "O" + std::to_string(static_cast<int>(options.opt_level));
  options.run.identity["half_dtype"] = options.half == HalfType::kFloat16 ? "fp16" : "bf16";
  return {};
}

Status settle_one_process(const Cluster& cluster, Options& options) {
  const std::string mode(name_of(options.mode));
  int& workers = options.run.virtual_workers;
  if (workers > 1)
    return wrong("--virtual-workers is " + std::to_string(workers) + "; --mode " + mode +
                 " has one");
  if (options.mode == Mode::kSingle && cluster.gpus > 1)
    return wrong("--gpus is " + std::to_string(cluster.gpus) + "; --mode single has one");
  workers = 1;
  options.replicas = cluster.gpus == 0 ? kTutorialGpus : cluster.gpus;
  return {};
}

// V = 1 and R, or V and who starts the workers: what the document's arguments stand for in this
// mode.
Status settle(const Cluster& cluster, Options& options) {
  LOCKSTEP_TRY(check_nodes(cluster, options.mode));
  if (one_process(options.mode)) return settle_one_process(cluster, options);
  if (cluster.gpus == 0) return {};
  int& workers = options.run.virtual_workers;
  if (workers > 0 && workers != cluster.all())
    return wrong("--virtual-workers is " + std::to_string(workers) + ", but --gpus " +
                 std::to_string(cluster.gpus) +
                 (cluster.nodes == 1 ? "" : " on " + std::to_string(cluster.nodes) + " nodes") +
                 "; give one of them");
  workers = cluster.all();
  options.others_start = lockstep::inside_run();
  options.spawned = options.others_start ? 0 : cluster.gpus;
  if (cluster.nodes > 1 &&
      !options.others_start)  // where they meet: MASTER_ADDR and MASTER_PORT, as there
    options.rendezvous =
        lockstep::Rendezvous{.rank = cluster.nr * cluster.gpus, .world_size = cluster.all()};
  return {};
}

// What was published is of these settings.
Status check_comparable(const Options& options) {
  if (!options.check_against_tutorial) return {};
  const auto published = [](const std::string& option, const std::string& value) {
    return wrong("--check-against-tutorial compares with a run of " + option + " " + value +
                 "; leave the option out, or give it so");
  };
  const lockstep::RunOptions& run = options.run;
  if (options.data == "synthetic") return published("--data", "FOLDER (the real MNIST)");
  if (options.optimizer != "sgd") return published("--optimizer", "sgd");
  if (options.lr != 1e-4) return published("--lr", "1e-4");
  if (options.momentum != 0) return published("--momentum", "0");
  if (options.image_size > 0) return published("--image-size", "0");
  if (options.opt_level != OptLevel::kO0) return published("--opt-level", "O0");
  if (run.batch_size != 100) return published("--batch-size", "100");
  if (run.accumulation_steps != 1) return published("--accumulation-steps", "1");
  if (run.seed != 0) return published("--seed", "0");
  const bool alone = one_process(options.mode);
  if (run.shuffle != (alone ? Shuffle::kLegacy : Shuffle::kDistributed))
    return published("--shuffle", alone ? "legacy" : "distributed");
  if (options.mode == Mode::kDataParallel && options.replicas != kTutorialGpus)
    return published("--gpus", std::to_string(kTutorialGpus));
  if (!alone && run.virtual_workers != kTutorialGpus)
    return published("--virtual-workers", std::to_string(kTutorialGpus));
  const std::int64_t first = published_for(options.mode).every;
  if (run.max_steps == 0 || run.max_steps >= first) return {};
  return wrong("--check-against-tutorial: --max-steps is " + std::to_string(run.max_steps) +
               "; the tutorial's first line is at step " + std::to_string(first));
}

void add_options(lockstep::CommandLine& line, Options& options, Cluster& cluster) {
  line.add_choice(
      "--mode", {"single", "dp", "ddp", "horovod"}, "ddp",
      [&](const std::string& name) { options.mode = mode_named(name); },
      "one device, DataParallel, DistributedDataParallel or Horovod's style");
  line.add_path("--data", options.data,
                "'synthetic' (digits drawn once), or a folder with MNIST's IDX files");
  line.add_choice(
      "--optimizer", {"sgd", "adam"}, options.optimizer,
      [&](const std::string& value) { options.optimizer = value; }, "the optimizer");
  line.add("--lr", options.lr, "learning rate", {.least = 0});
  line.add("--momentum", options.momentum, "of sgd", {.least = 0});
  line.add_choice(
      "--opt-level", {"O0", "O1", "O2", "O3"}, "O0",
      [&](const std::string& level) { options.opt_level = static_cast<OptLevel>(level[1] - '0'); },
      "Apex's: fp32; autocast; half weights with fp32 masters and batch norm; half throughout");
  line.add_choice(
      "--half-dtype", {"fp16", "bf16"}, "fp16",
      [&](const std::string& name) {
        options.half = name == "fp16" ? HalfType::kFloat16 : HalfType::kBFloat16;
      },
      "of O1, O2, O3");
  line.add("--test-batch-size", options.run.evaluation_batch_size,
           "pictures of one evaluation's batch", {.least = 1});
  line.add("--image-size", options.image_size,
           "height and width that pictures are scaled to; 0: as they come, 28 for MNIST",
           {.least = 0, .most = 1024});
  line.add("--threads", options.threads, "CPU threads of each worker; 0: OMP_NUM_THREADS, else 1",
           {.least = 0, .most = 1024});
  line.add("--nodes", cluster.nodes,
           "or -n: nodes, with one command for each, which meet by MASTER_ADDR and MASTER_PORT; "
           "so far all on one machine",
           {.least = 1, .most = kMostGpus});
  line.add("--gpus", cluster.gpus,
           "or -g: workers that each node's command starts, each of them a virtual worker; under "
           "`lockstep run` it says the number of virtual workers alone; dp: the number of replicas "
           "(4); 0: not given",
           {.least = 0, .most = kMostGpus});
  line.add("--nr", cluster.nr, "or -nr: this node's number, from 0", {.least = 0});
  line.add("--init-timeout", cluster.seconds,
           "commands by hand: seconds that the first start waits for all of them, in place of "
           "LOCKSTEP_INIT_TIMEOUT",
           {.least = 1, .most = 1800});
  line.add_flag("--check-against-tutorial", options.check_against_tutorial,
                "say at the end how many of the loss lines that the tutorial printed agree");
}

}  // namespace

Options parse(int argc, char** argv) {
  std::vector<std::string> words(argv, argv + argc);
  for (std::string& word : words) word = spelled_out(word);
  std::vector<char*> pointers(words.size());
  std::transform(words.begin(), words.end(), pointers.begin(),
                 [](auto& word) { return word.data(); });

  Options options;
  Cluster cluster;
  options.run.name = "convnet";
  options.run.output = "convnet-run";
  options.run.evaluation_batch_size = 1000;
  lockstep::CommandLine line(
      "convnet",
      "MNIST with a small convolutional net, on any number of workers, with the same bits");
  add_options(line, options, cluster);
  // As the tutorial: its samplers, and the order that its DataLoader of 2019 had.
  options.run.shuffle = one_process(mode_in(words)) ? Shuffle::kLegacy : Shuffle::kDistributed;
  lockstep::add_run_options(line, options.run);
  line.parse(argc, pointers.data());
  Status status = settle(cluster, options);
  // Where this command starts all workers itself, there is nobody to wait for.
  if (line.given("--init-timeout") && (options.rendezvous || options.spawned == 0)) {
    if (!options.rendezvous) options.rendezvous = lockstep::Rendezvous{};
    options.rendezvous->wait = std::chrono::seconds(cluster.seconds);
  }
  options.run.identity = {{"optimizer", options.optimizer},
                          {"lr", lockstep::identity_text(options.lr)},
                          {"momentum", lockstep::identity_text(options.momentum)}};
  if (options.image_size > 0)
    options.run.identity["image_size"] = std::to_string(options.image_size);
  if (status.ok() && options.image_size > 0 && options.image_size < kLeastSide)
    status = Error{ErrorKind::kUsage, "--image-size is " + std::to_string(options.image_size) +
                                          "; 0, or at least " + std::to_string(kLeastSide) +
                                          ": the net halves pictures twice"};
  if (status.ok()) status = settle_precision(options);
  if (options.check_against_tutorial && !one_process(options.mode) &&
      options.run.virtual_workers == 0)
    options.run.virtual_workers = kTutorialGpus;
  if (status.ok()) status = check_comparable(options);
  if (!status.ok()) lockstep::exit_with(status.error());
  if (options.mode == Mode::kDataParallel)
    options.run.identity["replicas"] = std::to_string(options.replicas);
  return options;
}

std::unique_ptr<lockstep::Optimizer> make_optimizer(const Options& options,
                                                    std::vector<at::Tensor> parameters) {
  if (options.optimizer == "adam")
    return std::make_unique<lockstep::Adam>(std::move(parameters),
                                            lockstep::AdamOptions{.lr = options.lr});
  return std::make_unique<lockstep::SGD>(
      std::move(parameters), lockstep::SGDOptions{.lr = options.lr, .momentum = options.momentum});
}

bool Options::first_command() const {
  if (rendezvous && rendezvous->rank >= 0) return rendezvous->rank == 0;
  const char* const rank = std::getenv("RANK");
  return rank == nullptr || std::string_view(rank) == "0";
}

}  // namespace convnet
