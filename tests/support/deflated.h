// Compressed bytes for tests.
#pragma once

#include <zlib.h>

#include <string>

namespace lockstep::test {

// By zlib; `window_bits` says which form (zlib.h, deflateInit2): -MAX_WBITS is bare, 16 + MAX_WBITS
// gzip's.
inline std::string deflated(const std::string& content, int window_bits) {
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, window_bits, 9, Z_DEFAULT_STRATEGY);
  std::string out(deflateBound(&stream, content.size()) + 64, '\0');
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(content.data()));
  stream.avail_in = static_cast<uInt>(content.size());
  stream.next_out = reinterpret_cast<Bytef*>(out.data());
  stream.avail_out = static_cast<uInt>(out.size());
  deflate(&stream, Z_FINISH);
  out.resize(stream.total_out);
  deflateEnd(&stream);
  return out;
}

}  // namespace lockstep::test
