#include "options.h"

#include <charconv>

#include "lockstep/command_line.h"

namespace convnet {

// The shortest text that reads back as the same number: another rate is another run.
static std::string number(double value) {
  char text[32];
  return {text, std::to_chars(text, text + sizeof(text), value).ptr};
}

Options parse(int argc, char** argv) {
  Options options;
  options.run.name = "convnet";
  options.run.output = "convnet-run";
  lockstep::CommandLine line(
      "convnet",
      "MNIST with a small convolutional net, on any number of workers, with the same bits");
  line.add("--data", options.data,
           "'synthetic' (digits drawn once), or a folder with MNIST's IDX files");
  line.add_choice(
      "--optimizer", {"sgd", "adam"}, options.optimizer,
      [&](const std::string& value) { options.optimizer = value; }, "the optimizer");
  line.add("--lr", options.lr, "learning rate", {.least = 0});
  line.add("--momentum", options.momentum, "of sgd", {.least = 0});
  line.add("--threads", options.threads, "CPU threads of each worker; 0: OMP_NUM_THREADS, else 1",
           {.least = 0, .most = 1024});
  options.run.shuffle = lockstep::data::Shuffle::kDistributed;  // as the tutorial
  lockstep::add_run_options(line, options.run);
  line.parse(argc, argv);
  options.run.identity = {{"optimizer", options.optimizer},
                          {"lr", number(options.lr)},
                          {"momentum", number(options.momentum)}};
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

}  // namespace convnet
