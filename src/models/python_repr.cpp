// Module.__repr__ and the layers' extra_repr of torch 2.11 (torch/nn/modules/*.py).
#include <torch/enum.h>
#include <torch/nn/modules/batchnorm.h>
#include <torch/nn/modules/dropout.h>
#include <torch/nn/modules/pooling.h>

#include <charconv>
#include <cmath>
#include <optional>
#include <variant>

#include "models/layers.h"

namespace lockstep::models {
namespace nn = torch::nn;
namespace {

using Pair = torch::ExpandingArray<2>;

std::string text(bool value) { return value ? "True" : "False"; }
std::string text(std::int64_t value) { return std::to_string(value); }

// repr(float): the shortest digits that read back; an exponent below 1e-4 and from 1e16 on.
std::string text(double value) {
  char digits[64];
  const double size = std::fabs(value);
  const bool plain = std::isfinite(value) && (value == 0 || (size >= 1e-4 && size < 1e16));
  const auto form = plain ? std::chars_format::fixed : std::chars_format::scientific;
  std::string out(digits, std::to_chars(digits, digits + sizeof(digits), value, form).ptr);
  return plain && out.find('.') == std::string::npos ? out + ".0" : out;
}

template <class T>
std::string text(const std::optional<T>& value) {
  return value ? text(*value) : "None";
}

template <class Array>
std::string tuple(const Array& a) {
  return "(" + text(a->at(0)) + ", " + text(a->at(1)) + ")";
}

std::string window(const Pair& a) { return a->at(0) == a->at(1) ? text(a->at(0)) : tuple(a); }
bool all(const Pair& a, std::int64_t value) { return a->at(0) == value && a->at(1) == value; }

template <class Padding>
std::string padding(const Padding& value) {
  if (const auto* sizes = std::get_if<Pair>(&value))
    return all(*sizes, 0) ? "" : ", padding=" + tuple(*sizes);
  const bool same = std::holds_alternative<torch::enumtype::kSame>(value);
  return same ? ", padding=same" : ", padding=valid";
}

template <class Mode>
std::string padding_mode(const Mode& mode) {
  if (std::holds_alternative<torch::enumtype::kZeros>(mode)) return "";
  if (std::holds_alternative<torch::enumtype::kReflect>(mode)) return ", padding_mode=reflect";
  const bool circular = std::holds_alternative<torch::enumtype::kCircular>(mode);
  return circular ? ", padding_mode=circular" : ", padding_mode=replicate";
}

std::string settings(const nn::Conv2dImpl& layer) {
  const auto& o = layer.options;
  return text(o.in_channels()) + ", " + text(o.out_channels()) +
         ", kernel_size=" + tuple(o.kernel_size()) + ", stride=" + tuple(o.stride()) +
         padding(o.padding()) + (all(o.dilation(), 1) ? "" : ", dilation=" + tuple(o.dilation())) +
         (o.groups() == 1 ? "" : ", groups=" + text(o.groups())) +
         (layer.bias.defined() ? "" : ", bias=False") + padding_mode(o.padding_mode());
}

std::string settings(const nn::LinearImpl& layer) {
  return "in_features=" + text(layer.options.in_features()) +
         ", out_features=" + text(layer.options.out_features()) +
         ", bias=" + text(layer.bias.defined());
}

std::string settings(const nn::BatchNorm2dImpl& layer) {
  const auto& o = layer.options;
  return text(o.num_features()) + ", eps=" + text(o.eps()) + ", momentum=" + text(o.momentum()) +
         ", affine=" + text(o.affine()) + ", track_running_stats=" + text(o.track_running_stats());
}

std::string settings(const nn::MaxPool2dImpl& layer) {
  const auto& o = layer.options;
  return "kernel_size=" + window(o.kernel_size()) + ", stride=" + window(o.stride()) +
         ", padding=" + window(o.padding()) + ", dilation=" + window(o.dilation()) +
         ", ceil_mode=" + text(o.ceil_mode());
}

std::string settings(const nn::AdaptiveAvgPool2dImpl& layer) {
  return "output_size=" + tuple(layer.options.output_size());
}

std::string settings(const nn::ReLUImpl& layer) {
  return layer.options.inplace() ? "inplace=True" : "";
}

std::string settings(const nn::DropoutImpl& layer) {
  return "p=" + text(layer.options.p()) + ", inplace=" + text(layer.options.inplace());
}

std::string settings(const nn::FlattenImpl& layer) {
  return "start_dim=" + text(layer.options.start_dim()) +
         ", end_dim=" + text(layer.options.end_dim());
}

// The settings of the first of these kinds that the module is.
template <class... Kinds>
std::string settings_of(const nn::Module& module) {
  std::string found;
  const auto is = [&](const auto* layer) { return layer && (found = settings(*layer), true); };
  (is(module.as<Kinds>()) || ...);
  return found;
}

// "torch::nn::Conv2dImpl" is Python's Conv2d.
std::string class_name(const nn::Module& module) {
  std::string name = module.name();
  if (const auto colon = name.rfind(':'); colon != std::string::npos) name.erase(0, colon + 1);
  if (name.ends_with("Impl")) name.resize(name.size() - 4);
  return name;
}

std::string indented(std::string lines) {
  for (auto at = lines.find('\n'); at != std::string::npos; at = lines.find('\n', at + 1))
    lines.insert(at + 1, "  ");
  return lines;
}

}  // namespace

std::string python_repr(const nn::Module& module) {
  const std::string own =
      settings_of<nn::Conv2dImpl, nn::LinearImpl, nn::BatchNorm2dImpl, nn::MaxPool2dImpl,
                  nn::AdaptiveAvgPool2dImpl, nn::ReLUImpl, nn::DropoutImpl, nn::FlattenImpl>(
          module);
  std::string children;
  for (const auto& child : module.named_children())
    children += "\n  (" + child.key() + "): " + indented(python_repr(*child.value()));
  return class_name(module) + "(" + (children.empty() ? own : children + "\n") + ")";
}

}  // namespace lockstep::models
