// Tensors of a tiny run, as a function of the step, so that a test knows what it must find.
#pragma once

#include <array>
#include <cstring>
#include <deque>
#include <string>
#include <vector>

#include "checkpoint/search.h"
#include "checkpoint/writer.h"
#include "support/temp_folder.h"

namespace lockstep::checkpoint {

// Owns bytes of the parts "model" (two fp32 tensors, an int64 scalar, an empty one) and
// "optimizer".
class Sample {
 public:
  explicit Sample(std::uint64_t step, std::size_t scale = 1) {
    parts_.push_back({"model", {}});
    add({"fc.weight", DType::kF32, {10 * scale, 3}}, step + 1);
    add({"fc.bias", DType::kF32, {10}}, step + 2);
    add({"bn.num_batches_tracked", DType::kI64, {}}, step + 3);
    add({"empty", DType::kBool, {0, 4}}, 0);
    parts_.push_back({"optimizer", {}});
    add({"exp_avg/fc.weight", DType::kBF16, {10 * scale, 3}}, step + 4);
    state_ = "{\"step\":" + std::to_string(step) + "}";
  }

  const std::vector<Part>& parts() const { return parts_; }
  const std::string& state() const { return state_; }

  // Places to load into; the sample's own bytes.
  std::vector<PartTarget> targets() {
    std::vector<PartTarget> targets;
    std::size_t i = 0;
    for (const Part& part : parts_) {
      targets.push_back({part.name, {}});
      for (const NamedBytes& tensor : part.tensors)
        targets.back().tensors.push_back({tensor.info, bytes_[i++]});
    }
    return targets;
  }

  friend bool operator==(const Sample& a, const Sample& b) { return a.bytes_ == b.bytes_; }

 private:
  void add(TensorInfo info, std::uint64_t seed) {
    auto& bytes = bytes_.emplace_back(static_cast<std::size_t>(*byte_size(info)));
    for (std::size_t i = 0; i < bytes.size(); ++i)
      bytes[i] = static_cast<std::byte>((seed * 31 + i * (seed % 7 + 1)) & 255);
    parts_.back().tensors.push_back({std::move(info), bytes});
  }

  std::deque<std::vector<std::byte>> bytes_;
  std::vector<Part> parts_;
  std::string state_;
};

inline Result<std::string> save(Env& env, const std::string& run_dir, const Sample& sample,
                                std::uint64_t txn, const std::string& identity = "run-a",
                                std::uint32_t v = 3) {
  Image image;
  LOCKSTEP_TRY(image.fill(sample.parts(), sample.state()));
  Manifest manifest;
  manifest.cursor = {txn, txn / 10, txn % 10};
  manifest.run_identity = identity;
  manifest.virtual_workers = v;
  return publish(
      env, run_dir, manifest, image.files(), [&] { return image.weights_sha256(); }, nullptr);
}

}  // namespace lockstep::checkpoint
