#include "checkpoint/tensors.h"

#include <ATen/ops/empty.h>

#include <array>
#include <filesystem>

#include "base/guard.h"
#include "checkpoint/user_file.h"
#include "checkpoint/writer.h"

namespace lockstep::checkpoint {
namespace {

struct Pair {
  DType ours;
  at::ScalarType theirs;
};

constexpr std::array<Pair, 15> kTypes{{{DType::kBool, at::kBool},
                                       {DType::kU8, at::kByte},
                                       {DType::kI8, at::kChar},
                                       {DType::kF8E5M2, at::kFloat8_e5m2},
                                       {DType::kF8E4M3, at::kFloat8_e4m3fn},
                                       {DType::kI16, at::kShort},
                                       {DType::kU16, at::kUInt16},
                                       {DType::kF16, at::kHalf},
                                       {DType::kBF16, at::kBFloat16},
                                       {DType::kI32, at::kInt},
                                       {DType::kU32, at::kUInt32},
                                       {DType::kF32, at::kFloat},
                                       {DType::kF64, at::kDouble},
                                       {DType::kI64, at::kLong},
                                       {DType::kU64, at::kUInt64}}};

Result<TensorInfo> info_of(const std::string& name, const at::Tensor& tensor) {
  if (!tensor.defined()) return Error{ErrorKind::kUsage, "tensor " + quote(name) + " is undefined"};
  const auto dtype = dtype_of(tensor.scalar_type());
  if (!dtype || tensor.layout() != at::kStrided)
    return Error{ErrorKind::kUsage, "tensor " + quote(name) +
                                        " cannot be saved: its dtype or layout is not one that "
                                        "safetensors knows: " +
                                        tensor.toString()};
  TensorInfo info{name, *dtype, {}};
  for (const std::int64_t extent : tensor.sizes())
    info.shape.push_back(static_cast<std::uint64_t>(extent));
  return info;
}

bool in_place(const at::Tensor& tensor) { return tensor.is_cpu() && tensor.is_contiguous(); }

std::size_t bytes_of(const at::Tensor& tensor) { return tensor.nbytes(); }

Result<NamedBytes> source_of(const std::string& name, const at::Tensor& tensor,
                             std::vector<at::Tensor>& kept) {
  LOCKSTEP_ASSIGN(TensorInfo info, info_of(name, tensor));
  kept.push_back(tensor.detach().to(at::kCPU).contiguous());
  const at::Tensor& source = kept.back();
  return NamedBytes{std::move(info),
                    {static_cast<const std::byte*>(source.const_data_ptr()), bytes_of(source)}};
}

NamedTarget target_in(TensorInfo info, const at::Tensor& tensor) {
  return {std::move(info), {static_cast<std::byte*>(tensor.mutable_data_ptr()), bytes_of(tensor)}};
}

CheckpointInfo info_from(Found found, std::vector<SkippedCheckpoint> skipped) {
  return {std::move(found.path), found.manifest.cursor, std::move(found.state),
          std::move(found.manifest.weights_sha256), std::move(skipped)};
}

Result<std::vector<NamedBytes>> sources_of(const NamedTensors& tensors,
                                           std::vector<at::Tensor>& kept) {
  std::vector<NamedBytes> sources;
  for (const auto& [name, tensor] : tensors) {
    LOCKSTEP_ASSIGN(NamedBytes source, source_of(name, tensor, kept));
    sources.push_back(std::move(source));
  }
  return sources;
}

at::Tensor empty_like(const TensorInfo& info) {
  const std::vector<std::int64_t> shape(info.shape.begin(), info.shape.end());
  return at::empty(shape, at::TensorOptions().dtype(scalar_type(info.dtype)));
}

}  // namespace

std::optional<DType> dtype_of(at::ScalarType type) {
  for (const Pair& pair : kTypes)
    if (pair.theirs == type) return pair.ours;
  return std::nullopt;
}

at::ScalarType scalar_type(DType dtype) { return kTypes[static_cast<std::size_t>(dtype)].theirs; }

Result<Sources> Sources::of(std::span<const CheckpointPart> parts) {
  return guarded("saving tensors", ErrorKind::kInternal, [&]() -> Result<Sources> {
    Sources sources;
    for (const CheckpointPart& part : parts) {
      LOCKSTEP_ASSIGN(auto tensors, sources_of(part.tensors, sources.kept_));
      sources.parts_.push_back({part.name, std::move(tensors)});
    }
    return sources;
  });
}

Result<Targets> Targets::of(std::span<const CheckpointPart> parts) {
  return guarded("loading tensors", ErrorKind::kInternal, [&]() -> Result<Targets> {
    Targets targets;
    for (const CheckpointPart& part : parts) {
      PartTarget& target = targets.parts_.emplace_back(PartTarget{part.name, {}});
      for (const auto& [name, tensor] : part.tensors) {
        LOCKSTEP_ASSIGN(TensorInfo info, info_of(name, tensor));
        targets.kept_.push_back(in_place(tensor) ? tensor.detach() : empty_like(info));
        if (!in_place(tensor)) targets.copies_.push_back({tensor.detach(), targets.kept_.back()});
        target.tensors.push_back(target_in(std::move(info), targets.kept_.back()));
      }
    }
    return targets;
  });
}

Status Targets::finish() {
  return guarded("loading tensors", ErrorKind::kInternal, [&]() -> Status {
    for (const Copy& copy : copies_) copy.to.copy_(copy.from);
    return {};
  });
}

Result<std::vector<GivenTensor>> load_listed(const std::string& path, const ModulePlace* only) {
  using Given = std::vector<GivenTensor>;
  return guarded("loading tensors", ErrorKind::kInternal, [&]() -> Result<Given> {
    LOCKSTEP_ASSIGN(auto infos, read_infos(posix_env(), path));
    Given given;
    std::vector<NamedTarget> targets;
    for (std::size_t i = 0; i < infos.size(); ++i) {
      if (only != nullptr && !only->has(i)) continue;
      TensorInfo& info = infos[i];
      given.push_back({info, info.readable() ? empty_like(info) : at::Tensor()});
      if (only != nullptr) given.back().info.name = info.name.substr(only->prefix.size());
      if (info.readable()) targets.push_back(target_in(std::move(info), given.back().tensor));
    }
    LOCKSTEP_TRY(read_tensors(posix_env(), path, targets));
    return given;
  });
}

}  // namespace lockstep::checkpoint

namespace lockstep {

using checkpoint::Image;
using checkpoint::Sources;
using checkpoint::Targets;

Result<CheckpointInfo> save_checkpoint(const std::string& run_dir,
                                       const std::vector<CheckpointPart>& parts,
                                       const RunCursor& cursor, const std::string& state_json,
                                       unsigned keep_last) {
  LOCKSTEP_ASSIGN(const Sources sources, Sources::of(parts));
  Image image;
  LOCKSTEP_TRY(image.fill(sources.parts(), state_json));
  checkpoint::Manifest manifest;
  manifest.cursor = cursor;
  CheckpointInfo info{"", cursor, state_json, image.weights_sha256(), {}};
  LOCKSTEP_ASSIGN(info.path, checkpoint::publish(
                                 posix_env(), run_dir, manifest, image.files(),
                                 [&] { return info.weights_sha256; }, nullptr));
  LOCKSTEP_TRY(checkpoint::set_pointer(posix_env(), run_dir, "last", cursor.txn));
  LOCKSTEP_TRY(checkpoint::retain(posix_env(), run_dir, cursor.txn, std::max(1U, keep_last)));
  return info;
}

Result<std::optional<CheckpointInfo>> load_checkpoint(const std::string& run_dir,
                                                      const std::vector<CheckpointPart>& parts) {
  LOCKSTEP_ASSIGN(Targets targets, Targets::of(parts));
  LOCKSTEP_ASSIGN(auto search, checkpoint::load_newest(posix_env(), run_dir, {}, targets.parts()));
  if (!search.newest) return std::optional<CheckpointInfo>();
  LOCKSTEP_TRY(targets.finish());
  return std::optional(checkpoint::info_from(*std::move(search.newest), std::move(search.skipped)));
}

Result<std::string> weights_sha256(const NamedTensors& tensors) {
  return guarded("hashing tensors", ErrorKind::kInternal, [&]() -> Result<std::string> {
    std::vector<at::Tensor> kept;
    LOCKSTEP_ASSIGN(const auto sources, checkpoint::sources_of(tensors, kept));
    return checkpoint::weights_sha256(sources);
  });
}

Status check_can_write(const std::string& path) {
  return checkpoint::check_user_file(posix_env(), path);
}

Status save_safetensors(const std::string& path, const NamedTensors& tensors) {
  LOCKSTEP_ASSIGN(const std::string place, checkpoint::place_of_user_file(posix_env(), path));
  const CheckpointPart part{"tensors", tensors};
  LOCKSTEP_ASSIGN(const Sources sources, Sources::of({&part, 1}));
  Image image;
  LOCKSTEP_TRY(image.fill(sources.parts(), ""));
  const auto bytes = image.files().front().bytes;
  return write_atomically(posix_env(), place,
                          {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

Result<NamedTensors> load_safetensors(const std::string& path) {
  LOCKSTEP_ASSIGN(auto given, checkpoint::load_listed(path));
  NamedTensors tensors;
  for (auto& [info, tensor, instead] : given) {
    if (!tensor.defined())
      return Error{ErrorKind::kBadData, "'" + path + "': " + unreadable(info).message};
    tensors.emplace_back(info.name, std::move(tensor));
  }
  return tensors;
}

}  // namespace lockstep
