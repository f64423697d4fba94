#include "lockstep/torch_data.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <string>

#include "base/errors.h"
#include "data/ids.h"

namespace lockstep::data::torch_data {

at::Tensor stacked(const std::vector<at::Tensor>& rows) { return at::stack(rows); }

Status check_size(std::optional<std::size_t> size) {
  if (!size)
    return misuse(
        "from_torch(): the data set does not know its size; a run needs one with random access");
  if (*size < 1) return misuse("from_torch(): the data set is empty");
  return {};
}

Result<std::vector<std::size_t>> indices_of(std::span<const std::int64_t> ids, std::int64_t size) {
  LOCKSTEP_TRY(check_ids(ids, size));
  return std::vector<std::size_t>(ids.begin(), ids.end());
}

Result<Batch> batch_of(at::Tensor inputs, at::Tensor targets, std::span<const std::int64_t> ids) {
  const auto count = static_cast<std::int64_t>(ids.size());
  if (!targets.defined()) targets = at::empty({count, 0});
  for (const auto& [name, tensor] : {std::pair("inputs", &inputs), std::pair("targets", &targets)})
    if (!tensor->defined() || tensor->dim() < 1 || tensor->size(0) != count)
      return Error{ErrorKind::kBadData,
                   std::string("from_torch(): get_batch() of ") + std::to_string(count) +
                       " samples gave " + name +
                       (tensor->defined() && tensor->dim() > 0
                            ? " of " + std::to_string(tensor->size(0)) + " (first dimension)"
                            : " without a first dimension")};
  return Batch{std::move(inputs), std::move(targets), {ids.begin(), ids.end()}};
}

}  // namespace lockstep::data::torch_data
