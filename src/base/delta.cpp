#include "base/delta.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "base/errors.h"

namespace lockstep {
namespace {

constexpr std::size_t kBlock = 16;  // what is moved is found by blocks of `from`
constexpr std::size_t kLeast = 6;   // a shorter copy costs more than its bytes
constexpr std::size_t kSure = 256;  // one that is so long is the right one

void put(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

std::uint64_t zigzag(std::int64_t value) {
  return static_cast<std::uint64_t>(value) << 1 ^ static_cast<std::uint64_t>(value >> 63);
}
std::int64_t unzigzag(std::uint64_t value) {
  return static_cast<std::int64_t>(value >> 1) ^ -static_cast<std::int64_t>(value & 1);
}

// Where `from` has which block; of equal ones the first.
class Blocks {
 public:
  explicit Blocks(std::string_view from)
      : from_(from),
        shift_(64 - static_cast<int>(std::bit_width(2 * (from.size() / kBlock) + 1))),
        at_(std::size_t{1} << (64 - shift_)) {
    for (std::size_t at = 0; at + kBlock <= from.size(); at += kBlock) {
      std::uint32_t& place = at_[hash(from.data() + at)];
      if (place == 0) place = static_cast<std::uint32_t>(at + 1);
    }
  }
  std::optional<std::size_t> find(std::string_view text) const {
    if (text.size() < kBlock) return {};
    const std::uint32_t at = at_[hash(text.data())];
    if (at == 0 || from_.substr(at - 1, kBlock) != text.substr(0, kBlock)) return {};
    return at - 1;
  }

 private:
  std::size_t hash(const char* block) const {
    std::uint64_t low = 0, high = 0;
    std::memcpy(&low, block, 8), std::memcpy(&high, block + 8, 8);
    return ((low ^ std::rotl(high, 29) * 0xbf58476d1ce4e5b9) * 0x9e3779b97f4a7c15) >> shift_;
  }

  std::string_view from_;
  int shift_;
  std::vector<std::uint32_t> at_;  // + 1; 0: none
};

std::size_t in_common(std::string_view a, std::string_view b) {
  return static_cast<std::size_t>(
      std::mismatch(a.begin(),
                    a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())),
                    b.begin())
          .first -
      a.begin());
}

class Reader {
 public:
  explicit Reader(std::string_view in) : in_(in) {}
  std::uint64_t number() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 63; shift += 7) {
      const auto byte = static_cast<unsigned char>(text(1).empty() ? 0 : read_[0]);
      value |= std::uint64_t{byte & 0x7fU} << shift;
      if (byte < 0x80) return value;
    }
    failed_ = true;
    return 0;
  }
  std::string_view text(std::uint64_t size) {
    failed_ = failed_ || size > in_.size();
    read_ = failed_ ? "" : in_.substr(0, size);
    in_.remove_prefix(read_.size());
    return read_;
  }
  bool failed() const { return failed_; }
  bool at_end() const { return in_.empty(); }

 private:
  std::string_view in_, read_;
  bool failed_ = false;
};

struct Copy {
  std::size_t at = 0, source = 0, size = 0;  // to where, from where
  std::size_t end() const { return at + size; }
};

// The copy that goes on furthest: as it was in place, or of a block that begins at `at` or soon
// behind it. A short one in place may be of another row of the same table: so the right row is
// looked for. Nothing before `done` is copied.
Copy furthest(std::string_view from, std::string_view to, const Blocks& blocks,
              const Copy& in_place, std::size_t done) {
  Copy best = in_place;
  if (best.source < from.size())
    best.size = in_common(from.substr(best.source), to.substr(best.at));
  if (best.size >= kSure) return best;
  if (best.size < kLeast) best.size = 0;
  const std::size_t until = std::min(to.size(), in_place.at + (best.size == 0 ? 1 : kBlock));
  for (std::size_t at = in_place.at; at < until; ++at) {
    const auto found = blocks.find(to.substr(at));
    if (!found) continue;
    Copy other{at, *found, in_common(from.substr(*found), to.substr(at))};
    if (other.end() < best.end() + (best.size == 0 ? 0 : kBlock)) continue;
    while (other.at > done && other.source > 0 && from[other.source - 1] == to[other.at - 1])
      --other.at, --other.source, ++other.size;
    best = other;
  }
  return best;
}

}  // namespace

std::string delta_of(std::string_view from, std::string_view to) {
  std::string out;
  put(out, to.size());
  const Blocks blocks(from);
  std::size_t done = 0, next = 0;  // of `to`; in `from`, behind the last copy
  const auto add = [&](const Copy& copy) {
    put(out, copy.at - done);
    out += to.substr(done, copy.at - done);
    put(out, copy.size);
    if (copy.size > 0)
      put(out, zigzag(static_cast<std::int64_t>(copy.source) -
                      static_cast<std::int64_t>(next + (copy.at - done))));
    done = copy.end();
    next = copy.source + copy.size;
  };
  for (std::size_t at = 0; at < to.size();) {
    const Copy copy = furthest(from, to, blocks, {at, next + (at - done)}, done);
    if (copy.size > 0) add(copy);
    at = copy.size > 0 ? done : at + 1;
  }
  if (done < to.size()) add({to.size()});
  return out;
}

Result<std::string> apply_delta(std::string_view from, std::string_view delta, std::size_t most) {
  Reader in(delta);
  const std::uint64_t size = in.number();
  if (in.failed() || size > most)
    return bad_data("a difference: its result has " + std::to_string(size) +
                    " bytes, the most are " + std::to_string(most));
  std::string out;
  std::int64_t next = 0;
  while (out.size() < size) {
    const std::string_view here = in.text(in.number());
    const std::uint64_t copied = in.number();
    if (in.failed() || here.size() > size - out.size() ||
        copied > size - out.size() - here.size() || here.size() + copied == 0)
      return bad_data("a difference: byte " + std::to_string(out.size()) +
                      " of its result cannot be read");
    out += here;
    if (copied == 0) continue;
    const std::int64_t moved = unzigzag(in.number());
    const auto limit = static_cast<std::int64_t>(from.size());
    if (in.failed() || moved > limit || moved < -2 * limit - static_cast<std::int64_t>(size))
      return bad_data("a difference: a copy is from nowhere");
    next += static_cast<std::int64_t>(here.size()) + moved;
    if (next < 0 || next > limit || copied > static_cast<std::uint64_t>(limit - next))
      return bad_data("a difference: it copies " + std::to_string(copied) + " bytes from byte " +
                      std::to_string(next) + " of " + std::to_string(from.size()));
    out += from.substr(static_cast<std::size_t>(next), copied);
    next += static_cast<std::int64_t>(copied);
  }
  if (!in.at_end()) return bad_data("a difference: bytes follow its end");
  return out;
}

}  // namespace lockstep
