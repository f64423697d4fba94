#include "evaluate.h"

#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "lockstep/checkpoint.h"
#include "lockstep/data.h"
#include "lockstep/state.h"
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

// The tensors are of equal names; load_state_dict() does the same for a file of Python's.
Status load_safetensors_into(torch::nn::Module& model, const std::string& path) {
  LOCKSTEP_ASSIGN(const lockstep::NamedTensors saved, lockstep::load_safetensors(path));
  const at::NoGradGuard no_grad;
  for (auto& [name, tensor] : lockstep::state_dict(model)) {
    const auto found = std::find_if(saved.begin(), saved.end(),
                                    [&](const auto& entry) { return entry.first == name; });
    if (found == saved.end() || found->second.sizes() != tensor.sizes())
      return Error{ErrorKind::kBadData, "'" + path + "' has no '" + name +
                                            "' of this model's shape: give it the same data's "
                                            "classes and --classifier-width"};
    tensor.detach().copy_(found->second);
  }
  return {};
}

Status load(torch::nn::Module& model, const std::string& path) {
  std::error_code code;
  if (fs::is_directory(path, code))
    return load_safetensors_into(model, path + "/model.safetensors");
  return lockstep::load_state_dict(model, path, "MODEL_STATE");
}

lockstep::Result<Found> count(lockstep::models::Network& model, const Photographs& photographs,
                              std::int64_t batch_size) {
  const at::NoGradGuard no_grad;
  model.eval();
  const lockstep::data::Dataset& set = *photographs.all;
  Found found;
  found.classes.resize(static_cast<std::size_t>(photographs.classes()));
  for (std::int64_t i = 0; i < lockstep::data::evaluation_batches(set.size(), batch_size); ++i) {
    LOCKSTEP_ASSIGN(const Batch batch, lockstep::data::evaluation_batch(set, batch_size, i));
    const at::Tensor scores = model.forward(batch.inputs);
    const lockstep::Score part = score_of(scores, batch.targets);
    found.all.loss_sum += part.loss_sum;
    found.all.correct += part.correct;
    found.all.count += part.count;
    const at::Tensor right = scores.argmax(1).eq(batch.targets);
    for (std::int64_t sample = 0; sample < part.count; ++sample) {
      Found::Class& one =
          found.classes[static_cast<std::size_t>(batch.targets[sample].item<std::int64_t>())];
      one.right += right[sample].item<bool>() ? 1 : 0;
      ++one.count;
    }
  }
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

// Of NAME.pt NAME; of RUN/checkpoints/step-00000100 RUN: as `lockstep report` names the run.
std::string name_of(const std::string& checkpoint) {
  const fs::path path = fs::absolute(checkpoint).lexically_normal();
  std::error_code code;
  if (!fs::is_directory(path, code)) return path.stem().string();
  const fs::path folder = path.has_filename() ? path : path.parent_path();
  return folder.parent_path().parent_path().filename().string();
}

std::string quoted(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + '"';
}

// JSON has no word for what is not finite.
std::string number(double value) {
  if (!std::isfinite(value)) return "null";
  char text[32];
  std::snprintf(text, sizeof text, "%.17g", value);
  return text;
}

Status write_json(const Options& options, const Found& found) {
  const auto count = static_cast<double>(found.all.count);
  const std::string written = options.json + ".tmp";
  std::ofstream file(written);
  file << "{\"runs\":[{\"name\":" << quoted(name_of(options.evaluate))
       << ",\"test_loss\":" << number(found.all.loss_sum / count)
       << ",\"top1\":" << number(found.all.correct / count) << "}]}\n";
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
  Options as_it_was = options;
  as_it_was.weights.clear();
  LOCKSTEP_ASSIGN(const auto model, make_model(as_it_was, photographs.classes()));
  LOCKSTEP_TRY(load(*model, options.evaluate));
  LOCKSTEP_ASSIGN(const Found found, count(*model, photographs, options.run.evaluation_batch_size));
  print(found, photographs);
  return options.json.empty() ? Status() : write_json(options, found);
}

}  // namespace time_budget
