#include "pickle/writer.h"

#include <gtest/gtest.h>

#include "unit/pickle/build.h"

namespace lockstep::pickle::test {
namespace {

Value everything() {
  Value metadata = Value::dict({{"", Value::dict({{"version", 1}})}});
  Value model = Value::ordered_dict({{"w", 1}});
  model.dict_value()->attributes = Value::dict({{"_metadata", metadata}});
  Value history = Value::list({1.5, -0.0, 1e300});
  return Value::dict({{"model", model},
                      {"history", history},
                      {"empty", Value::tuple({Value::list(), Value::tuple(), Value::dict(),
                                              Value::ordered_dict(), ""})},
                      {"ints", Value::tuple({0, 255, 256, 65535, 65536, -1, -2147483648LL,
                                             2147483648LL, std::numeric_limits<std::int64_t>::min(),
                                             std::numeric_limits<std::int64_t>::max()})},
                      {7, Value::bytes(std::string("\0\x7f\x80\xff", 4))},
                      {"text", "a\u00e9\n"},
                      {"flags", Value::tuple({true, false, Value()})}});
}

TEST(PickleWriter, ComesBackEqual) {
  const Value value = everything();
  const auto pickle = write(value);
  ASSERT_TRUE(pickle.ok()) << pickle.error().message;
  EXPECT_EQ(shown(*pickle), show(value));
}

TEST(PickleWriter, WhatCannotBeWrittenIsSaid) {
  const auto refused = [](const Value& value) {
    const auto pickle = write(value);
    return pickle.ok() || pickle.error().kind != ErrorKind::kUsage ? "" : pickle.error().message;
  };
  EXPECT_NE(refused("\xff").find("use bytes"), std::string::npos);
  EXPECT_NE(refused(std::make_shared<Array>()).find("a numpy array"), std::string::npos);
  Value loop = Value::list();
  loop.append(loop);
  EXPECT_NE(refused(loop).find("contains itself"), std::string::npos);
  loop.sequence()->items.clear();
  Value plain = Value::dict();
  plain.dict_value()->attributes = Value::dict();
  EXPECT_NE(refused(plain).find("OrderedDict"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::pickle::test
