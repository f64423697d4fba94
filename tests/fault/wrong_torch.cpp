// Put before libtorch by LD_PRELOAD: a torch that says it is another version.
#include <string>

namespace at {
__attribute__((visibility("default"))) std::string show_config() {
  return "PyTorch built with:\n  - Build settings: TORCH_VERSION=2.99.0, \n";
}
}  // namespace at
