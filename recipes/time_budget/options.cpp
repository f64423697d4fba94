#include "options.h"

#include <filesystem>

#include "lockstep/command_line.h"
#include "lockstep/context.h"

namespace time_budget {
namespace {

constexpr const char* kEnding = ".pt";
constexpr double kMostHours = 24 * 366 * 10;

void add_options(lockstep::CommandLine& line, Options& options) {
  line.add("--train-time", options.train_time,
           "hours that the whole run has, all its starts together; 0: no limit",
           {.least = 0, .most = kMostHours});
  line.add("--model-name", options.model_name, "NAME.pt, the best model so far");
  line.add_path("--saves", options.saves, "the folder for NAME.pt and NAME_metrics.pt");
  line.add_path(
      "--data", options.data,
      "a folder with photographs by class; four fifths are trained on, the rest validates");
  line.add_path("--weights", options.weights,
                "torchvision's file of vgg19; without: random values, said on standard error");
  line.add("--lr", options.lr,
           "learning rate of one virtual worker; the run's is that times the root of their number",
           {.least = 0});
  line.add("--image-size", options.image_size, "pictures' height and width",
           {.least = 32, .most = 4096});
  line.add("--classifier-width", options.classifier_width,
           "of the new classifier's first layer; the second has half of it",
           {.least = 2, .most = 1 << 16});
  line.add("--num-workers", options.run.prefetch_threads,
           "threads of each worker that prepare pictures ahead; they change no bit",
           {.least = 0, .most = 64});
  line.add_path(
      "--evaluate", options.evaluate,
      "NAME.pt, a run or a checkpoint of one: prints its loss and accuracy on the whole of --data, "
      "and trains nothing");
  line.add_path("--json", options.json, "with --evaluate: a file for 'lockstep report'");
}

lockstep::Status check(const Options& options) {
  const auto wrong = [](const std::string& what) {
    return lockstep::Error{lockstep::ErrorKind::kUsage, what};
  };
  if (!options.model_name.ends_with(kEnding) || options.model_name.size() == 3 ||
      options.model_name.find('/') != std::string::npos)
    return wrong("--model-name is '" + options.model_name +
                 "': NAME.pt, without a folder (--saves has that)");
  if (options.saves.empty()) return wrong("--saves is empty; give a folder");
  if (!options.json.empty() && options.evaluate.empty())
    return wrong("--json is for the figures of --evaluate CHECKPOINT");
  if (!options.json.empty() && !options.json.ends_with(".json"))
    return wrong("--json is '" + options.json + "': a file that ends with .json");
  return {};
}

}  // namespace

std::string Options::metrics() const {
  return saves + "/" + model_name.substr(0, model_name.size() - 3) + "_metrics.pt";
}

Options parse(int argc, char** argv) {
  Options options;
  options.run.name = "multi_node_trainer";
  options.run.output = "";
  options.run.epochs = 1000;
  options.run.batch_size = 32;
  options.run.log_every = {};
  lockstep::CommandLine line("multi_node_trainer",
                             "photographs by class with a VGG-19, for so many hours, on any number "
                             "of workers; SAVES/NAME-run is the run directory unless --output is "
                             "given");
  add_options(line, options);
  lockstep::add_run_options(line, options.run);
  line.parse(argc, argv);
  if (const lockstep::Status status = check(options); !status.ok())
    lockstep::exit_with(status.error());
  const std::string name = options.model_name.substr(0, options.model_name.size() - 3);
  if (options.run.output.empty()) options.run.output = options.saves + "/" + name + "-run";
  options.run.files = {options.snapshot(), options.metrics()};
  options.run.max_seconds = options.train_time * 3600;
  return options;
}

}  // namespace time_budget
