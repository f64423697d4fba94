#include "train/without_data.h"

#include <string>
#include <utility>

#include "base/errors.h"
#include "train/option_rules.h"

namespace lockstep::training {
namespace {

// 400 days of steps of a microsecond.
constexpr std::int64_t kSteps = std::int64_t{1} << 45;

Status refuse(const std::string& option, const std::string& why) {
  return misuse(option + ", but this program has no data set (Step::open() without one), and so " +
                why);
}

// Of batches, the first that is given; empty: none.
std::string batch_option_of(const RunOptions& options) {
  const RunOptions none;
  if (options.batch_size != none.batch_size || given(options, "--batch-size"))
    return "--batch-size is " + std::to_string(options.batch_size);
  if (options.global_batch_size != 0)
    return "global_batch_size is " + std::to_string(options.global_batch_size);
  if (options.evaluation_batch_size != 0)
    return "evaluation_batch_size is " + std::to_string(options.evaluation_batch_size);
  if (options.shuffle != none.shuffle || given(options, "--shuffle"))
    return std::string("--shuffle is ") + data::to_string(options.shuffle);
  if (options.drop_last || given(options, "--drop-last"))
    return std::string("--drop-last is ") + (options.drop_last ? "on" : "off");
  if (options.prefetch_threads != 0)
    return "prefetch_threads is " + std::to_string(options.prefetch_threads);
  return "";
}

}  // namespace

Status check_without_data(const RunOptions& options) {
  if (const std::string option = batch_option_of(options); !option.empty())
    return refuse(option, "no batches: leave it out");
  if (options.epochs != RunOptions().epochs || given(options, "--epochs"))
    return refuse("--epochs is " + std::to_string(options.epochs),
                  "no epochs: --max-steps says how long it is");
  if (options.new_virtual_workers || given(options, "--new-virtual-workers"))
    return refuse(
        std::string("--new-virtual-workers is ") + (options.new_virtual_workers ? "on" : "off"),
        "no epochs, at whose start alone another number may go on: begin anew");
  for (const auto& [name, every] : {std::pair("--max-duration", options.max_duration),
                                    std::pair("--checkpoint-every", options.checkpoint_every),
                                    std::pair("--log-every", options.log_every)})
    if (every.unit == Duration::Unit::kEpochs && !every.none())
      return refuse(std::string(name) + " is " + every.text(),
                    "no epochs: give steps, as 500ba" +
                        std::string(name == std::string("--log-every") ? "" : ", or time, as 2h"));
  return {};
}

data::DataPlan plan_without_data(int virtual_workers, std::uint64_t seed) {
  data::DataPlan plan;
  plan.dataset_size = kSteps * virtual_workers;
  plan.virtual_workers = virtual_workers;
  plan.batch_size = 1;
  plan.seed = seed;
  plan.shuffle = data::Shuffle::kSequential;
  return plan;
}

}  // namespace lockstep::training
