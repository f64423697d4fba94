#include "links/tcp/hello.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/rand.h>

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/wire.h"

namespace lockstep::links {
namespace {

void fields(auto& io, auto& party) {
  io(party.attempt);
  io(party.stay.host);
  io(party.stay.count);
  io(party.incarnation);
}

std::string of(const coord::Stay& stay) {
  return "node " + std::to_string(stay.host) + " (stay " + std::to_string(stay.count) + ")";
}

std::string text_of(const Party& party) {
  return of(party.stay) + " of attempt " + std::to_string(party.attempt) + ", incarnation " +
         std::to_string(party.incarnation);
}

void draw(void* to, std::size_t bytes) {
  while (RAND_bytes(static_cast<unsigned char*>(to), static_cast<int>(bytes)) != 1) {
  }
}

}  // namespace

Nonce draw_nonce() {
  Nonce nonce;
  draw(nonce.data(), nonce.size());
  return nonce;
}

std::string_view load() {
  static const std::string bytes = [] {
    std::string drawn(kLoadBytes, '\0');
    draw(drawn.data(), drawn.size());
    return drawn;
  }();
  return bytes;
}

std::string encode(const Hello& hello) {
  WireWriter io;
  fields(io, hello.from);
  fields(io, hello.to);
  std::string bytes = std::string(kHelloMagic) + io.take();
  bytes.append(reinterpret_cast<const char*>(hello.nonce.data()), hello.nonce.size());
  assert(bytes.size() == kHelloBytes);
  return bytes;
}

bool may_be_hello(std::string_view bytes) {
  const std::size_t count = std::min(bytes.size(), kHelloMagic.size());
  return bytes.substr(0, count) == kHelloMagic.substr(0, count);
}

std::optional<Hello> decode_hello(std::string_view bytes) {
  if (bytes.size() != kHelloBytes || !bytes.starts_with(kHelloMagic)) return {};
  Hello hello;
  WireReader io(bytes.substr(kHelloMagic.size()));
  fields(io, hello.from);
  fields(io, hello.to);
  const std::string_view nonce = bytes.substr(kHelloBytes - sizeof(Nonce));
  std::memcpy(hello.nonce.data(), nonce.data(), nonce.size());
  return hello;
}

std::string why_not(const Hello& hello, const Party& self, const Other& other) {
  if (hello.from != other.party)
    return "it is " + text_of(hello.from) + ", expected was " + text_of(other.party);
  if (hello.to != self)
    return "it looks for " + text_of(hello.to) + ", and this is " + text_of(self);
  return "";
}

std::string proof_of(const Cookie& cookie, End end, std::string_view dialled,
                     std::string_view answered) {
  const std::string said =
      std::string(1, static_cast<char>(end)) + std::string(dialled) + std::string(answered);
  std::array<unsigned char, kProofBytes> proof{};
  unsigned size = proof.size();
  HMAC(EVP_sha256(), cookie.data(), static_cast<int>(cookie.size()),
       reinterpret_cast<const unsigned char*>(said.data()), said.size(), proof.data(), &size);
  assert(size == kProofBytes);
  return {reinterpret_cast<const char*>(proof.data()), proof.size()};
}

bool is_same(std::string_view proof, std::string_view wanted) {
  return proof.size() == wanted.size() &&
         CRYPTO_memcmp(proof.data(), wanted.data(), wanted.size()) == 0;
}

}  // namespace lockstep::links
