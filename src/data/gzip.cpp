#include "data/gzip.h"

#include <zlib.h>

#include <algorithm>
#include <limits>
#include <memory>

namespace lockstep::data {
namespace {

Error damaged(std::string_view name, const std::string& what) {
  return {ErrorKind::kBadData,
          "'" + std::string(name) + "': " + what + "; fetch or copy the file again"};
}

class Inflater {
 public:
  explicit Inflater(std::string_view content)
      : left_(content), ok_(inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK) {}
  ~Inflater() {
    if (ok_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool finished() const { return finished_; }

  // Fills `out` as far as there is content; how many bytes it wrote.
  Result<std::size_t> read(char* out, std::size_t bytes, std::string_view name) {
    if (!ok_) return Error{ErrorKind::kInternal, "zlib does not start: out of memory?"};
    std::size_t done = 0;
    while (done < bytes && !finished_) {
      LOCKSTEP_ASSIGN(const std::size_t n, step(out + done, bytes - done, name));
      done += n;
    }
    return done;
  }

 private:
  Result<std::size_t> step(char* out, std::size_t bytes, std::string_view name) {
    constexpr std::size_t kChunk = std::numeric_limits<uInt>::max() / 2;
    const auto give = static_cast<uInt>(std::min(left_.size(), kChunk));
    const auto room = static_cast<uInt>(std::min(bytes, kChunk));
    // zlib does not write to its input; the type is older than const.
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(left_.data()));
    stream_.avail_in = give;
    stream_.next_out = reinterpret_cast<Bytef*>(out);
    stream_.avail_out = room;
    const int code = inflate(&stream_, Z_NO_FLUSH);
    left_.remove_prefix(give - stream_.avail_in);
    const std::size_t written = room - stream_.avail_out;
    if (code == Z_STREAM_END) return end_of_member(written, name);
    if (code == Z_BUF_ERROR || (code == Z_OK && left_.empty() && written == 0))
      return damaged(name, "the gzip file is cut short");
    if (code != Z_OK)
      return damaged(name, "the gzip file is damaged (" +
                               std::string(stream_.msg != nullptr ? stream_.msg : "zlib error") +
                               ")");
    return written;
  }

  Result<std::size_t> end_of_member(std::size_t written, std::string_view name) {
    // Zeros behind it are padding (as for gzip).
    if (left_.find_first_not_of('\0') == std::string_view::npos) left_ = {};
    finished_ = left_.empty();
    if (!finished_ && (!is_gzip(left_) || inflateReset(&stream_) != Z_OK))
      return damaged(name, std::to_string(left_.size()) + " bytes follow the end of the gzip data");
    return written;
  }

  std::string_view left_;
  z_stream stream_{};
  bool ok_;
  bool finished_ = false;
};

}  // namespace

bool is_gzip(std::string_view content) { return content.substr(0, 2) == "\x1f\x8b"; }

Result<std::string> gunzip_start(std::string_view content, std::string_view name,
                                 std::size_t bytes) {
  Inflater inflater(content);
  std::string out(bytes, '\0');
  LOCKSTEP_ASSIGN(const std::size_t n, inflater.read(out.data(), out.size(), name));
  out.resize(n);
  return out;
}

Result<std::string> gunzip(std::string_view content, std::string_view name, std::uint64_t limit) {
  // One byte more than the limit, so that "exactly the limit" and "more" can be told apart.
  const std::uint64_t most = std::min(limit, content.size() * kMaxInflation) + 1;
  Inflater inflater(content);
  std::string out(most, '\0');
  LOCKSTEP_ASSIGN(const std::size_t n, inflater.read(out.data(), out.size(), name));
  if (n > limit)
    return damaged(name, "unpacks to more than the " + std::to_string(limit) + " bytes expected");
  if (!inflater.finished()) {
    // The output ended on the limit; what is left must be the checksum alone.
    char extra = 0;
    LOCKSTEP_ASSIGN(const std::size_t more, inflater.read(&extra, 1, name));
    if (more != 0 || !inflater.finished()) return damaged(name, "the gzip file is cut short");
  }
  out.resize(n);
  return out;
}

}  // namespace lockstep::data
