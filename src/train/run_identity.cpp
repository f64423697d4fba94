#include "train/run_identity.h"

#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <sstream>

#include "base/env.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/text.h"
#include "train/carried_rows.h"
#include "train/data_identity.h"
#include "train/option_rules.h"

namespace lockstep {

std::string identity_text(double value) { return shortest(value); }

}  // namespace lockstep

namespace lockstep::training {
namespace {

constexpr std::uint64_t kMostConfigBytes = std::uint64_t{1} << 20;

void add_data_plan(rundir::RunManifest& manifest, const data::DataPlan& plan,
                   const RunOptions& options) {
  if (options.global_batch_size > 0)
    manifest.set("global_batch_size", options.global_batch_size);
  else
    manifest.set("batch_size", plan.batch_size);
  manifest.set("shuffle", data::to_string(plan.shuffle));
  if (!plan.generator_state.empty())
    manifest.set("generator_state_sha256", sha256_hex(plan.generator_state));
  manifest.set("dataset_size", plan.dataset_size);
  if (plan.drop_last_batch) manifest.set("drop_last", "yes");
}

void add_epoch_ends(rundir::RunManifest& manifest, const RunSpec& spec, const BestBy& best) {
  manifest.set("evaluates", spec.evaluates ? "yes" : "no");
  if (spec.evaluates && spec.options.evaluate_every != Duration::epochs(1))
    manifest.set("evaluate_every", spec.options.evaluate_every.text());
  if (spec.plan.ends_epochs && !spec.evaluates) manifest.set("ends_epochs", "yes");
  if (spec.plan.exports) manifest.set("exports", "yes");
  if (!best.name.empty())
    manifest.set("best_of", (best.greatest() ? "max " : "min ") + best.name);
  else if (!best.nothing())
    manifest.set("best_of", static_cast<std::int64_t>(best.of));
}

std::map<std::string, std::string> settings_of(const std::string& config) {
  std::map<std::string, std::string> settings;
  std::istringstream lines(config);
  for (std::string line; std::getline(lines, line);)
    if (const auto at = line.find('='); at != line.npos)
      settings[line.substr(0, at)] = line.substr(at + 1);
  return settings;
}

// Of the program's own options: what the run's may change from start to start is settled
// elsewhere.
std::string changed_settings(const std::string& before, const std::string& now) {
  const auto old = settings_of(before);
  std::string changes;
  for (const auto& [name, value] : settings_of(now)) {
    const auto was = old.find(name);
    if (was == old.end() || was->second == value) continue;
    if (std::ranges::find(kRunOptions, name) != kRunOptions.end()) continue;
    changes += (changes.empty() ? "--" : ", --") + name + " was " + was->second + ", now " + value;
  }
  return changes;
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

std::optional<Origin> origin_of(const rundir::RunManifest& manifest) {
  const auto epoch = manifest.number(rundir::kStartEpochKey);
  if (!epoch) return std::nullopt;
  const auto best = number_of<double>(manifest.value(rundir::kStartBestKey));
  return Origin{{*epoch, best.value_or(std::numeric_limits<double>::quiet_NaN())},
                manifest.value(rundir::kInitialWeightsKey),
                false};
}

Result<rundir::RunManifest> make_manifest(const Context& context, const RunSpec& spec,
                                          const Hooks& hooks, const TrainState& state,
                                          const std::optional<Origin>& origin) {
  rundir::RunManifest manifest;
  for (const auto& [key, value] : spec.options.identity) manifest.set(key, value);
  manifest.set("format", 1);
  manifest.set("program", spec.options.name);
  manifest.set(rundir::kVirtualWorkersKey, spec.data_plan.virtual_workers);
  manifest.set("seed", std::to_string(spec.data_plan.seed));
  if (spec.has_data())
    add_data_plan(manifest, spec.data_plan, spec.options);
  else
    manifest.set("dataset", "none");
  if (spec.plan.batches_per_step > 1)
    manifest.set("accumulation_steps", spec.plan.batches_per_step);
  if (spec.plan.updates_per_step > 1) manifest.set("updates_per_step", spec.plan.updates_per_step);
  add_epoch_ends(manifest, spec, hooks.best);
  manifest.set(rundir::kInitialWeightsKey,
               origin ? origin->weights_sha256 : state.weights_sha256());
  if (const std::string signature = state.signature();
      signature.find(" strides ") != signature.npos)
    manifest.set("strides", sha256_hex(signature));
  if (const std::string frozen = state.frozen(); !frozen.empty())
    manifest.set("frozen", std::to_string(std::ranges::count(frozen, '\n')) + " parameters, " +
                               sha256_hex(frozen));
  if (origin) manifest.set(rundir::kStartEpochKey, origin->start.epoch);
  if (origin && !std::isnan(origin->start.best))
    manifest.set(rundir::kStartBestKey, shortest(origin->start.best));
  for (std::size_t i = 0; i < state.optimizers().size(); ++i)
    manifest.set("optimizer_" + std::to_string(i), state.optimizers()[i]->settings());
  for (std::size_t i = 0; i < state.schedulers().size(); ++i)
    manifest.set("scheduler_" + std::to_string(i),
                 state.schedulers()[i]->settings() +
                     (hooks.steps_per_update(state.schedulers()[i]) ? " per update" : ""));
  if (state.scaler() != nullptr) manifest.set("scaler", state.scaler()->settings());
  for (std::size_t i = 0; i < state.master_weights().size(); ++i)
    manifest.set("master_weights_" + std::to_string(i), state.master_weights()[i]->settings());
  if (spec.options.clip_grad_norm > 0)
    manifest.set("clip_grad_norm", shortest(spec.options.clip_grad_norm));
  if (spec.options.on_nan == OnNan::kSkip) manifest.set("on_nan", "skip");
  if (const std::string rows = rows_in_words(state); !rows.empty()) manifest.set("carried", rows);
  manifest.set("threads", context.threads());
  manifest.set("torch", TORCH_VERSION);
  manifest.set("cpu_capability", at::get_cpu_capability());
  if (spec.has_data()) LOCKSTEP_TRY(add_data(manifest, "dataset", *spec.train));
  if (spec.evaluates) LOCKSTEP_TRY(add_data(manifest, "test_set", *spec.test));
  return manifest;
}

Status write_identity(const RunSpec& spec, const rundir::RunManifest& manifest) {
  const RunOptions& options = spec.options;
  LOCKSTEP_TRY(rundir::write_manifest(posix_env(), options.output, manifest));
  if (options.deterministic != Deterministic::kStrict)
    log_warning(
        "--deterministic " +
        std::string(kDeterministic[static_cast<std::size_t>(options.deterministic)]) +
        ": an operation may give other bits each time, and then the weights of two runs, or "
        "of one with a fault and one without, differ");
  if (options.config.empty()) return {};
  const std::string path = options.output + "/config.toml";
  const std::string config = resolved(options.config, spec.data_plan.virtual_workers);
  if (const auto before = posix_env().read(path, kMostConfigBytes); before.ok())
    if (const std::string changes = changed_settings(*before, config); !changes.empty())
      log_warning("goes on with other options than it had: " + changes +
                  ". If the arithmetic depends on them, name them in RunOptions::identity: then "
                  "this is refused");
  return write_atomically(posix_env(), path, config);
}

}  // namespace lockstep::training
