#include "inspect/report/svg.h"

#include <gtest/gtest.h>

#include <cmath>

#include "inspect/html.h"
#include "unit/inspect/support.h"

namespace lockstep::inspect {
namespace {

using Numbers = std::vector<double>;

Texts labels(double low, double high, int count) { return tick_labels(ticks(low, high, count)); }

TEST(Svg, TicksAreRoundAndWithinTheRange) {
  EXPECT_EQ(labels(0, 10, 5), (Texts{"0", "2", "4", "6", "8", "10"}));
  EXPECT_EQ(labels(0.31, 0.52, 5), (Texts{"0.35", "0.40", "0.45", "0.50"}));
  EXPECT_EQ(labels(-1, 1, 4), (Texts{"-1.0", "-0.5", "0.0", "0.5", "1.0"}));
  EXPECT_EQ(labels(0, 0.3, 3), (Texts{"0.0", "0.1", "0.2", "0.3"}));  // 3 * 0.1 is above 0.3
  EXPECT_EQ(labels(1000, 9000, 4), (Texts{"2000", "4000", "6000", "8000"}));
  EXPECT_EQ(ticks(5, 5, 4), Numbers{5});
  EXPECT_EQ(labels(0, 0, 4), (Texts{"0"}));
  EXPECT_EQ(ticks(0.7, std::nextafter(0.7, 1), 5), Numbers{0.7}) << "no step is as small";
  EXPECT_EQ(ticks(9007199254740993.0, 9007199254740996.0, 5).size(), 1U);
}

TEST(Svg, ManyRangesHaveAFewTicks) {
  for (double range = 1e-6; range < 1e9; range *= 1.7) {
    const auto values = ticks(range / 3, range / 3 + range, 6);
    EXPECT_GE(values.size(), 3U) << range;
    EXPECT_LE(values.size(), 8U) << range;
    for (const double value : values) {
      EXPECT_GE(value, range / 3 * (1 - 1e-6));
      EXPECT_LE(value, range * 4 / 3 * (1 + 1e-6));
    }
  }
}

TEST(Svg, LinesRunFromTheLowestToTheHighest) {
  const std::vector<Series> series{{"a", 0, {{0, 1}, {10, 3}}}, {"empty", 1, {}}};
  const std::string chart = line_chart(series, "t", "minutes", "loss");
  // 4 % of room above and below.
  EXPECT_NE(chart.find("points=\"72.0,262.4 524.0,23.6\""), std::string::npos) << chart;
  EXPECT_EQ(chart.find("empty"), std::string::npos);
  EXPECT_EQ(legend(series).find("empty"), std::string::npos);
  EXPECT_EQ(line_chart(std::vector<Series>{{"a", 0, {}}}, "t", "x", "y"), "");
}

// 0.66 to 1.9 once had but 1.0 and 1.5.
TEST(Svg, AnAxisOfLossesHasThreeNumbersOrMore) {
  for (double high = 0.7; high < 8; high *= 1.01) {
    const std::string chart =
        line_chart(std::vector<Series>{{"a", 0, {{0, 0.66}, {1, high}}}}, "t", "x", "y");
    std::size_t lines = 0;
    for (std::size_t at = 0; (at = chart.find("class=\"grid\"", at)) != std::string::npos; ++at)
      ++lines;
    EXPECT_GE(lines, 3U) << high;
    EXPECT_LE(lines, 10U) << high;
  }
}

TEST(Svg, PointsSayTheirValuesWhenPointedAt) {
  const std::vector<Series> series{{"<a>", 0, {{0.5, 1.23456}, {10, 3}}}};
  const std::string chart = line_chart(series, "t", "minutes", "loss");
  EXPECT_NE(chart.find("<title>&lt;a&gt;: 1.2346 at 0.50 minutes</title></circle>"),
            std::string::npos)
      << chart;
}

TEST(Svg, OnePointAndEqualValuesHaveAPlace) {
  const std::vector<Series> series{{"a", 9, {{0, 2}}}};
  const std::string chart = line_chart(series, "t", "x", "y");
  EXPECT_NE(chart.find("series s1 dash"), std::string::npos);
  EXPECT_EQ(chart.find("nan"), std::string::npos);
}

TEST(Html, TextCannotBecomeMarkup) {
  EXPECT_EQ(escaped("<a href=\"x\">'&'</a>"),
            "&lt;a href=&quot;x&quot;&gt;&#39;&amp;&#39;&lt;/a&gt;");
  EXPECT_EQ(escaped(std::string("a\0b\x1f", 4)),
            "a\xEF\xBF\xBD"
            "b\xEF\xBF\xBD");
  EXPECT_NE(html_page("<t>", "<p>body</p>").find("<title>&lt;t&gt;</title>"), std::string::npos);
}

TEST(Html, Base64) {  // RFC 4648, section 10
  const auto of = [](std::string_view text) {
    return base64({reinterpret_cast<const std::uint8_t*>(text.data()), text.size()});
  };
  EXPECT_EQ(of(""), "");
  EXPECT_EQ(of("f"), "Zg==");
  EXPECT_EQ(of("fo"), "Zm8=");
  EXPECT_EQ(of("foo"), "Zm9v");
  EXPECT_EQ(of("foobar"), "Zm9vYmFy");
}

}  // namespace
}  // namespace lockstep::inspect
