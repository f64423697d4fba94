// tests/golden/optimizers.py with our optimizers: the same lines, to the last bit.
#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <ATen/ops/randn.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/hash.h"
#include "lockstep/lr_scheduler.h"
#include "lockstep/optim.h"

namespace {

using lockstep::Adam;
using lockstep::AdamW;
using lockstep::Optimizer;
using lockstep::SGD;
using Parameters = std::vector<at::Tensor>;
using Make = std::function<std::unique_ptr<Optimizer>(Parameters)>;

template <class T, class Options>
Make maker(Options options) {
  return [=](Parameters p) { return std::make_unique<T>(std::move(p), options); };
}

const std::vector<std::pair<std::string, Make>>& settings() {
  static const std::vector<std::pair<std::string, Make>> all{
      {"sgd", maker<SGD>(lockstep::SGDOptions{.lr = 0.1})},
      {"sgd-momentum", maker<SGD>(lockstep::SGDOptions{.lr = 0.1, .momentum = 0.9})},
      {"sgd-dampening", maker<SGD>(lockstep::SGDOptions{
                            .lr = 0.1, .momentum = 0.9, .dampening = 0.5, .weight_decay = 0.01})},
      {"sgd-nesterov",
       maker<SGD>(lockstep::SGDOptions{.lr = 0.1, .momentum = 0.9, .nesterov = true})},
      {"adam", maker<Adam>(lockstep::AdamOptions{.lr = 1e-3})},
      {"adam-decay", maker<Adam>(lockstep::AdamOptions{
                         .lr = 1e-2, .beta1 = 0.8, .beta2 = 0.99, .weight_decay = 0.1})},
      {"sgd-groups",
       [](const Parameters& p) {
         return std::make_unique<SGD>(std::vector<lockstep::ParamGroup<lockstep::SGDOptions>>{
             {{p[0]}, {.lr = 0.1}}, {{p[1]}, {.lr = 0.01, .momentum = 0.9}}});
       }},
      {"sgd-clip", maker<SGD>(lockstep::SGDOptions{.lr = 0.1})},
      {"adamw", maker<AdamW>(lockstep::AdamWOptions{.lr = 1e-3})},
      {"adamw-groups",
       [](const Parameters& p) {
         return std::make_unique<AdamW>(std::vector<lockstep::ParamGroup<lockstep::AdamWOptions>>{
             {{p[0]}, {.lr = 1e-3, .weight_decay = 0.05, .amsgrad = true}},
             {{p[1]}, {.lr = 1e-2, .beta1 = 0.5, .beta2 = 0.999}}});
       }},
      {"adam-amsgrad", maker<Adam>(lockstep::AdamOptions{.lr = 1e-3, .amsgrad = true})},
  };
  return all;
}

std::string hash_after_updates(const std::string& name, const Make& make) {
  at::manual_seed(0);
  Parameters p{at::randn({70, 50}), at::randn({11})};
  for (at::Tensor& tensor : p) tensor.requires_grad_();
  const auto optimizer = make(p);
  for (int step = 0; step < 6; ++step) {
    p[0].mutable_grad() = at::randn({70, 50});
    p[1].mutable_grad() = at::randn({11});
    if (step == 2) p[1].mutable_grad().reset();
    if (step == 4)
      for (std::size_t g = 0; g < optimizer->groups(); ++g)
        optimizer->set_lr(g, optimizer->lr(g) / 3);
    if (name == "sgd-clip") lockstep::clip_grad_norm_(p, 59.0);  // bites in some steps only
    optimizer->step();
  }
  lockstep::Sha256 hash;
  for (const at::Tensor& tensor : p)
    hash.update({static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()});
  return hash.hex();
}

const double kMetrics[] = {1.0,  0.9,  0.9,  0.89995, 0.95, 0.9,  0.5,  0.6,  0.6,  0.6,
                           0.55, 0.52, 0.51, 0.5,     0.49, 0.49, 0.49, 0.49, 0.49, 0.49};

// Python's float.hex().
std::string hex(double rate) {
  char text[40];
  std::snprintf(text, sizeof text, "%.13a", rate);
  return text;
}

template <class Scheduler, class... Settings>
void print_schedule(const char* name, Settings... settings) {
  SGD optimizer({{{at::zeros({1})}, {.lr = 0.1}}, {{at::zeros({1})}, {.lr = 0.007}}});
  Scheduler scheduler(optimizer, settings...);
  std::printf("%s", name);
  for (const double metric : kMetrics) {
    if constexpr (std::is_same_v<Scheduler, lockstep::ReduceLROnPlateau>)
      scheduler.step(metric);
    else
      scheduler.step();
    for (const std::size_t g : {0, 1}) std::printf(" %s", hex(optimizer.lr(g)).c_str());
  }
  std::printf("\n");
}

}  // namespace

int main() {
  at::set_num_threads(1);
  for (const auto& [name, make] : settings())
    std::printf("%s %s\n", name.c_str(), hash_after_updates(name, make).c_str());
  using Plateau = lockstep::ReduceLROnPlateau;
  using Options = lockstep::ReduceLROnPlateauOptions;
  print_schedule<lockstep::StepLR>("step", 3);
  print_schedule<lockstep::StepLR>("step-gamma", 1, 0.97);
  using Lambda = lockstep::LambdaLR::Lambda;
  print_schedule<lockstep::LambdaLR>("lambda", Lambda([](std::int64_t step) {
                                       const auto t = static_cast<double>(step);
                                       return std::min(1.0, (t + 1) / 7) / (1 + 0.1 * t);
                                     }));
  print_schedule<lockstep::LambdaLR>(
      "lambdas", std::vector<Lambda>{[](std::int64_t t) { return 1 / static_cast<double>(t + 3); },
                                     [](std::int64_t t) { return t < 5 ? 0.7 : 0.3; }});
  print_schedule<Plateau>("plateau", Options{.patience = 1});
  print_schedule<Plateau>("plateau-max-abs", Options{.mode = Options::Mode::kMax,
                                                     .factor = 0.3,
                                                     .patience = 2,
                                                     .threshold = 0.01,
                                                     .threshold_mode = Options::ThresholdMode::kAbs,
                                                     .cooldown = 2,
                                                     .min_lr = 1e-3});
}
