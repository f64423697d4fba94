// Stands in for Gloo's headers, which the torch wheel lacks: ProcessGroupGloo.hpp names these types
// but holds them behind pointers only. All code is the wheel's.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace gloo {
class Context {
 public:
  void setTimeout(std::chrono::milliseconds);
};
namespace transport {
class Device;
struct UnboundBuffer {
  virtual ~UnboundBuffer();
};
}  // namespace transport
namespace rendezvous {
struct Store {
  virtual ~Store();
  virtual void set(const std::string&, const std::vector<char>&) = 0;
  virtual std::vector<char> get(const std::string&) = 0;
  virtual void wait(const std::vector<std::string>&) = 0;
  virtual void wait(const std::vector<std::string>&, const std::chrono::milliseconds&) = 0;
};
}  // namespace rendezvous
}  // namespace gloo
