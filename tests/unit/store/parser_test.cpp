// The wire format in every chunking, and what no client sends.
#include <gtest/gtest.h>

#include <cstring>
#include <random>

#include "store/protocol.h"

namespace lockstep::store {
namespace {

std::string hello() { return encode({Query::kValidate, {}, {}, kMagic}); }

// One of each query, with empty and large fields, and bytes that are no text.
std::vector<Request> requests() {
  const std::string zeros(3, '\0'), large(70'000, '\xff');
  return {{Query::kSet, {"/a"}, {zeros}, 0},
          {Query::kSet, {""}, {""}, 0},
          {Query::kCompareSet, {"/a"}, {"old", ""}, 0},
          {Query::kGet, {"/a"}, {}, 0},
          {Query::kAdd, {"/n"}, {}, -7},
          {Query::kCheck, {"/a", "/b", ""}, {}, 0},
          {Query::kCheck, {}, {}, 0},
          {Query::kWait, {"/a"}, {}, 0},
          {Query::kCountKeys, {}, {}, 0},
          {Query::kDelete, {"/a"}, {}, 0},
          {Query::kAppend, {"/a"}, {large}, 0},
          {Query::kMultiGet, {"/a", "/b"}, {}, 0},
          {Query::kMultiSet, {"/a", "/b"}, {"1", zeros}, 0},
          {Query::kMultiSet, {}, {}, 0},
          {Query::kCancelWait, {}, {}, 0},
          {Query::kPing, {}, {}, 0x12345678},
          {Query::kQueuePush, {"/q"}, {"x"}, 0},
          {Query::kQueuePop, {"/q"}, {}, 0},
          {Query::kQueueLength, {"/q"}, {}, 0},
          {Query::kListKeys, {}, {}, 0},
          {Query::kBarrier, {"/b"}, {}, 3}};
}

bool same(const Request& a, const Request& b) {
  return a.query == b.query && a.keys == b.keys && a.values == b.values && a.number == b.number;
}

// All requests that come out of `bytes`, in pieces whose sizes `size` gives.
template <class Size>
std::vector<Request> parsed(std::string_view bytes, Size&& size) {
  Parser parser;
  std::vector<Request> out;
  while (!bytes.empty()) {
    std::string_view piece = bytes.substr(0, size());
    bytes.remove_prefix(piece.size());
    for (;;) {
      auto request = parser.next(piece);
      EXPECT_TRUE(request.ok());
      if (!request.ok()) return out;
      if (!*request) break;
      out.push_back(**std::move(request));
    }
    EXPECT_TRUE(piece.empty());
  }
  EXPECT_TRUE(parser.validated());
  EXPECT_EQ(parser.held(), 0u);
  return out;
}

void expect_all(const std::vector<Request>& out) {
  const std::vector<Request> in = requests();
  ASSERT_EQ(out.size(), in.size());
  for (std::size_t i = 0; i < in.size(); ++i) EXPECT_TRUE(same(in[i], out[i])) << i;
}

Error refusal(const std::string& bytes) {
  Parser parser;
  std::string_view rest = bytes;
  for (;;) {
    auto request = parser.next(rest);
    if (!request.ok()) return request.error();
    if (!*request) return {};
  }
}

void expect_refused(const std::string& bytes, const std::string& why) {
  const Error error = refusal(bytes);
  EXPECT_EQ(error.kind, ErrorKind::kBadData);
  EXPECT_NE(error.message.find(why), std::string::npos) << error.message;
}

std::string number(std::uint64_t value) {
  std::string bytes;
  put_64(bytes, value);
  return bytes;
}

TEST(StoreParser, IsTheSameInEveryChunking) {
  std::string bytes = hello();
  for (const Request& request : requests()) bytes += encode(request);
  for (const std::size_t size : {std::size_t{1}, std::size_t{2}, std::size_t{3}, std::size_t{7},
                                 std::size_t{4096}, bytes.size()})
    expect_all(parsed(bytes, [&] { return size; }));
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round)
    expect_all(parsed(bytes, [&] { return 1 + random() % (round < 100 ? 9 : 40'000); }));
}

// At each byte of each request.
TEST(StoreParser, MayBeCutAnywhere) {
  for (const Request& request : requests()) {
    if (request.query == Query::kAppend) continue;  // the large one
    const std::string bytes = hello() + encode(request);
    for (std::size_t cut = 0; cut <= bytes.size(); ++cut) {
      std::size_t sizes[] = {cut, bytes.size()};
      std::size_t at = cut == 0 ? 1 : 0;
      const auto out = parsed(bytes, [&] { return sizes[at++]; });
      ASSERT_EQ(out.size(), 1u) << name_of(request.query) << cut;
      EXPECT_TRUE(same(out[0], request)) << name_of(request.query) << cut;
    }
  }
}

// As torch 2.11's client writes it: the layout, not only that it comes back.
TEST(StoreParser, KnowsTheWire) {
  EXPECT_EQ(hello(), std::string("\0\xCE\xF7\x85\x3C", 5));
  EXPECT_EQ(encode({Query::kAdd, {"/k"}, {}, 1}),
            std::string("\x04\x02\0\0\0\0\0\0\0/k\x01\0\0\0\0\0\0\0", 19));
  EXPECT_EQ(encode({Query::kMultiSet, {"a", "b"}, {"1", ""}, 0}),
            "\x0B" + number(2) + number(1) + "a" + number(1) + "1" + number(1) + "b" + number(0));
  EXPECT_EQ(encode({Query::kPing, {}, {}, 258}), std::string("\x0D\x02\x01\0\0", 5));
  EXPECT_EQ(static_cast<int>(Query::kListKeys), 17);
}

TEST(StoreParser, RefusesWhatNoClientSends) {
  expect_refused("GET / HTTP/1.1\r\n", "no query has number 71");
  expect_refused("\x16\x03\x01", "no query has number 22");
  expect_refused(encode({Query::kSet, {"a"}, {"b"}, 0}), "SET without VALIDATE before it");
  expect_refused(encode({Query::kValidate, {}, {}, 1}), "VALIDATE of another kind");
  expect_refused(hello() + hello(), "VALIDATE in the middle");
  expect_refused(hello() + "\x13", "no query has number 19");
  expect_refused(hello() + "\xff", "no query has number 255");
}

TEST(StoreParser, RefusesLengthsBeforeTheBytesCome) {
  const std::string set("\x01"), wait("\x06"), multi_set("\x0B");
  expect_refused(hello() + set + number(kMaxKey + 1), "a key of 8193, above 8192");
  expect_refused(hello() + set + number(~std::uint64_t{0}), "a key of 18446744073709551615");
  expect_refused(hello() + set + number(1) + "k" + number(kMaxValue + 1), "a value of 8388609");
  expect_refused(hello() + wait + number(kMaxKeys + 1), "a count of 131073, above 131072");
  expect_refused(hello() + multi_set + number(std::uint64_t{1} << 63), "a count of");
  EXPECT_TRUE(refusal(hello() + set + number(kMaxKey)).message.empty());
  // A request as a whole.
  std::string many = hello() + multi_set + number(9);
  const std::string value(kMaxValue, 'v');
  for (int i = 0; i < 7; ++i) many += number(1) + "k" + number(value.size()) + value;
  EXPECT_TRUE(refusal(many).message.empty());
  expect_refused(many + number(1) + "k" + number(value.size()), "a request of");
}

TEST(StoreParser, HoldsOnlyWhatHasCome) {
  Parser parser;
  const std::string bytes = hello() + "\x01" + number(2) + "/k" + number(kMaxValue) + "some";
  std::string_view rest = bytes;
  ASSERT_TRUE(parser.next(rest).ok());
  EXPECT_EQ(parser.held(), 2 * kFieldCost + 6);
}

}  // namespace
}  // namespace lockstep::store
