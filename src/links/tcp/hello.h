// What both ends of a connection say first: who they are, whom they take the other for, and a
// number drawn for this connection alone. Then each proves that it has the pair's cookie, which
// itself crosses no network: whoever has recorded what was said can use it for nothing.
//
//   who dials    hello
//   who listens  hello | proof
//   who dials    proof | load       of both hellos, each end another one
//   who listens  load
//   who dials    one byte
//
// A load is longer than any packet of an Ethernet: on a network that loses large ones it does not
// come, and neither end takes the connection for one that works.
//
// Threads: values. Errors: none.
#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "links/links.h"

namespace lockstep::links {

inline constexpr std::string_view kHelloMagic = "LSLINK\x03\n";  // with the protocol's number

using Nonce = std::array<std::byte, 32>;
Nonce draw_nonce();

struct Hello {
  Party from, to;
  Nonce nonce = {};
};

inline constexpr std::size_t kHelloBytes = 8 + 2 * (8 + 2 + 2 + 8) + sizeof(Nonce);
inline constexpr std::size_t kProofBytes = 32;

inline constexpr std::size_t kLoadBytes = 10 * 1024;
std::string_view load();  // which means nothing, and which no tunnel makes shorter

std::string encode(const Hello& hello);  // kHelloBytes
// Precondition: kHelloBytes of them. None: it is no hello of this protocol.
std::optional<Hello> decode_hello(std::string_view bytes);
// So far it may become one.
bool may_be_hello(std::string_view bytes);

// Whether a hello that came to `self` says that it is of `other`. "": it does; else why not.
std::string why_not(const Hello& hello, const Party& self, const Other& other);

enum class End : char { kDials = 'd', kListens = 'l' };
// kProofBytes: HMAC-SHA-256 of which end proves it and of both hellos as they were said.
std::string proof_of(const Cookie& cookie, End end, std::string_view dialled,
                     std::string_view answered);
// In constant time.
bool is_same(std::string_view proof, std::string_view wanted);
inline constexpr const char* kOtherCookie =
    "it has another cookie than this pair's: it is of another run, or a stranger";

}  // namespace lockstep::links
