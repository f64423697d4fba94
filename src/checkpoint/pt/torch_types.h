// What torch's dtypes and storage classes are called in a pickle, and pieces of storages.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "checkpoint/pt/tensor.h"

namespace lockstep::checkpoint::pt {

// Of a tensor or storage: one that is read, or the name of another.
struct Element {
  DType dtype = DType::kOpaque;
  std::string other;

  std::string name() const { return dtype == DType::kOpaque ? other : std::string(name_of(dtype)); }
};

// A piece of a storage, as a persistent id names it.
struct StorageRef final : pickle::Object {
  std::shared_ptr<Storage> storage;
  Element element;
  std::string place;        // where there is nothing to read: "meta"
  std::uint64_t begin = 0;  // bytes
  std::string type() const override { return "a storage without a tensor"; }
  bool complete() const override { return false; }
};

// "torch.float32", whether it is on our list or not.
std::string global_name(const pickle::Value& value);

// Of a dtype; kBadData if the value is none.
Result<Element> element_of(const pickle::Value& dtype);

struct StorageClass {
  Element element;
  std::uint64_t bytes = 0;  // of an element; 0: not known
};
// Of torch.FloatStorage and the like; kBadData if the value is none.
Result<StorageClass> storage_class(const pickle::Value& value);

}  // namespace lockstep::checkpoint::pt
