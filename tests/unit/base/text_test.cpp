// Bytes from outside, as files, pages and lines have them.
#include "base/text.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "base/json.h"
#include "base/random_hex.h"

namespace lockstep {
namespace {

TEST(Printable, Utf8IsUnchanged) {
  for (const std::string text :
       {"", "plain", "caf\u00e9", "\u4e2d\u6587", "\U0001f600", "a\x1b[2J\n\x7f", "\\xe9",
        "\uffff\ue000\U0010ffff\u0080\u07ff\u0800"})
    EXPECT_EQ(printable(text), text);
  EXPECT_EQ(printable(std::string_view("\0", 1)), std::string(1, '\0'));
}

TEST(Printable, EachOtherByteIsShown) {
  EXPECT_EQ(printable("caf\xe9"), "caf\\xe9");
  EXPECT_EQ(printable("\xe9t\xe9"), "\\xe9t\\xe9");
  EXPECT_EQ(printable("\xc3"), "\\xc3");                             // cut short
  EXPECT_EQ(printable("\xe2\x82"), "\\xe2\\x82");                    // so
  EXPECT_EQ(printable("\xf0\x9f\x98!"), "\\xf0\\x9f\\x98!");         // and so
  EXPECT_EQ(printable("\xc0\xaf"), "\\xc0\\xaf");                    // overlong
  EXPECT_EQ(printable("\xe0\x80\xaf"), "\\xe0\\x80\\xaf");           // so
  EXPECT_EQ(printable("\xed\xa0\x80"), "\\xed\\xa0\\x80");           // a surrogate
  EXPECT_EQ(printable("\xf4\x90\x80\x80"), "\\xf4\\x90\\x80\\x80");  // above U+10FFFF
  EXPECT_EQ(printable("\x80\xbf\xfe\xff"), "\\x80\\xbf\\xfe\\xff");
  EXPECT_EQ(printable("\xe9\u00e9"), "\\xe9\u00e9");
}

TEST(Printable, GivesWhatJsonTakes) {
  std::mt19937 random(7);
  for (int i = 0; i < 2000; ++i) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n)
      text += static_cast<char>(random() % 3 == 0 ? "\xc3\xa9\xe2\x82\xac\xf0\x9f\xed"[random() % 8]
                                                  : static_cast<char>(random() % 256));
    const std::string shown = printable(text);
    EXPECT_NO_THROW((void)nlohmann::json(shown).dump()) << shown;
    EXPECT_EQ(printable(shown), shown);
    bool valid = true;
    try {
      (void)nlohmann::json(text).dump();
    } catch (const nlohmann::json::exception&) {
      valid = false;
    }
    EXPECT_EQ(shown == text, valid) << shown;
  }
}

TEST(ForTerminal, ControlCharactersAreShown) {
  EXPECT_EQ(for_terminal("a\x1b[2Jb\r\n\tc\x7f\u00e9"), "a\\x1b[2Jb\\x0d\n\tc\\x7f\u00e9");
  EXPECT_EQ(for_terminal("\u009b2J\xe9\u00a0"), "\\xc2\\x9b2J\\xe9\u00a0");
  EXPECT_EQ(for_terminal(std::string_view("\0", 1)), "\\x00");
}

TEST(Substitute, IsPythonsTemplate) {
  const auto value = [](std::string_view name) -> std::optional<std::string> {
    if (name == "rank") return "3";
    if (name == "role_name") return "$rank";  // is not looked at again
    return std::nullopt;
  };
  const auto of = [&](std::string_view pattern) { return substitute(pattern, value); };
  EXPECT_EQ(of("[$rank]"), "[3]");
  EXPECT_EQ(of("[${rank}]:"), "[3]:");
  EXPECT_EQ(of("$$rank ${rank}0 $role_name"), "$rank 30 $rank");
  EXPECT_EQ(of("$ranks $ $1 ${x} ${rank ${} $$$rank $"), "$ranks $ $1 ${x} ${rank ${} $3 $");
  EXPECT_EQ(of("none"), "none");
  EXPECT_EQ(of(""), "");
}

TEST(JsonText, TakesAnyBytesAnywhere) {
  const nlohmann::ordered_json json{{"b\xe9", {"x\xff", 1, nullptr, {{"k\xc3", true}}}},
                                    {"a", "\u00e9"}};
  EXPECT_EQ(json_text(json), R"({"b\\xe9":["x\\xff",1,null,{"k\\xc3":true}],"a":"é"})");
  EXPECT_EQ(json_text(nlohmann::json("caf\xe9")), R"("caf\\xe9")");
}

TEST(JsonText, ATerminalMayShowIt) {
  const std::string text = "\x1b[2J\x7f\u009b\u0080\u00a0";
  const std::string shown = json_text(nlohmann::json{{"name", text}}, 1);
  EXPECT_EQ(for_terminal(shown), shown);
  EXPECT_EQ(nlohmann::json::parse(shown)["name"], text);
}

TEST(RandomHex, HasSoManyDigitsAndOthersEachTime) {
  const std::string digits = random_hex(32);
  EXPECT_EQ(digits.size(), 32U);
  EXPECT_EQ(digits.find_first_not_of("0123456789abcdef"), std::string::npos) << digits;
  EXPECT_NE(digits, random_hex(32));
}

}  // namespace
}  // namespace lockstep
