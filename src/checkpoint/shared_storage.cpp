#include "checkpoint/shared_storage.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <tuple>

namespace lockstep::checkpoint {
namespace {

// Bytes within a storage, the end excluded.
struct Extent {
  std::size_t begin = 0;
  std::size_t end = 0;
};

Extent extent_of(const at::Tensor& tensor) {
  const auto size = static_cast<std::size_t>(tensor.element_size());
  std::size_t last = 0;
  for (std::int64_t i = 0; i < tensor.dim(); ++i)
    last += static_cast<std::size_t>((tensor.size(i) - 1) * tensor.stride(i));
  const std::size_t begin = static_cast<std::size_t>(tensor.storage_offset()) * size;
  return {begin, begin + (last + 1) * size};
}

bool has_memory(const at::Tensor& tensor) {
  return tensor.defined() && tensor.has_storage() && tensor.numel() > 0;
}

bool is_whole(const at::Tensor& tensor) {
  return tensor.storage_offset() == 0 && tensor.nbytes() == tensor.storage().nbytes();
}

struct Placed {
  Extent at;
  std::string name;
  bool whole = false;
};

using Group = std::vector<Placed>;

// Of one storage: those whose bytes overlap.
std::vector<Group> overlapping(Group all) {
  std::ranges::sort(all, {},
                    [](const Placed& p) { return std::tie(p.at.begin, p.at.end, p.name); });
  std::vector<Group> groups;
  std::size_t end = 0;
  for (Placed& placed : all) {
    if (groups.empty() || placed.at.begin >= end) groups.emplace_back();
    end = std::max(end, placed.at.end);
    groups.back().push_back(std::move(placed));
  }
  return groups;
}

void note_aliases(const Group& group, Metadata& aliases) {
  const std::string* kept = nullptr;
  for (const Placed& placed : group)
    if (placed.whole && (kept == nullptr || placed.name < *kept)) kept = &placed.name;
  if (kept == nullptr) return;
  for (const Placed& placed : group)
    if (placed.name != *kept) aliases[placed.name] = *kept;
}

}  // namespace

const void* memory_of(const at::Tensor& tensor) {
  return has_memory(tensor) ? tensor.storage().unsafeGetStorageImpl() : nullptr;
}

bool covers(const at::Tensor& whole, const at::Tensor& part) {
  if (!has_memory(whole) || !has_memory(part) || memory_of(whole) != memory_of(part)) return false;
  const Extent a = extent_of(whole), b = extent_of(part);
  return whole.is_non_overlapping_and_dense() && a.begin <= b.begin && b.end <= a.end;
}

Deduplicated one_name_per_storage(const NamedTensors& tensors) {
  std::map<const void*, Group> by_storage;
  for (const auto& [name, tensor] : tensors)
    if (has_memory(tensor))
      by_storage[memory_of(tensor)].push_back({extent_of(tensor), name, is_whole(tensor)});
  Deduplicated kept;
  for (auto& [storage, group] : by_storage)
    for (const Group& shared : overlapping(std::move(group))) note_aliases(shared, kept.aliases);
  for (const auto& [name, tensor] : tensors)
    if (!kept.aliases.contains(name)) kept.tensors.emplace_back(name, tensor);
  return kept;
}

}  // namespace lockstep::checkpoint
