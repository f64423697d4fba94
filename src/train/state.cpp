#include "lockstep/state.h"

#include <ATen/core/grad_mode.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <cstring>
#include <sstream>

#include "base/hash.h"

namespace lockstep {
namespace {

constexpr std::uint64_t kTextBytes = std::uint64_t{64} << 10;  // all texts together
constexpr std::uint64_t kAlignment = 64;

std::uint64_t padded(const at::Tensor& tensor) {
  return (tensor.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
}

std::span<const std::byte> bytes_of(const at::Tensor& contiguous) {
  return {static_cast<const std::byte*>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

std::uint64_t image_bytes(const std::vector<TrainState::Named>& tensors) {
  std::uint64_t bytes = 0;
  for (const auto& named : tensors) bytes += padded(named.tensor);
  return bytes;
}

std::byte* store_into(std::byte* to, const std::vector<TrainState::Named>& tensors) {
  for (const auto& named : tensors) {
    const at::Tensor contiguous = named.tensor.detach().contiguous();
    if (contiguous.nbytes() > 0) std::memcpy(to, contiguous.const_data_ptr(), contiguous.nbytes());
    to += padded(named.tensor);
  }
  return to;
}

const std::byte* load_from(const std::byte* from, const std::vector<TrainState::Named>& tensors) {
  const at::NoGradGuard no_grad;
  for (const auto& named : tensors) {
    const at::Tensor source = at::from_blob(const_cast<std::byte*>(from), named.tensor.sizes(),
                                            named.tensor.options().requires_grad(false));
    if (named.tensor.is_contiguous()) {
      if (named.tensor.nbytes() > 0)
        std::memcpy(named.tensor.mutable_data_ptr(), from, named.tensor.nbytes());
    } else {
      named.tensor.detach().copy_(source);
    }
    from += padded(named.tensor);
  }
  return from;
}

void hash_sorted(Sha256& hash, std::vector<TrainState::Named> tensors) {
  std::sort(tensors.begin(), tensors.end(),
            [](const auto& a, const auto& b) { return a.name < b.name; });
  for (const auto& named : tensors) {
    hash.update(named.name);
    hash.update(bytes_of(named.tensor.detach().contiguous()));
  }
}

}  // namespace

std::vector<std::pair<std::string, at::Tensor>> state_dict(const torch::nn::Module& module) {
  std::vector<std::pair<std::string, at::Tensor>> tensors;
  for (const auto& item : module.named_parameters()) tensors.emplace_back(item.key(), item.value());
  for (const auto& item : module.named_buffers()) tensors.emplace_back(item.key(), item.value());
  return tensors;
}

Status TrainState::claim(const std::string& name) {
  if (std::find(names_.begin(), names_.end(), name) != names_.end())
    return Error{ErrorKind::kUsage,
                 "the train state has two parts named '" + name + "'; give each its own name"};
  names_.push_back(name);
  return {};
}

Status TrainState::add(const std::string& name, torch::nn::Module& module) {
  LOCKSTEP_TRY(claim(name));
  const std::string prefix = parameters_.empty() && buffers_.empty() ? "" : name + ".";
  for (const auto& item : module.named_parameters())
    parameters_.push_back({prefix + item.key(), item.value()});
  for (const auto& item : module.named_buffers())
    buffers_.push_back({prefix + item.key(), item.value()});
  return {};
}

Status TrainState::add(const std::string& name, Optimizer& optimizer) {
  LOCKSTEP_TRY(claim(name));
  const std::string prefix = optimizers_.empty() ? "" : name + ".";
  for (auto& [key, tensor] : optimizer.state()) optimizer_state_.push_back({prefix + key, tensor});
  optimizers_.push_back(&optimizer);
  return {};
}

Status TrainState::add(Text text) {
  LOCKSTEP_TRY(claim(text.name));
  texts_.push_back(std::move(text));
  return {};
}

std::vector<TrainState::Named> TrainState::model() const {
  std::vector<Named> all = parameters_;
  all.insert(all.end(), buffers_.begin(), buffers_.end());
  return all;
}

std::string TrainState::weights_sha256() const {
  Sha256 hash;
  hash_sorted(hash, model());
  return hash.hex();
}

std::string TrainState::sha256() const {
  Sha256 hash;
  hash_sorted(hash, model());
  hash_sorted(hash, optimizer_state_);
  for (const Text& text : texts_) {
    hash.update(text.name);
    hash.update(text.save());
  }
  return hash.hex();
}

std::uint64_t TrainState::xxh3() const {
  Xxh3 hash;
  for (const auto* tensors : {&parameters_, &buffers_, &optimizer_state_})
    for (const Named& named : *tensors) hash.update(bytes_of(named.tensor.detach().contiguous()));
  return hash.value();
}

std::uint64_t TrainState::bytes() const {
  return image_bytes(parameters_) + image_bytes(buffers_) + image_bytes(optimizer_state_) +
         (texts_.empty() ? 0 : kTextBytes);
}

Status TrainState::store(std::span<std::byte> image) const {
  std::byte* to = store_into(image.data(), parameters_);
  to = store_into(to, buffers_);
  to = store_into(to, optimizer_state_);
  for (const Text& text : texts_) {
    const std::string content = text.save();
    const std::uint64_t size = content.size();
    const auto left = static_cast<std::uint64_t>(image.data() + image.size() - to);
    if (sizeof(size) + size > left)
      return Error{ErrorKind::kUsage,
                   "the train state's text '" + text.name + "' has " + std::to_string(size) +
                       " bytes; all texts together may take " + std::to_string(kTextBytes) +
                       ": keep large state in tensors"};
    std::memcpy(to, &size, sizeof(size));
    std::memcpy(to + sizeof(size), content.data(), size);
    to += sizeof(size) + size;
  }
  return {};
}

Status TrainState::load(std::span<const std::byte> image) {
  const std::byte* from = load_from(image.data(), parameters_);
  from = load_from(from, buffers_);
  from = load_from(from, optimizer_state_);
  for (const Text& text : texts_) {
    std::uint64_t size = 0;
    std::memcpy(&size, from, sizeof(size));
    if (size > static_cast<std::uint64_t>(image.data() + image.size() - from) - sizeof(size))
      return Error{ErrorKind::kInternal, "state image: text '" + text.name + "' claims " +
                                             std::to_string(size) + " bytes"};
    LOCKSTEP_TRY(text.load(std::string(reinterpret_cast<const char*>(from + sizeof(size)), size)));
    from += sizeof(size) + size;
  }
  return {};
}

std::uint64_t TrainState::buffer_bytes() const { return image_bytes(buffers_); }

void TrainState::store_buffers(std::span<std::byte> image) const {
  store_into(image.data(), buffers_);
}

void TrainState::load_buffers(std::span<const std::byte> image) {
  load_from(image.data(), buffers_);
}

std::string TrainState::signature() const {
  std::ostringstream lines;
  for (const Named& named : model())
    lines << named.name << ' ' << named.tensor.sizes() << ' ' << named.tensor.scalar_type() << '\n';
  return lines.str();
}

}  // namespace lockstep
