// Any bytes as a safetensors file: refused, or understood so that writing what is read of it again
// gives an equal header, in both layouts.
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "checkpoint/safetensors.h"
#include "require.h"

using namespace lockstep;
using namespace lockstep::checkpoint;

namespace {

void check(const Header& header, std::uint64_t file_bytes) {
  std::uint64_t covered = 0;
  std::vector<TensorInfo> infos;
  for (const Entry& entry : header.entries) {
    require(entry.begin == covered && entry.end >= entry.begin);
    const auto bytes = stored_size(entry.info);
    require(bytes.ok() && bytes->value_or(entry.end - entry.begin) == entry.end - entry.begin);
    require(entry.info.readable() == byte_size(entry.info).ok());
    require(!entry.info.dtype_name().empty() && !describe(entry.info).empty());
    covered = entry.end;
    if (entry.info.readable()) infos.push_back(entry.info);
  }
  require(header.data_start + covered == file_bytes);
  for (const auto& layout :
       {make_layout(infos, header.metadata), make_python_layout(infos, header.metadata)}) {
    if (!layout.ok()) continue;  // an empty name: readable, but we do not write it
    const auto again = parse_header(std::as_bytes(std::span(layout->text)), layout->file_bytes);
    require(again.ok() && again->metadata == header.metadata);
    require(again->entries.size() == infos.size());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::span input(reinterpret_cast<const std::byte*>(data), size);
  const auto start = data_start_of(input, size);
  if (!start.ok()) return 0;
  const auto header = parse_header(input, size);
  if (header.ok()) check(*header, size);
  return 0;
}
