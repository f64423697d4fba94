#include "checkpoint/image.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "checkpoint/safetensors.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::size_t kHugePage = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

Result<Layout> layout_of(const Part& part) {
  std::vector<TensorInfo> infos;
  for (const NamedBytes& tensor : part.tensors) {
    LOCKSTEP_ASSIGN(const std::uint64_t bytes, byte_size(tensor.info));
    if (bytes != tensor.bytes.size())
      return Error{ErrorKind::kUsage, "tensor " + quote(tensor.info.name) + ": " +
                                          describe(tensor.info) + " with " +
                                          std::to_string(tensor.bytes.size()) + " bytes"};
    infos.push_back(tensor.info);
  }
  return make_layout(infos, {{"format", "pt"}});
}

Status check_part_names(std::span<const Part> parts) {
  std::set<std::string> names;
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-';
  };
  for (const Part& part : parts)
    if (part.name.empty() || part.name.size() > 100 || !std::ranges::all_of(part.name, plain) ||
        !names.insert(part.name).second)
      return Error{ErrorKind::kUsage, "a checkpoint cannot have a part named " + quote(part.name) +
                                          ": names are [A-Za-z0-9_-]+, each once"};
  return {};
}

// The file as it will be, at `at`.
void copy_file(const Layout& layout, const Part& part, std::byte* at) {
  std::memcpy(at, layout.text.data(), layout.text.size());
  std::byte* const data = at + layout.text.size();
  for (std::size_t i = 0; i < layout.entries.size(); ++i) {
    const auto& bytes = part.tensors[layout.source[i]].bytes;
    if (!bytes.empty()) std::memcpy(data + layout.entries[i].begin, bytes.data(), bytes.size());
  }
}

std::vector<NamedBytes> tensors_in(const Layout& layout, const std::byte* at) {
  std::vector<NamedBytes> tensors;
  for (const Entry& entry : layout.entries)
    tensors.push_back(
        {entry.info, {at + layout.text.size() + entry.begin, at + layout.text.size() + entry.end}});
  return tensors;
}

}  // namespace

Arena::~Arena() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

Status Arena::reserve(std::size_t bytes) {
  if (bytes <= size_) return {};
  const std::size_t size = round_up(bytes, kHugePage);
  if (data_ != nullptr) ::munmap(data_, size_);
  data_ = nullptr;
  size_ = 0;
  void* const memory =
      ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED)
    return Error{ErrorKind::kInternal,
                 "no memory for a snapshot of " + std::to_string(bytes) + " bytes"};
  ::madvise(memory, size, MADV_HUGEPAGE);  // only a wish
  data_ = static_cast<std::byte*>(memory);
  size_ = size;
  return {};
}

Status Image::fill(std::span<const Part> parts, const std::string& state) {
  LOCKSTEP_TRY(check_part_names(parts));
  std::vector<Layout> layouts;
  std::size_t total = 0;
  for (const Part& part : parts) {
    LOCKSTEP_ASSIGN(Layout layout, layout_of(part));
    total += round_up(layout.file_bytes, kHugePage);
    layouts.push_back(std::move(layout));
  }
  LOCKSTEP_TRY(arena_.reserve(total));
  files_.clear();
  model_.clear();
  std::byte* at = arena_.data();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    copy_file(layouts[i], parts[i], at);
    files_.push_back({part_file(parts[i].name), {at, layouts[i].file_bytes}});
    if (parts[i].name == "model") model_ = tensors_in(layouts[i], at);
    at += round_up(layouts[i].file_bytes, kHugePage);
  }
  files_.push_back({kStateName, {}});
  set_state(state);
  return {};
}

void Image::set_state(std::string state) {
  state_ = std::move(state);
  files_.back().bytes = std::as_bytes(std::span(state_));
}

std::string Image::weights_sha256() const {
  return model_.empty() ? "" : checkpoint::weights_sha256(model_);
}

}  // namespace lockstep::checkpoint
