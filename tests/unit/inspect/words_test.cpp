// Arguments, numbers and tables.
#include <gtest/gtest.h>

#include <array>
#include <cmath>

#include "base/text.h"
#include "inspect/arguments.h"
#include "inspect/text.h"
#include "unit/inspect/support.h"

namespace lockstep::inspect {
namespace {

const Syntax kSyntax{"lockstep x A [B] [--json] [--out FILE]", {"--json"}, {"--out"}, 1, 2};

std::string syntax_error(const Texts& words) {
  const auto parsed = parse(words, kSyntax);
  if (parsed.ok()) return "";
  EXPECT_EQ(parsed.error().kind, ErrorKind::kUsage);
  EXPECT_NE(parsed.error().message.find(kSyntax.usage), std::string::npos);
  return parsed.error().message.substr(0, parsed.error().message.find("; usage"));
}

TEST(Text, ATerminalGetsNoControlCharacters) {
  EXPECT_EQ(for_terminal("a\x1b[2Jb\r\n\tc\x7f\u00e9"), "a\\x1b[2Jb\\x0d\n\tc\\x7f\u00e9");
  EXPECT_EQ(for_terminal(std::string_view("\0", 1)), "\\x00");
}

TEST(Text, ATableHasALineForEachRow) {
  const std::vector<std::vector<std::string>> rows{{"a\nb\t\x1b[2J", "1"}, {"\xff\u00e9", "22"}};
  EXPECT_EQ(text_table(rows, std::vector<std::size_t>{1}),
            "a\\nb\\t\\x1b[2J   1\n\\xff\u00e9          22\n");
}

TEST(Arguments, PathsFlagsAndValuesInAnyOrder) {
  const auto parsed = parse(Texts{"a", "--out", "x.html", "--json", "b"}, kSyntax);
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->paths, (Texts{"a", "b"}));
  EXPECT_TRUE(parsed->has("--json"));
  EXPECT_EQ(parsed->value("--out"), "x.html");
  EXPECT_EQ(parse(Texts{"a", "--out=-"}, kSyntax)->value("--out"), "-");
  EXPECT_EQ(parse(Texts{"a"}, kSyntax)->value("--out"), std::nullopt);
  EXPECT_EQ(parse(Texts{"--", "--json"}, kSyntax)->paths, (Texts{"--json"}));
}

TEST(Arguments, WhatIsWrongIsNamed) {
  EXPECT_EQ(syntax_error({"a", "--jsn"}), "unknown option '--jsn'; did you mean '--json'?");
  EXPECT_EQ(syntax_error({}), "too few paths");
  EXPECT_EQ(syntax_error({"a", "b", "c"}), "unexpected 'c'");
  EXPECT_EQ(syntax_error({"a", "--json=1"}), "'--json' takes no value");
  EXPECT_EQ(syntax_error({"a", "--out"}), "'--out' needs a value");
  EXPECT_EQ(syntax_error({"a", "--out="}), "'--out' needs a value");
  EXPECT_EQ(syntax_error({""}), "an empty path");
}

// As wherever else a path is given: 's3://bucket' is no folder here.
TEST(Arguments, AddressesAreNoPaths) {
  for (const std::string address : {"s3://bucket/run", "obs://bucket"}) {
    const auto parsed = parse(Texts{address}, kSyntax);
    ASSERT_FALSE(parsed.ok());
    EXPECT_EQ(parsed.error().kind, ErrorKind::kUsage);
    EXPECT_NE(parsed.error().message.find(address), std::string::npos) << parsed.error().message;
  }
}

TEST(Text, Numbers) {
  EXPECT_EQ(grouped(0), "0");
  EXPECT_EQ(grouped(999), "999");
  EXPECT_EQ(grouped(1234567), "1,234,567");
  EXPECT_EQ(bytes_text(999), "999 B");
  EXPECT_EQ(bytes_text(1000), "1.0 kB");
  EXPECT_EQ(bytes_text(999'949), "999.9 kB");
  EXPECT_EQ(bytes_text(999'950), "1.0 MB");
  EXPECT_EQ(age_text(-1), "0 s");
  EXPECT_EQ(age_text(59.9), "59 s");
  EXPECT_EQ(age_text(60), "1 min");
  EXPECT_EQ(age_text(2 * 86400), "2 d");
  EXPECT_EQ(number_text(0.1), "0.1");
  EXPECT_EQ(number_text(1234567), "1.23457e+06");
  EXPECT_EQ(number_text(-HUGE_VAL), "-inf");
  EXPECT_EQ(number_text(std::nan("")), "nan");
  EXPECT_EQ(counted(1, "file"), "1 file");
  EXPECT_EQ(counted(1000, "file"), "1,000 files");
}

TEST(Text, ATableIsAsWideAsItsCells) {
  const std::vector<Texts> rows{{"name", "size"}, {"größer", "5"}, {"x"}};
  EXPECT_EQ(text_table(rows, std::array<std::size_t, 1>{1}), "name    size\ngrößer     5\nx\n");
}

}  // namespace
}  // namespace lockstep::inspect
