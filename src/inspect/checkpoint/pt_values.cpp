#include "inspect/checkpoint/pt_values.h"

#include <memory>

#include "base/text.h"
#include "checkpoint/pt/tensor.h"

namespace lockstep::inspect {
namespace {

using checkpoint::pt::TensorLeaf;
using checkpoint::pt::TensorValue;
using pickle::Kind;
using pickle::Value;

constexpr std::size_t kMostCharacters = 60;
constexpr std::size_t kMostLeaves = 50;

std::string key_text(const Value& key) {
  return key.text() != nullptr ? *key.text() : plain_text(key);
}

std::string joined(const std::string& folder, const std::string& name) {
  return folder.empty() ? name : folder + "." + name;
}

// Calls f(name, value) for each entry of a dict, list or tuple.
template <class F>
void each_entry(const Value& value, F&& f) {
  if (const auto* const dict = value.dict_value())
    for (const auto& [key, item] : dict->pairs) f(key_text(key), item);
  if (const auto* const sequence = value.sequence())
    for (std::size_t i = 0; i < sequence->items.size(); ++i)
      f(std::to_string(i), sequence->items[i]);
}

struct Collected {
  std::vector<Tensor> tensors;
  std::vector<std::pair<std::string, std::string>> leaves;  // at most kMostLeaves
};

// All tensors in it; the reader bounds depth and number of values.
void collect(const std::string& name, const Value& value, Collected& found) {
  if (auto tensor = value.as<TensorValue>()) {
    const auto info = info_of(name, *tensor);
    if (is_too_expanded(*tensor))
      found.tensors.push_back(
          {{name, checkpoint::DType::kOpaque, info.shape, info.dtype_name() + " (expanded)"}, {}});
    else
      found.tensors.push_back({info, [tensor] { return packed(*tensor); }, tensor});
    return;
  }
  if (const auto leaf = value.as<TensorLeaf>()) {
    found.tensors.push_back({leaf->info(name), {}});
    return;
  }
  if (value.as<pickle::Opaque>() != nullptr && found.leaves.size() < kMostLeaves)
    found.leaves.emplace_back(name, value.type());
  each_entry(value, [&](const std::string& key, const Value& item) {
    collect(joined(name, key), item, found);
  });
}

std::string items_text(const Value& value) {
  const auto& sequence = *value.sequence();
  std::string text = sequence.is_tuple ? "(" : "[";
  for (std::size_t i = 0; i < sequence.items.size() && text.size() <= kMostCharacters; ++i)
    text += (i == 0 ? "" : ", ") + plain_text(sequence.items[i]);
  return text + (sequence.is_tuple ? ")" : "]");
}

std::string whole_text(const Value& value) {
  switch (value.kind()) {
    case Kind::kNone:
      return "None";
    case Kind::kBool:
      return *value.boolean() ? "True" : "False";
    case Kind::kInt:
      return std::to_string(*value.integer());
    case Kind::kFloat:
      return shortest(*value.number());
    case Kind::kStr:
    case Kind::kBytes:
      return checkpoint::quote(*value.text());
    case Kind::kSequence:
      return items_text(value);
    case Kind::kSet:
      return value.type() + " of " + std::to_string(value.set_value()->items.size()) + " values";
    case Kind::kDict:
      return "a dict of " + std::to_string(value.dict_value()->pairs.size()) + " entries";
    case Kind::kObject:
      break;
  }
  return value.type();
}

}  // namespace

std::string plain_text(const Value& value) {
  std::string text = whole_text(value);
  if (text.size() <= kMostCharacters) return text;
  if (const auto* const sequence = value.sequence())
    return value.type() + " of " + std::to_string(sequence->items.size()) + " values";
  std::size_t end = kMostCharacters;
  while (end > 0 && (text[end] & 0xC0) == 0x80) --end;  // not within a character
  return text.substr(0, end) + "...";
}

void add_values(const Value& root, Bundle& bundle) {
  Collected own;
  std::vector<Part> others;
  const auto add = [&](const std::string& name, const Value& value) {
    const bool container = value.dict_value() != nullptr || value.sequence() != nullptr;
    if (!container) {
      collect(name, value, own);
      if (value.as<TensorValue>() == nullptr && value.as<TensorLeaf>() == nullptr)
        bundle.values.emplace_back(name, plain_text(value));
      return;
    }
    Collected found;
    collect("", value, found);
    if (found.tensors.empty()) bundle.values.emplace_back(name, plain_text(value));
    for (auto& [leaf, text] : found.leaves)
      bundle.values.emplace_back(joined(name, leaf), std::move(text));
    if (!found.tensors.empty()) others.push_back({name, std::move(found.tensors)});
  };
  if (root.dict_value() != nullptr || root.sequence() != nullptr)
    each_entry(root, add);
  else
    add("value", root);
  if (!own.tensors.empty()) bundle.parts.push_back({"", std::move(own.tensors)});
  for (Part& part : others) bundle.parts.push_back(std::move(part));
}

}  // namespace lockstep::inspect
