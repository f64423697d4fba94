#include "checkpoint/pt/optimizer.h"

#include <ATen/ops/scalar_tensor.h>

#include "base/errors.h"
#include "checkpoint/file_reader.h"

namespace lockstep::checkpoint::pt {
namespace {

using pickle::Value;
using Group = OptimizerStateDict::Group;
using Setting = OptimizerStateDict::Setting;

struct ToPickle {
  Value operator()(std::monostate) const { return {}; }
  Value operator()(bool value) const { return value; }
  Value operator()(double value) const { return value; }
  Value operator()(const std::vector<double>& values) const {
    return Value::tuple(pickle::Items(values.begin(), values.end()));
  }
};

Value value_of(const Group& group) {
  Value dict = Value::dict();
  for (const auto& [name, setting] : group.settings)
    dict.set(name, std::visit(ToPickle(), setting));
  dict.set("params", Value::list(pickle::Items(group.params.begin(), group.params.end())));
  return dict;
}

std::optional<double> number(Importer& in, const Value& value) {
  if (value.number() != nullptr) return *value.number();
  if (value.integer() != nullptr) return static_cast<double>(*value.integer());
  if (value.as<TensorValue>() == nullptr) return {};
  const auto tensor = in.tensor(value);  // a rate may be one
  if (!tensor.ok() || tensor->dim() != 0) return {};
  return tensor->item<double>();
}

std::optional<Setting> setting_of(Importer& in, const Value& value) {
  if (value.is_none()) return std::monostate();
  if (value.boolean() != nullptr) return *value.boolean();
  if (const auto held = number(in, value)) return *held;
  if (value.sequence() == nullptr) return {};
  std::vector<double> all;
  for (const Value& item : value.sequence()->items) {
    const auto held = number(in, item);
    if (!held) return {};
    all.push_back(*held);
  }
  return all;
}

Result<std::vector<std::int64_t>> params_of(const Value& group) {
  const Value* const list = group.find("params");
  if (list == nullptr || list->sequence() == nullptr)
    return bad_data("a group in 'param_groups' has no list 'params'");
  std::vector<std::int64_t> params;
  for (const Value& item : list->sequence()->items) {
    if (item.integer() == nullptr) return bad_data("'params' has " + item.type() + " as a number");
    params.push_back(*item.integer());
  }
  return params;
}

Result<Group> group_of(Importer& in, const Value& value) {
  if (value.dict_value() == nullptr)
    return bad_data(value.type() + " stands where a parameter group is due");
  Group group;
  LOCKSTEP_ASSIGN(group.params, params_of(value));
  for (const auto& [key, item] : value.dict_value()->pairs) {
    if (key.text() == nullptr || *key.text() == "params") continue;
    if (auto setting = setting_of(in, item))
      group.settings.emplace_back(*key.text(), *std::move(setting));
  }
  return group;
}

// None is what SGD keeps before the first update; the first torch counted steps as an int.
Result<NamedTensors> state_of(Importer& in, const Value& value) {
  if (value.dict_value() == nullptr)
    return bad_data(value.type() + " stands where a parameter's state is due");
  NamedTensors state;
  for (const auto& [key, item] : value.dict_value()->pairs) {
    if (key.text() == nullptr)
      return bad_data("a parameter's state has " + key.type() + " as a name");
    if (item.is_none()) continue;
    if (item.integer() != nullptr || item.number() != nullptr) {
      state.emplace_back(*key.text(), at::scalar_tensor(*number(in, item), at::kDouble));
      continue;
    }
    auto tensor = in.tensor(item);
    if (!tensor.ok())
      return Error{tensor.error().kind, quote(*key.text()) + ": " + tensor.error().message};
    state.emplace_back(*key.text(), *std::move(tensor));
  }
  return state;
}

}  // namespace

Result<Value> optimizer_value(Exporter& out, const OptimizerStateDict& dict) {
  if (dict.param_groups.empty())
    return Error{
        ErrorKind::kUsage,
        "an optimizer's state has no param_groups; lockstep::SGD, Adam and AdamW give one"};
  Value state = Value::dict();
  for (const auto& [parameter, tensors] : dict.state) {
    Value of_parameter = Value::dict();
    for (const auto& [name, tensor] : tensors) {
      LOCKSTEP_ASSIGN(Value value, out.tensor(tensor));
      of_parameter.set(name, std::move(value));
    }
    state.set(parameter, std::move(of_parameter));
  }
  Value groups = Value::list();
  for (const Group& group : dict.param_groups) groups.append(value_of(group));
  return Value::dict({{"state", std::move(state)}, {"param_groups", std::move(groups)}});
}

Result<OptimizerStateDict> optimizer_state(Importer& in, const Value& dict) {
  const Value* const state = dict.find("state");
  const Value* const groups = dict.find("param_groups");
  if (state == nullptr || state->dict_value() == nullptr || groups == nullptr ||
      groups->sequence() == nullptr)
    return bad_data(dict.type() +
                    " without 'state' and 'param_groups' stands where an optimizer's "
                    "state_dict is due");
  OptimizerStateDict made;
  for (const Value& item : groups->sequence()->items) {
    LOCKSTEP_ASSIGN(Group group, group_of(in, item));
    made.param_groups.push_back(std::move(group));
  }
  for (const auto& [key, item] : state->dict_value()->pairs) {
    if (key.integer() == nullptr) return bad_data("'state' has " + key.type() + " as a parameter");
    LOCKSTEP_ASSIGN(NamedTensors tensors, state_of(in, item));
    made.state.emplace_back(*key.integer(), std::move(tensors));
  }
  return made;
}

}  // namespace lockstep::checkpoint::pt
