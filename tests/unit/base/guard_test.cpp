#include "base/guard.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace lockstep {
namespace {

template <class F>
Error error_of(F&& f) {
  const Status status = guarded("the loss", ErrorKind::kInternal, [&]() -> Status {
    f();
    return {};
  });
  EXPECT_FALSE(status.ok());
  return status.ok() ? Error{} : status.error();
}

// Programs throw what they like: texts and numbers, too.
TEST(Guarded, WhateverIsThrownBecomesAnError) {
  EXPECT_EQ(error_of([] { throw std::runtime_error("no such row"); }).message,
            "the loss: no such row");
  EXPECT_EQ(error_of([] { throw "no such row"; }).message, "the loss: no such row");
  EXPECT_EQ(error_of([] { throw std::string("no such row"); }).message, "the loss: no such row");
  const Error number = error_of([] { throw 42; });
  EXPECT_EQ(number.kind, ErrorKind::kInternal);
  EXPECT_EQ(number.message, "the loss: something was thrown that is no std::exception");
  EXPECT_EQ(error_of([] { throw Thrown({ErrorKind::kUsage, "why"}); }).kind, ErrorKind::kUsage);
}

}  // namespace
}  // namespace lockstep
