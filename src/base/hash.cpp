#include "base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <cinttypes>
#include <cstdio>

namespace lockstep {

struct Digest::State {
  std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> context{EVP_MD_CTX_new(), EVP_MD_CTX_free};
  bool ready = false;
};

Digest::Digest(Kind kind) : state_(std::make_unique<State>()) {
  const EVP_MD* const type = kind == Kind::kMd5 ? EVP_md5() : EVP_sha256();
  state_->ready = EVP_DigestInit_ex(state_->context.get(), type, nullptr) == 1;
}
Digest::~Digest() = default;

void Digest::update(std::span<const std::byte> data) {
  if (state_->ready) EVP_DigestUpdate(state_->context.get(), data.data(), data.size());
}

std::string Digest::hex() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned bytes = 0;
  if (state_->ready) EVP_DigestFinal_ex(state_->context.get(), digest.data(), &bytes);
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : std::span(digest).first(bytes)) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text);
  return hash.hex();
}

struct Xxh3::State {
  std::unique_ptr<XXH3_state_t, XXH_errorcode (*)(XXH3_state_t*)> context{XXH3_createState(),
                                                                          XXH3_freeState};
};

Xxh3::Xxh3() : state_(std::make_unique<State>()) { XXH3_64bits_reset(state_->context.get()); }
Xxh3::~Xxh3() = default;

void Xxh3::update(std::span<const std::byte> data) {
  XXH3_64bits_update(state_->context.get(), data.data(), data.size());
}

std::uint64_t Xxh3::value() const { return XXH3_64bits_digest(state_->context.get()); }

std::string Xxh3::hex() const {
  char text[17];
  std::snprintf(text, sizeof text, "%016" PRIx64, value());
  return text;
}

std::uint64_t xxh3(std::span<const std::byte> data) {
  return XXH3_64bits(data.data(), data.size());
}

}  // namespace lockstep
