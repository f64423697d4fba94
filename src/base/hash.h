// SHA-256 (FIPS 180-4, OpenSSL's) for what people compare, XXH3-64 (xxhash) for what only we check.
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

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;
  void update(std::span<const std::byte> data);
  void update(std::string_view text) { update(std::as_bytes(std::span(text))); }
  std::string hex();  // 64 lower-case hex digits; once, at the end

 private:
  struct State;
  std::unique_ptr<State> state_;
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
