// models_peer.py with our networks: the same lines, to the last bit.
//   models_print [CASE...]        everything
//   models_print --initial        each case's name and SHA-256 of its lines on initial values
//   models_print --pt CASE [FROM TO]...   the network with the weights of FROM, saved as TO
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <span>

#include "base/hash.h"
#include "lockstep/checkpoint.h"
#include "lockstep/models.h"

namespace {

namespace models = lockstep::models;
using Shape = std::vector<std::int64_t>;

struct Subject {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(at::Tensor)> forward;
};

template <class Net>
Subject subject(std::shared_ptr<Net> net) {
  return {net, [net](at::Tensor x) { return net->forward(std::move(x)); }};
}

Subject designsafe(bool frozen) {
  const auto net = models::resnet34();
  if (frozen) models::freeze(*net);
  net->replace_head(models::two_layer_head(512, 3));
  return subject(net);
}

Subject time_budget() {
  const auto net = models::vgg19({.classifier_width = 64});
  net->replace_head(models::dropout_head({25088, 64, 32, 20}, 0.7));
  return subject(net);
}

struct Case {
  const char* name;
  std::function<Subject()> make;
  Shape input;  // empty: initial values alone
};

const std::vector<Case>& cases() {
  using models::VggOptions;
  const VggOptions narrow{.num_classes = 10, .classifier_width = 48};
  const VggOptions unset{.num_classes = 10, .classifier_width = 48, .init_weights = false};
  static const std::vector<Case> all{
      {"resnet18", [] { return subject(models::resnet18(10)); }, {3, 3, 50, 45}},
      {"resnet34", [] { return subject(models::resnet34()); }, {2, 3, 33, 33}},
      {"designsafe", [] { return designsafe(false); }, {2, 3, 40, 40}},
      {"designsafe-frozen", [] { return designsafe(true); }, {2, 3, 40, 40}},
      {"cifar", [] { return subject(models::cifar_resnet18()); }, {2, 3, 32, 32}},
      {"cifar-small", [] { return subject(models::cifar_resnet18(2)); }, {3, 3, 10, 9}},
      {"vgg16", [=] { return subject(models::vgg16(narrow)); }, {2, 3, 32, 32}},
      {"vgg16_bn", [=] { return subject(models::vgg16_bn(narrow)); }, {2, 3, 32, 32}},
      {"vgg19", [=] { return subject(models::vgg19(narrow)); }, {2, 3, 40, 32}},
      {"vgg19_bn", [=] { return subject(models::vgg19_bn(narrow)); }, {2, 3, 32, 32}},
      {"vgg16_bn-unset", [=] { return subject(models::vgg16_bn(unset)); }, {2, 3, 32, 32}},
      {"vgg16-whole", [] { return subject(models::vgg16()); }, {}},
      {"vgg19_bn-whole", [] { return subject(models::vgg19_bn()); }, {}},
      {"time-budget", [] { return time_budget(); }, {2, 3, 32, 32}},
      {"convnet", [] { return subject(models::convnet()); }, {5, 1, 28, 28}},
      {"convnet-small", [] { return subject(models::convnet(7)); }, {5, 1, 13, 16}},
      {"quickstart", [] { return subject(models::quickstart_mlp()); }, {4, 1, 28, 28}},
      {"toy", [] { return subject(models::toy_linear().ptr()); }, {6, 20}},
  };
  return all;
}

std::string hash_of(const at::Tensor& tensor) {
  if (!tensor.defined()) return "None";
  const at::Tensor values = tensor.detach().contiguous();
  lockstep::Sha256 hash;
  hash.update({static_cast<const std::byte*>(values.const_data_ptr()), values.nbytes()});
  return hash.hex();
}

// What Python's print(module) gives, then a line for each entry of its state_dict, in its order.
std::string initial(const torch::nn::Module& module) {
  std::string lines = models::python_repr(module) + "\n";
  const auto line = [&](const std::string& prefix, const auto& item) {
    lines += prefix + item.key() + " (";
    for (const auto size : item.value().sizes()) lines += std::to_string(size) + ",";
    lines += std::string(") ") + c10::toString(item.value().scalar_type()) + " " +
             hash_of(item.value()) + "\n";
  };
  for (const auto& part : module.named_modules()) {
    const std::string prefix = part.key().empty() ? "" : part.key() + ".";
    for (const auto& item : part.value()->named_parameters(false)) line(prefix, item);
    for (const auto& item : part.value()->named_buffers(false)) line(prefix, item);
  }
  return lines;
}

void print_pass(Subject& net, const at::Tensor& input, const char* mode) {
  const at::Tensor out = net.forward(input);
  std::printf("%s output %s\n", mode, hash_of(out).c_str());
  out.backward(at::randn(out.sizes()));
  for (const auto& item : net.module->named_parameters())
    std::printf("%s gradient %s %s\n", mode, item.key().c_str(),
                hash_of(item.value().grad()).c_str());
  for (const auto& item : net.module->named_buffers())
    std::printf("%s buffer %s %s\n", mode, item.key().c_str(), hash_of(item.value()).c_str());
  net.module->zero_grad();
}

void print_case(const Case& c) {
  at::manual_seed(0);
  Subject net = c.make();
  std::printf("== %s\n%s", c.name, initial(*net.module).c_str());
  if (c.input.empty()) return;
  at::manual_seed(1);
  const at::Tensor input = at::randn(c.input);
  print_pass(net, input, "train");
  net.module->eval();
  print_pass(net, input, "eval");
}

void print_digests() {
  std::printf("capability %s\n", at::get_cpu_capability().c_str());
  for (const Case& c : cases()) {
    at::manual_seed(0);
    lockstep::Sha256 hash;
    hash.update(initial(*c.make().module));
    std::printf("%s %s\n", c.name, hash.hex().c_str());
  }
}

void must(const lockstep::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", status.error().message.c_str());
  std::exit(1);
}

void copy_files(const std::string& name, std::span<const std::string> paths) {
  const auto subject = std::ranges::find(cases(), name, &Case::name);
  const std::shared_ptr<torch::nn::Module> net = subject->make().module;
  for (; !paths.empty(); paths = paths.subspan(2)) {
    must(lockstep::load_state_dict(*net, paths[0]));
    must(lockstep::save_pt(paths[1], *net));
    const at::NoGradGuard no_grad;
    for (at::Tensor& p : net->parameters()) p.zero_();
    for (at::Tensor& b : net->buffers()) b.zero_();
  }
}

}  // namespace

int main(int argc, char** argv) {
  at::set_num_threads(1);
  const std::vector<std::string> wanted(argv + 1, argv + argc);
  if (wanted == std::vector<std::string>{"--initial"}) return print_digests(), 0;
  if (wanted.size() >= 2 && wanted[0] == "--pt")
    return copy_files(wanted[1], std::span(wanted).subspan(2)), 0;
  for (const Case& c : cases())
    if (wanted.empty() || std::find(wanted.begin(), wanted.end(), c.name) != wanted.end())
      print_case(c);
}
