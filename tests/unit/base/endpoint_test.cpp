#include "base/endpoint.h"

#include <gtest/gtest.h>

namespace lockstep {
namespace {

std::string parsed(std::string_view text) {
  const auto endpoint = parse_endpoint(text);
  if (!endpoint.ok()) return "error";
  return endpoint->host + "|" + (endpoint->port ? std::to_string(*endpoint->port) : "");
}

TEST(Endpoint, HostAndPort) {
  EXPECT_EQ(parsed("host"), "host|");
  EXPECT_EQ(parsed("host:29500"), "host|29500");
  EXPECT_EQ(parsed("node-1.cluster_a:0"), "node-1.cluster_a|0");
  EXPECT_EQ(parsed("10.0.0.7:65535"), "10.0.0.7|65535");
  EXPECT_EQ(parsed("[::1]:29517"), "::1|29517");
  EXPECT_EQ(parsed("[::1]"), "::1|");
  EXPECT_EQ(parsed("::1"), "::1|");
  EXPECT_EQ(parsed("fe80::1%eth0"), "fe80::1%eth0|");
  EXPECT_EQ(parsed("[fe80::1%eth0]:1"), "fe80::1%eth0|1");
  EXPECT_EQ(parsed("::ffff:10.0.0.7"), "::ffff:10.0.0.7|");
}

TEST(Endpoint, WhatIsNone) {
  for (const char* text :
       {"",         ":",           ":29517",    "host:", "host:x",       "host:-1", "host:65536",
        "host:1e3", "host:29500 ", "host :1",   "[::1",  "[::1]x",       "[::1]:",  "[::1]:99999",
        "[]:1",     "[host]:1",    "1:2:3",     "::1%",  "tcp://host:1", "host/x",  "a,b:1",
        "]:1",      "host:+1",     "host:0x10", "*",     "*:29500",      "$HOST",   "a b",
        "'host'",   "user@host"})
    EXPECT_EQ(parsed(text), "error") << text;
}

TEST(Endpoint, TheErrorShowsTextAndForm) {
  const auto endpoint = parse_endpoint("1:2:3");
  ASSERT_FALSE(endpoint.ok());
  EXPECT_EQ(endpoint.error().kind, ErrorKind::kUsage);
  EXPECT_NE(endpoint.error().message.find("'1:2:3'"), std::string::npos);
  EXPECT_NE(endpoint.error().message.find("[IPV6]:PORT"), std::string::npos);
}

}  // namespace
}  // namespace lockstep
