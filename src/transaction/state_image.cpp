#include "transaction/state_image.h"

#include <ATen/Functions.h>
#include <ATen/core/grad_mode.h>

#include <cassert>
#include <cstring>

#include "base/hash.h"
#include "optim/tensor_bytes.h"

namespace lockstep::transaction {
namespace {

using Named = TrainState::Named;

constexpr std::uint64_t kTextBytes = std::uint64_t{1} << 20;  // all texts together
constexpr std::uint64_t kAlignment = 64;

std::uint64_t padded(const at::Tensor& tensor) {
  return (tensor.nbytes() + kAlignment - 1) / kAlignment * kAlignment;
}

std::uint64_t total_bytes(const std::vector<Named>& tensors) {
  std::uint64_t bytes = 0;
  for (const Named& named : tensors) bytes += padded(named.tensor);
  return bytes;
}

std::uint64_t tensor_bytes(const TrainState& state) {
  return total_bytes(state.parameters()) + total_bytes(state.buffers()) +
         total_bytes(state.other_tensors());
}

std::byte* store_into(std::byte* to, const std::vector<Named>& tensors) {
  for (const Named& named : tensors) {
    const at::Tensor contiguous = named.tensor.detach().contiguous();
    if (contiguous.nbytes() > 0) std::memcpy(to, contiguous.const_data_ptr(), contiguous.nbytes());
    to += padded(named.tensor);
  }
  return to;
}

const std::byte* load_from(const std::byte* from, const std::vector<Named>& tensors) {
  const at::NoGradGuard no_grad;
  for (const Named& named : tensors) {
    if (!named.tensor.is_contiguous()) {
      named.tensor.detach().copy_(at::from_blob(const_cast<std::byte*>(from), named.tensor.sizes(),
                                                named.tensor.options().requires_grad(false)));
    } else if (named.tensor.nbytes() > 0) {
      std::memcpy(named.tensor.mutable_data_ptr(), from, named.tensor.nbytes());
    }
    from += padded(named.tensor);
  }
  return from;
}

}  // namespace

std::uint64_t image_bytes(const TrainState& state) {
  return tensor_bytes(state) + (state.texts().empty() ? 0 : kTextBytes);
}

Status store_image(const TrainState& state, std::span<std::byte> image) {
  assert(image.size() >= image_bytes(state));
  std::byte* to = store_into(image.data(), state.parameters());
  to = store_into(to, state.buffers());
  store_into(to, state.other_tensors());
  std::span<std::byte> left = image.subspan(tensor_bytes(state));
  for (const TrainState::Text& text : state.texts()) {
    const std::string content = text.save();
    const std::uint64_t size = content.size();
    if (left.size() < sizeof(size) || size > left.size() - sizeof(size))
      return Error{ErrorKind::kUsage,
                   "the train state's text '" + text.name + "' has " + std::to_string(size) +
                       " bytes; all texts together may take " + std::to_string(kTextBytes) +
                       ": keep large state in tensors"};
    std::memcpy(left.data(), &size, sizeof(size));
    std::memcpy(left.data() + sizeof(size), content.data(), size);
    left = left.subspan(sizeof(size) + size);
  }
  return {};
}

Result<std::vector<std::string>> load_tensors(const TrainState& state,
                                              std::span<const std::byte> image) {
  assert(image.size() >= image_bytes(state));
  const std::byte* from = load_from(image.data(), state.parameters());
  from = load_from(from, state.buffers());
  load_from(from, state.other_tensors());
  std::span<const std::byte> left = image.subspan(tensor_bytes(state));
  std::vector<std::string> contents;
  for (const TrainState::Text& text : state.texts()) {
    std::uint64_t size = 0;
    if (left.size() >= sizeof(size)) std::memcpy(&size, left.data(), sizeof(size));
    if (left.size() < sizeof(size) || size > left.size() - sizeof(size))
      return Error{ErrorKind::kInternal, "state image: text '" + text.name + "' claims " +
                                             std::to_string(size) + " bytes"};
    contents.emplace_back(reinterpret_cast<const char*>(left.data() + sizeof(size)), size);
    left = left.subspan(sizeof(size) + size);
  }
  return contents;
}

Status load_texts(const TrainState& state, const std::vector<std::string>& contents) {
  for (std::size_t i = 0; i < contents.size(); ++i)
    LOCKSTEP_TRY(state.texts()[i].load(contents[i]));
  return {};
}

std::uint64_t buffer_bytes(const TrainState& state) { return total_bytes(state.buffers()); }

void store_buffers(const TrainState& state, std::span<std::byte> image) {
  assert(image.size() >= buffer_bytes(state));
  store_into(image.data(), state.buffers());
}

void load_buffers(const TrainState& state, std::span<const std::byte> image) {
  assert(image.size() >= buffer_bytes(state));
  load_from(image.data(), state.buffers());
}

std::span<const std::byte> buffer_in(const TrainState& state, std::span<const std::byte> image,
                                     std::size_t number) {
  for (std::size_t i = 0; i < number; ++i) image = image.subspan(padded(state.buffers()[i].tensor));
  return image.first(state.buffers()[number].tensor.nbytes());
}

void hash_buffers(const TrainState& state, std::span<coord::Word> hashes) {
  for (std::size_t i = 0; i < hashes.size(); ++i) {
    const at::Tensor buffer = state.buffers()[i].tensor.detach().contiguous();
    hashes[i].store(xxh3(optim::bytes_of(buffer)), std::memory_order_relaxed);
  }
}

void hash_buffers(const TrainState& state, std::span<const std::byte> image,
                  std::span<coord::Word> hashes) {
  for (std::size_t i = 0; i < hashes.size(); ++i)
    hashes[i].store(xxh3(buffer_in(state, image, i)), std::memory_order_relaxed);
}

}  // namespace lockstep::transaction
