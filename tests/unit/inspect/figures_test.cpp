// What follows from a report's runs, and the text of its formats.
#include "inspect/report/figures.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "inspect/report/formats.h"
#include "unit/inspect/support.h"

namespace lockstep::inspect {
namespace {

using OneRun = Run;  // Test has a member of the same name

OneRun timed_run(const std::string& name, double workers, double epoch_time_s) {
  OneRun run;
  run.name = name;
  run.workers = workers;
  run.epoch_time_s = epoch_time_s;
  return run;
}

std::string row_of(std::span<const Run> runs, const std::string& label) {
  std::string text;
  for (const Row& row : rows_of(runs))
    if (row.label == label)
      for (const auto& cell : row.cells)
        text += (text.empty() ? "" : " | ") + cell.value_or(std::string(kMissing));
  return text;
}

TEST(Figures, Durations) {
  EXPECT_EQ(*parse_duration("2h"), 7200);
  EXPECT_EQ(*parse_duration("1h30min"), 5400);
  EXPECT_EQ(*parse_duration("1.5m"), 90);
  EXPECT_EQ(*parse_duration("45s"), 45);
  for (const char* wrong : {"", "0s", "2", "h", "2d", "-1h", "1h-1s", "nan", "infs"})
    EXPECT_FALSE(parse_duration(wrong).ok()) << wrong;
}

TEST(Figures, EfficiencyNeedsARunOfOneWorker) {
  OneRun two = timed_run("two", 2, 40);
  EXPECT_EQ(row_of(std::vector{two}, "Scaling efficiency"), "–");
  const OneRun one = timed_run("one", 1, 60);
  EXPECT_EQ(row_of(std::vector{two, one}, "Scaling efficiency"), "0.75 | 1.00");
  two.workers.reset();
  EXPECT_EQ(row_of(std::vector{two, one}, "Scaling efficiency"), "– | 1.00");
}

TEST(Formats, CsvIsQuotedWhereItMustBe) {
  EXPECT_EQ(csv_cell("plain"), "plain");
  EXPECT_EQ(csv_cell("a,b"), "\"a,b\"");
  EXPECT_EQ(csv_cell("say \"x\"\n"), "\"say \"\"x\"\"\n\"");
  const std::string csv = report_csv(std::vector{timed_run("a,b", 2, 0.5)});
  EXPECT_TRUE(has(csv, "\n\"a,b\",2,,,,,0.5,,,,,,,,\n")) << csv;
  EXPECT_EQ(std::ranges::count(csv.substr(0, csv.find('\n')), ','), 14);
}

TEST(Formats, MarkdownsMarksAreText) {
  EXPECT_EQ(markdown_cell("a|b_c\n<d>"), "a\\|b\\_c \\<d\\>");
}

}  // namespace
}  // namespace lockstep::inspect
