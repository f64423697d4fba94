#include "train/data_identity.h"

#include <ATen/Context.h>

#include <algorithm>
#include <vector>

#include "base/guard.h"
#include "base/hash.h"
#include "optim/tensor_bytes.h"

namespace lockstep::training {
namespace {

constexpr std::int64_t kProbes = 16;

std::vector<std::int64_t> probes(std::int64_t size) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(std::min(size, kProbes)));
  const auto last = static_cast<std::int64_t>(ids.size()) - 1;
  // The first and the last one are among them. Not i * size, which might overflow.
  for (std::int64_t i = 0; i <= last; ++i)
    ids[static_cast<std::size_t>(i)] = i == last ? size - 1 : i * (size / (last + 1));
  return ids;
}

void add(Xxh3& hash, const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  const at::Tensor here = tensor.detach().cpu().contiguous();
  hash.update(optim::bytes_of(here));
}

}  // namespace

Status add_data(rundir::RunManifest& manifest, const std::string& name,
                const data::Dataset& dataset) {
  return guarded("the data set", ErrorKind::kInternal, [&]() -> Status {
    const std::string fingerprint = dataset.fingerprint();
    if (!fingerprint.empty()) manifest.set(name + "_fingerprint", fingerprint);
    at::manual_seed(0);  // should it draw
    LOCKSTEP_ASSIGN(const data::Batch batch, dataset.get(probes(dataset.size()), {}));
    Xxh3 hash;
    add(hash, batch.inputs);
    add(hash, batch.targets);
    manifest.set(name + "_probe_xxh3", hash.hex());
    return {};
  });
}

}  // namespace lockstep::training
