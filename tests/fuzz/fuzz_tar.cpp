// Any bytes as a tar archive, packed or not: refused, or entries that all stay below their folder,
// with as much content as they say.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>

#include "data/archive/tar.h"

using namespace lockstep::data;

namespace {

struct Checked final : TarSink {
  std::uint64_t left = 0;
  lockstep::Status folder(const std::string& path) override { return check(path); }
  lockstep::Status file(const std::string& path, std::uint64_t size) override {
    if (left != 0) std::abort();
    left = size;
    return check(path);
  }
  lockstep::Status content(std::span<const std::byte> piece) override {
    if (piece.size() > left) std::abort();
    left -= piece.size();
    return {};
  }
  lockstep::Status link(const std::string& path, const std::string& target) override {
    if (path == target) std::abort();
    static_cast<void>(check(path));
    return check(target);
  }
  static lockstep::Status check(const std::string& path) {
    const std::string whole = "/" + path + "/";
    if (path.empty() || whole.find("/../") != std::string::npos ||
        whole.find("/./") != std::string::npos || whole.find("//") != std::string::npos ||
        whole.find('\0') != std::string::npos)
      std::abort();
    return {};
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  Source source = [data, size, at = std::size_t{1}](
                      std::span<std::byte> out) mutable -> lockstep::Result<std::size_t> {
    const std::size_t bytes = std::min(out.size(), size - at);
    std::memcpy(out.data(), data + at, bytes);
    at += bytes;
    return bytes;
  };
  if ((*data & 1) != 0) source = gunzip_source(std::move(source));
  Checked sink;
  const lockstep::Status read = read_tar(source, {.entries = 1000, .bytes = 1 << 24}, sink);
  if (read.ok() && sink.left != 0) std::abort();
  return 0;
}
