#include "data/archive/source.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <vector>

#include "data/gzip.h"

namespace lockstep::data {
namespace {

constexpr std::size_t kPackedBytes = 1 << 16;
constexpr int kGzipOnly = 16 + MAX_WBITS;

Error damaged(const std::string& what) { return {ErrorKind::kBadData, "gzip: " + what}; }

class Gunzip {
 public:
  explicit Gunzip(Source packed) : packed_(std::move(packed)), buffer_(kPackedBytes) {
    ready_ = ::inflateInit2(&stream_, kGzipOnly) == Z_OK;
  }
  ~Gunzip() { ::inflateEnd(&stream_); }
  Gunzip(const Gunzip&) = delete;
  Gunzip& operator=(const Gunzip&) = delete;

  Result<std::size_t> read(std::span<std::byte> out) {
    if (!ready_) return Error{ErrorKind::kInternal, "zlib has no memory"};
    std::size_t done = 0;
    while (done < out.size()) {
      if (stream_.avail_in == 0) LOCKSTEP_TRY(refill());
      if (!inside_ && padded()) continue;
      if (stream_.avail_in == 0 && !inside_) break;
      if (stream_.avail_in == 0) return damaged("the file is cut off");
      LOCKSTEP_ASSIGN(const std::size_t more, inflate(out.subspan(done)));
      done += more;
    }
    return done;
  }

 private:
  // Zeros behind a member, as tapes and block devices have them, are passed over (as by gzip).
  bool padded() {
    const uInt before = stream_.avail_in;
    for (; stream_.avail_in > 0 && *stream_.next_in == 0; --stream_.avail_in) ++stream_.next_in;
    return before > 0 && stream_.avail_in == 0;
  }

  Status refill() {
    LOCKSTEP_ASSIGN(const std::size_t bytes, packed_(buffer_));
    stream_.next_in = reinterpret_cast<Bytef*>(buffer_.data());
    stream_.avail_in = static_cast<uInt>(bytes);
    return {};
  }

  Result<std::size_t> inflate(std::span<std::byte> out) {
    const auto room = static_cast<uInt>(std::min<std::size_t>(out.size(), 1U << 30));
    stream_.next_out = reinterpret_cast<Bytef*>(out.data());
    stream_.avail_out = room;
    inside_ = true;
    const int code = ::inflate(&stream_, Z_NO_FLUSH);
    if (code == Z_STREAM_END) {
      inside_ = false;
      ready_ = ::inflateReset(&stream_) == Z_OK;
    } else if (code != Z_OK && code != Z_BUF_ERROR) {
      return damaged(stream_.msg != nullptr ? stream_.msg : "damaged");
    }
    return std::size_t{room} - stream_.avail_out;
  }

  Source packed_;
  std::vector<std::byte> buffer_;
  z_stream stream_{};
  bool ready_ = false;
  bool inside_ = true;  // of a member
};

}  // namespace

Source plain_source(std::shared_ptr<ReadableFile> file) {
  return [file = std::move(file),
          at = std::uint64_t{0}](std::span<std::byte> out) mutable -> Result<std::size_t> {
    const auto bytes =
        static_cast<std::size_t>(std::min<std::uint64_t>(out.size(), file->size() - at));
    LOCKSTEP_TRY(file->read_at(at, out.first(bytes)));
    at += bytes;
    return bytes;
  };
}

Source gunzip_source(Source packed) {
  return [gunzip = std::make_shared<Gunzip>(std::move(packed))](std::span<std::byte> out) {
    return gunzip->read(out);
  };
}

Source stoppable(Source from, Stopped stopped) {
  if (!stopped) return from;
  return [from = std::move(from),
          stopped = std::move(stopped)](std::span<std::byte> out) -> Result<std::size_t> {
    if (stopped()) return Error{ErrorKind::kUnavailable, "stopped"};
    return from(out);
  };
}

Result<Source> open_source(Env& env, const std::string& path) {
  LOCKSTEP_ASSIGN(std::shared_ptr<ReadableFile> file, env.open_read(path));
  std::array<std::byte, 2> start{};
  if (file->size() >= start.size()) LOCKSTEP_TRY(file->read_at(0, start));
  Source source = plain_source(std::move(file));
  if (is_gzip({reinterpret_cast<const char*>(start.data()), start.size()}))
    source = gunzip_source(std::move(source));
  return source;
}

}  // namespace lockstep::data
