#include "evaluate.h"

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <system_error>

#include "lockstep/checkpoint.h"
#include "lockstep/data.h"
#include "lockstep/score.h"
#include "model.h"

namespace time_budget {
namespace {

namespace fs = std::filesystem;
using lockstep::Error;
using lockstep::ErrorKind;
using lockstep::Status;
using lockstep::data::Batch;

struct Found {
  lockstep::Score all{0, 0, 0};
  struct Class {
    std::int64_t right = 0, count = 0;
  };
  std::vector<Class> classes;
};

lockstep::Result<Found> count(lockstep::models::Network& model, const Photographs& photographs,
                              std::int64_t batch_size) {
  Found found;
  found.classes.resize(static_cast<std::size_t>(photographs.classes()));
  const auto score = [&](const Batch& batch) {
    const at::Tensor scores = model.forward(batch.inputs);
    const at::Tensor right = scores.argmax(1).eq(batch.targets);
    for (std::int64_t sample = 0; sample < right.size(0); ++sample) {
      Found::Class& one =
          found.classes[static_cast<std::size_t>(batch.targets[sample].item<std::int64_t>())];
      one.right += right[sample].item<bool>() ? 1 : 0;
      ++one.count;
    }
    return lockstep::cross_entropy_score(scores, batch.targets);
  };
  LOCKSTEP_ASSIGN(found.all, lockstep::evaluate(model, *photographs.all, batch_size, score));
  return found;
}

double percent(double part, double whole) { return whole > 0 ? 100 * part / whole : 0; }

void print(const Found& found, const Photographs& photographs) {
  const auto count = static_cast<double>(found.all.count);
  std::printf("Test loss: %.4f\nTop-1 accuracy: %.2f %% (%.0f/%ld)\n", found.all.loss_sum / count,
              percent(found.all.correct, count), found.all.correct, long{found.all.count});
  for (std::size_t i = 0; i < found.classes.size(); ++i) {
    const Found::Class& one = found.classes[i];
    std::printf("  %s: %.2f %% (%ld/%ld)\n", photographs.all->classes()[i].c_str(),
                percent(static_cast<double>(one.right), static_cast<double>(one.count)),
                long{one.right}, long{one.count});
  }
}

// NAME.pt itself, or the run that a checkpoint is of.
fs::path origin_of(const std::string& checkpoint) {
  std::error_code code;
  fs::path path = fs::absolute(checkpoint, code).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.parent_path().filename() == "checkpoints" ? path.parent_path().parent_path() : path;
}

std::string name_of(const std::string& checkpoint) {
  std::error_code code;
  const fs::path origin = origin_of(checkpoint);
  return fs::is_directory(origin, code) ? origin.filename() : origin.stem();
}

// What the run was trained on. A NAME.pt says nothing of it: the NAME-run beside it does.
Status check_run(const Options& options, const Photographs& photographs) {
  std::error_code code;
  fs::path run = origin_of(options.evaluate);
  if (!fs::is_directory(run, code)) run.replace_extension().concat("-run");
  std::ifstream file(run / "manifest.json");
  const auto manifest = nlohmann::json::parse(file, nullptr, false);
  if (!manifest.is_object()) return {};
  for (const auto& [key, ours] : identity_of(options, photographs)) {
    const auto found = manifest.find(key);
    if (found == manifest.end() || !found->is_string() || *found == ours) continue;
    return Error{ErrorKind::kUsage, "--evaluate: '" + options.evaluate + "' was trained with " +
                                        key + " " + found->get<std::string>() + ", and " + ours +
                                        " is given: its figures would be of something else"};
  }
  return {};
}

// As `lockstep report` reads it. A figure that is not finite becomes null.
Status write_json(const Options& options, const Found& found) {
  using nlohmann::json;
  const auto count = static_cast<double>(found.all.count);
  const json run{{"name", name_of(options.evaluate)},
                 {"test_loss", found.all.loss_sum / count},
                 {"top1", found.all.correct / count}};
  const std::string written = (fs::path(options.json).parent_path() / ".tmp-evaluation").string();
  std::ofstream file(written);
  file << json{{"runs", json::array({run})}}.dump(-1, ' ', false, json::error_handler_t::replace)
       << '\n';
  file.close();
  std::error_code code;
  if (file) fs::rename(written, options.json, code);
  if (file && !code) return {};
  fs::remove(written, code);
  return Error{ErrorKind::kDisk, "cannot write '" + options.json + "'"};
}

}  // namespace

Status evaluate(const Options& options, const Photographs& photographs) {
  std::error_code code;  // who may not look has nothing there
  if (!fs::exists(options.evaluate, code))
    return Error{ErrorKind::kUsage, "--evaluate: '" + options.evaluate + "' does not exist"};
  LOCKSTEP_TRY(check_run(options, photographs));
  Options as_it_was = options;
  as_it_was.weights.clear();
  LOCKSTEP_ASSIGN(const auto model, make_model(as_it_was, photographs.classes()));
  if (!options.json.empty()) LOCKSTEP_TRY(lockstep::check_can_write(options.json));
  const Status loaded = lockstep::load_state_dict(*model, options.evaluate, "MODEL_STATE");
  if (!loaded.ok())
    return Error{loaded.error().kind,
                 loaded.error().message + " (as many classes and the same --classifier-width?)"};
  LOCKSTEP_ASSIGN(const Found found, count(*model, photographs, options.run.batch_size));
  print(found, photographs);
  return options.json.empty() ? Status() : write_json(options, found);
}

}  // namespace time_budget
