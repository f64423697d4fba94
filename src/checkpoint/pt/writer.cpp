#include "checkpoint/pt/writer.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "checkpoint/pt/zip_writer.h"
#include "pickle/writer.h"

namespace lockstep::checkpoint::pt {
namespace {

using pickle::Op;
using pickle::Value;
using pickle::Writer;

// Turns tensors into torch's calls, and numbers their storages in the order of first use.
class Pickler {
 public:
  Result<std::string> pickle(const Value& root) {
    return pickle::write(root,
                         [this](Writer& out, const Value& value) { return object(out, value); });
  }
  const std::vector<const Storage*>& storages() const { return storages_; }

 private:
  Status object(Writer& out, const Value& value) {
    if (const auto named = value.as<pickle::Named>()) return global(out, named->global());
    const auto tensor = value.as<TensorValue>();
    if (tensor == nullptr)
      return Error{ErrorKind::kUsage,
                   value.type() + " has no form in a .pt file; use a list or a tensor"};
    if (!tensor->parameter) return write_tensor(out, *tensor, tensor->requires_grad);
    out.global("torch._utils", "_rebuild_parameter");
    out.op(Op::kMark);
    LOCKSTEP_TRY(write_tensor(out, *tensor, false));
    out.boolean(tensor->requires_grad);
    return finish(out);
  }

  static Status global(Writer& out, const pickle::Global& global) {
    const std::size_t dot = global.name.rfind('.');
    out.global(global.name.substr(0, dot), global.name.substr(dot + 1));
    return {};
  }

  Status write_tensor(Writer& out, const TensorValue& tensor, bool requires_grad) {
    LOCKSTEP_TRY(check(tensor));
    const TorchType& type = torch_type(tensor.dtype);
    out.global("torch._utils",
               type.storage != nullptr ? "_rebuild_tensor_v2" : "_rebuild_tensor_v3");
    out.op(Op::kMark);
    LOCKSTEP_TRY(persistent_id(out, tensor, type));
    out.integer(static_cast<std::int64_t>(tensor.offset / size_of(tensor.dtype)));
    sizes(out, tensor.shape);
    sizes(out, tensor.strides);
    out.boolean(requires_grad);
    if (type.storage != nullptr) return finish(out);
    no_hooks(out);
    out.global("torch", type.name);
    return call(out);
  }

  static void no_hooks(Writer& out) {
    out.global("collections", "OrderedDict");
    out.op(Op::kEmptyTuple);
    out.op(Op::kReduce);
  }

  static Status call(Writer& out) {
    out.op(Op::kTuple);
    out.op(Op::kReduce);
    return {};
  }

  static Status finish(Writer& out) {
    no_hooks(out);
    return call(out);
  }

  static void sizes(Writer& out, const std::vector<std::uint64_t>& values) {
    if (values.empty()) return out.op(Op::kEmptyTuple);
    out.op(Op::kMark);
    for (const std::uint64_t value : values) out.integer(static_cast<std::int64_t>(value));
    out.op(Op::kTuple);
  }

  Status persistent_id(Writer& out, const TensorValue& tensor, const TorchType& type) {
    const auto [number, fresh] =
        numbers_.try_emplace(tensor.storage.get(), Number{storages_.size(), tensor.dtype});
    if (fresh) storages_.push_back(tensor.storage.get());
    if (number->second.dtype != tensor.dtype)
      return Error{ErrorKind::kUsage, "two tensors share a storage as " +
                                          std::string(name_of(number->second.dtype)) + " and " +
                                          std::string(name_of(tensor.dtype)) +
                                          ", which torch does not save; clone one"};
    const std::uint64_t elements = type.storage == nullptr
                                       ? tensor.storage->size
                                       : tensor.storage->size / size_of(tensor.dtype);
    out.op(Op::kMark);
    LOCKSTEP_TRY(out.text("storage"));
    out.global(type.storage == nullptr ? "torch.storage" : "torch",
               type.storage == nullptr ? "UntypedStorage" : type.storage);
    LOCKSTEP_TRY(out.text(std::to_string(number->second.index)));
    LOCKSTEP_TRY(out.text("cpu"));
    out.integer(static_cast<std::int64_t>(elements));
    out.op(Op::kTuple);
    out.op(Op::kBinPersId);
    return {};
  }

  static Status check(const TensorValue& tensor) {
    const std::size_t size = size_of(tensor.dtype);
    const bool whole =
        tensor.storage != nullptr && tensor.storage->size % size == 0 && tensor.offset % size == 0;
    const Status bounds = whole ? check_bounds(tensor) : Status();
    if (whole && bounds.ok()) return {};
    return Error{ErrorKind::kUsage,
                 "a tensor does not fit its storage: " +
                     (bounds.ok() ? "its size or offset is no multiple of its dtype's"
                                  : bounds.error().message)};
  }

  struct Number {
    std::size_t index;
    DType dtype;
  };
  std::map<const Storage*, Number> numbers_;
  std::vector<const Storage*> storages_;
};

// torch's is 20 digits of the names' hash and 20 of the records'.
std::string serialization_id(const ZipWriter& zip) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%020llu%020llu",
                static_cast<unsigned long long>(zip.names_hash()),
                static_cast<unsigned long long>(zip.content_hash()));
  return text.data();
}

// As torch names it, for names that every zip tool shows alike.
std::string folder_of(const std::string& path) {
  const std::string stem = std::filesystem::path(path).stem().string();
  const bool plain =
      std::ranges::all_of(stem, [](char c) { return c > 0x20 && c < 0x7f && c != '\\'; });
  return plain && !stem.empty() && stem.size() < 256 ? stem : "archive";
}

}  // namespace

Status write_to(File& file, const std::string& folder, const Value& root,
                std::uint64_t zip64_from) {
  Pickler pickler;
  LOCKSTEP_ASSIGN(const std::string pickle, pickler.pickle(root));
  ZipWriter zip(file, zip64_from);
  LOCKSTEP_TRY(zip.add(folder + "/data.pkl", pickle));
  LOCKSTEP_TRY(zip.add(folder + "/.format_version", "1"));
  LOCKSTEP_TRY(zip.add(folder + "/.storage_alignment", std::to_string(kAlignment)));
  LOCKSTEP_TRY(zip.add(folder + "/byteorder", "little"));
  for (std::size_t i = 0; i < pickler.storages().size(); ++i)
    LOCKSTEP_TRY(zip.add(folder + "/data/" + std::to_string(i), pickler.storages()[i]->bytes()));
  LOCKSTEP_TRY(zip.add(folder + "/version", "3\n"));
  LOCKSTEP_TRY(zip.add(folder + "/.data/serialization_id", serialization_id(zip)));
  return zip.finish();
}

Status write(Env& env, const std::string& path, const Value& root) {
  LOCKSTEP_TRY(check_local(path));
  return write_atomically(env, path,
                          [&](File& file) { return write_to(file, folder_of(path), root); });
}

}  // namespace lockstep::checkpoint::pt
