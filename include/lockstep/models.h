// Networks with the names, the order of registration and the initial values of torchvision, or of
// the tutorial that a recipe follows: after at::manual_seed(s) each factory draws from libtorch's
// default generator exactly what Python draws after torch.manual_seed(s), so both hold the same
// bits (compared with torch 2.11 and torchvision 0.26).
//
//   at::manual_seed(0);
//   const auto net = lockstep::models::resnet18(10);
//   at::Tensor scores = net->forward(images);
//
// Values: float32 on the CPU, in training mode, every parameter trainable. Ownership: the caller's.
// Errors: c10::ValueError for a number that no network can have, as from torch::nn's own modules.
// Threads: one at a time; construction uses the process's default generator. Not part of
// lockstep/lockstep.h, since this header includes libtorch's modules; link lockstep::models
// (lockstep::lockstep has it).
#pragma once

#include <torch/nn/modules/container/sequential.h>
#include <torch/nn/modules/linear.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace lockstep::models {

class Network : public torch::nn::Module {
 public:
  using Module::Module;
  // float32 [B, ...] -> scores float32 [B, classes]; the shape of one input is each factory's.
  virtual at::Tensor forward(at::Tensor input) = 0;
};

// A network of torchvision, whose last part (a resnet's `fc`, a vgg's `classifier`) can be replaced
// after its weights were read. The names then are the new part's: "fc.0.weight" ...
class Backbone : public Network {
 public:
  using Network::Network;
  // head: [B, F] -> scores; F is 512 for a resnet and 25088 for a vgg.
  virtual void replace_head(torch::nn::Sequential head) = 0;
};

// torchvision.models.resnet18 and resnet34; images [B, 3, H, W] of any size.
std::shared_ptr<Backbone> resnet18(std::int64_t num_classes = 1000);
std::shared_ptr<Backbone> resnet34(std::int64_t num_classes = 1000);

// The CIFAR-10 tutorial's ResNet-18: first a 3x3 convolution, no pooling; its own names (conv1 ..
// conv5, dense_layer); PyTorch's default initial values. Images [B, 3, H, W] of any size; the
// tutorial's are 32x32.
std::shared_ptr<Network> cifar_resnet18(std::int64_t num_classes = 10);

struct VggOptions {
  std::int64_t num_classes = 1000;
  double dropout = 0.5;
  std::int64_t classifier_width = 4096;  // of the two hidden layers; torchvision's is 4096
  // False: PyTorch's default values, as torchvision leaves them for weights to be read.
  bool init_weights = true;
};

// torchvision.models.vgg16 .. vgg19_bn; images [B, 3, H, W], H and W at least 32 (else
// c10::ValueError); the features are pooled to 7x7 whatever the size.
std::shared_ptr<Backbone> vgg16(const VggOptions& options = {});
std::shared_ptr<Backbone> vgg16_bn(const VggOptions& options = {});
std::shared_ptr<Backbone> vgg19(const VggOptions& options = {});
std::shared_ptr<Backbone> vgg19_bn(const VggOptions& options = {});

// The ConvNet of the tutorial on MNIST: images [B, 1, H, W], H and W at least 4. The tutorial's are
// 28x28; the features of other sizes are pooled to 7x7. 28,938 parameters.
std::shared_ptr<Network> convnet(std::int64_t num_classes = 10);

// The MLP of PyTorch's quickstart tutorial, inputs-512-512-classes: input [B, ...] with `inputs`
// values each.
std::shared_ptr<Network> quickstart_mlp(std::int64_t inputs = 784, std::int64_t num_classes = 10);

// Linear(20, 1): the toy model of the multi-GPU blog, and of the linear regression. [B, 20] ->
// [B, 1].
torch::nn::Linear toy_linear();

// module.to(memory_format=torch.channels_last): weights of four dimensions lie as convolutions on
// the CPU like them best; `images.contiguous(at::MemoryFormat::ChannelsLast)` is the inputs' side.
// The bits are others than those of contiguous weights, so a run's manifest says it ("strides");
// names, shapes and files stay. Before an optimizer takes the parameters.
void to_channels_last(torch::nn::Module& module);

// Heads. The classifier tutorial's: Linear(features, features), ReLU, Linear(features, classes).
torch::nn::Sequential two_layer_head(std::int64_t features, std::int64_t num_classes);
// Linear layers from each width to the next, ReLU and Dropout between them. {25088, 4096, 2048, 20}
// with 0.7 is the time-budget tutorial's classifier.
torch::nn::Sequential dropout_head(const std::vector<std::int64_t>& widths, double dropout);

// Every parameter that the module has now stops being trainable and loses its gradient: no update
// changes it. Buffers are no parameters: batch norm's running statistics still follow the data
// while the module is in training mode.
void freeze(torch::nn::Module& module);
// The others, in order of registration: what an optimizer is for.
std::vector<at::Tensor> trainable_parameters(const torch::nn::Module& module);

// What Python's print(module) writes, letter by letter, without a line end: for the networks above
// and for modules made of Linear, Conv2d, BatchNorm2d, ReLU, MaxPool2d, AdaptiveAvgPool2d, Dropout,
// Flatten and Sequential. Any other layer is written as its class and its children, without its own
// settings; a square window of pooling as one number.
std::string python_repr(const torch::nn::Module& module);

}  // namespace lockstep::models
