#include "train/run_identity.h"

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include "base/hash.h"
#include "base/text.h"
#include "train/data_identity.h"

namespace lockstep::train {
namespace {

constexpr const char* kStartEpoch = "start_epoch";

void add_data_plan(RunManifest& manifest, const data::DataPlan& plan) {
  manifest.set(kVirtualWorkersKey, plan.virtual_workers);
  manifest.set("batch_size", plan.batch_size);
  manifest.set("seed", std::to_string(plan.seed));
  manifest.set("shuffle", data::to_string(plan.shuffle));
  if (!plan.generator_state.empty())
    manifest.set("generator_state_sha256", sha256_hex(plan.generator_state));
  manifest.set("dataset_size", plan.dataset_size);
  if (plan.drop_last_batch) manifest.set("drop_last", "yes");
}

void add_epoch_ends(RunManifest& manifest, const RunSpec& spec, BestOf best) {
  manifest.set("evaluates", spec.evaluates ? "yes" : "no");
  if (spec.plan.ends_epochs && !spec.evaluates) manifest.set("ends_epochs", "yes");
  if (spec.plan.exports) manifest.set("exports", "yes");
  if (best != BestOf::kNothing) manifest.set("best_of", static_cast<std::int64_t>(best));
}

// With the number of virtual workers that 0 came to.
std::string resolved(std::string config, std::int64_t virtual_workers) {
  const std::string unknown = "virtual-workers=0\n";
  const auto at = config.find(unknown);
  if (at == std::string::npos || (at != 0 && config[at - 1] != '\n')) return config;
  return config.replace(at, unknown.size(),
                        "virtual-workers=" + std::to_string(virtual_workers) + "\n");
}

}  // namespace

std::optional<Origin> origin_of(const RunManifest& manifest) {
  const auto epoch = manifest.number(kStartEpoch);
  if (!epoch) return std::nullopt;
  return Origin{*epoch, manifest.value(kInitialWeightsKey), false};
}

Result<RunManifest> make_manifest(const Context& context, const RunSpec& spec, const Hooks& hooks,
                                  const TrainState& state, const std::optional<Origin>& origin) {
  RunManifest manifest;
  for (const auto& [key, value] : spec.options.identity) manifest.set(key, value);
  manifest.set("format", 1);
  manifest.set("program", spec.options.name);
  add_data_plan(manifest, spec.data_plan);
  add_epoch_ends(manifest, spec, hooks.best);
  manifest.set(kInitialWeightsKey, origin ? origin->weights_sha256 : state.weights_sha256());
  if (origin) manifest.set(kStartEpoch, origin->epoch);
  for (std::size_t i = 0; i < state.optimizers().size(); ++i)
    manifest.set("optimizer_" + std::to_string(i), state.optimizers()[i]->settings());
  for (std::size_t i = 0; i < state.schedulers().size(); ++i)
    manifest.set("scheduler_" + std::to_string(i), state.schedulers()[i]->settings());
  if (spec.options.clip_grad_norm > 0)
    manifest.set("clip_grad_norm", shortest(spec.options.clip_grad_norm));
  manifest.set("threads", context.threads());
  manifest.set("torch", TORCH_VERSION);
  manifest.set("cpu_capability", at::get_cpu_capability());
  LOCKSTEP_TRY(add_data(manifest, "dataset", *spec.train));
  if (spec.evaluates) LOCKSTEP_TRY(add_data(manifest, "test_set", *spec.test));
  return manifest;
}

Status write_identity(const RunSpec& spec, const RunManifest& manifest) {
  const RunOptions& options = spec.options;
  LOCKSTEP_TRY(write_manifest(posix_env(), options.output, manifest));
  if (options.config.empty()) return {};
  return write_atomically(posix_env(), options.output + "/config.toml",
                          resolved(options.config, spec.data_plan.virtual_workers));
}

}  // namespace lockstep::train
