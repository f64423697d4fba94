// SHA-256 (FIPS 180-4, OpenSSL's) for what people compare, XXH3-64 (xxhash) for what only we check,
// MD5 where others publish nothing better: it shows damage and proves nothing.
// Threads: an object from one thread at a time; the functions from any.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace lockstep {

class Digest {
 public:
  enum class Kind { kSha256, kMd5 };
  explicit Digest(Kind kind);
  ~Digest();
  Digest(const Digest&) = delete;
  Digest& operator=(const Digest&) = delete;
  void update(std::span<const std::byte> data);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  // 64 or 32 lower-case hex digits; once, at the end. Empty where this machine's OpenSSL has the
  // kind switched off, as its FIPS mode has MD5.
  std::string hex();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

class Sha256 : public Digest {
 public:
  Sha256() : Digest(Kind::kSha256) {}
};

std::string sha256_hex(std::string_view text);
std::uint64_t xxh3(std::span<const std::byte> data);

// xxh3 of data that comes in pieces.
class Xxh3 {
 public:
  Xxh3();
  ~Xxh3();
  Xxh3(const Xxh3&) = delete;
  Xxh3& operator=(const Xxh3&) = delete;
  void update(std::span<const std::byte> data);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  std::uint64_t value() const;  // of all that was given so far
  std::string hex() const;      // the same, 16 lower-case hex digits

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep
