#include "allocated.h"

#include <cstddef>
#include <cstdlib>
#include <new>

namespace lockstep::simulation {
namespace {

thread_local std::uint64_t bytes = 0;

}  // namespace

std::uint64_t allocated() { return bytes; }

}  // namespace lockstep::simulation

void* operator new(std::size_t size) {
  lockstep::simulation::bytes += size;
  if (void* memory = std::malloc(size == 0 ? 1 : size)) return memory;
  throw std::bad_alloc();
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t /*size*/) noexcept { std::free(memory); }
