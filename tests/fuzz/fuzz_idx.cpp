// IDX, plain and gzip: no crash, no allocation beyond what the input can hold; what is accepted has
// exactly its header's size.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "data/gzip.h"
#include "data/idx.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* bytes, std::size_t size) {
  namespace data = lockstep::data;
  const auto array =
      data::parse_idx(std::string(reinterpret_cast<const char*>(bytes), size), "fuzz");
  if (!array.ok()) return 0;
  std::uint64_t expected = data::element_size(array->header.type);
  for (const std::uint32_t n : array->header.sizes) expected *= n;
  if (array->values().size() != expected) std::abort();
  return 0;
}
