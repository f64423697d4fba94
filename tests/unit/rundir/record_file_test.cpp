// Where a transaction's line begins, in files of all sizes.
#include "rundir/record_file.h"

#include <gtest/gtest.h>

#include <random>

#include "support/temp_folder.h"

namespace lockstep::rundir {
namespace {

class RecordPlaces : public testing::Test {
 protected:
  std::string line(std::uint64_t txn, std::size_t bytes) const {
    return std::string(kRecordStart) + std::to_string(txn) + ",\"x\":\"" + std::string(bytes, 'x') +
           "\"}\n";
  }
  void write(const std::string& text) {
    auto file = posix_env().create(path_);
    ASSERT_TRUE(file.ok());
    ASSERT_TRUE((*file)->append(std::as_bytes(std::span(text))).ok());
  }
  std::uint64_t place(std::uint64_t txn) {
    const auto place = place_of_record(posix_env(), path_, Txn(txn));
    EXPECT_TRUE(place.ok()) << place.error().message;
    return place.ok() ? *place : ~std::uint64_t{0};
  }
  const test::TempFolder folder_;
  const std::string path_ = folder_.path() + "/ledger.jsonl";
};

TEST_F(RecordPlaces, WithoutAFileItIsItsBeginning) {
  EXPECT_EQ(place(0), 0U);
  EXPECT_EQ(place(7), 0U);
}

TEST_F(RecordPlaces, OfLinesOfAllLengths) {
  std::mt19937_64 random(5);
  std::string text;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> begins;  // transaction, byte
  for (std::uint64_t txn = 3; text.size() < 9'000'000; txn += 1 + random() % 3) {
    begins.emplace_back(txn, text.size());
    const bool is_long = random() % 300 == 0;
    text += line(txn, is_long ? random() % 2'000'000 : random() % 900);
  }
  write(text);
  for (int i = 0; i < 200; ++i) {
    const auto& [txn, byte] = begins[random() % begins.size()];
    EXPECT_EQ(place(txn), byte) << txn;
  }
  for (std::size_t i = 1; i < begins.size(); i += 50)
    EXPECT_EQ(place(begins[i - 1].first + 1), begins[i].second);
  EXPECT_EQ(place(0), 0U);
  EXPECT_EQ(place(begins.back().first + 1), text.size());
}

TEST_F(RecordPlaces, ALineThatWasBrokenOffIsNone) {
  const std::string whole = line(0, 10) + line(1, 10);
  write(whole + "{\"txn\":2,\"x");
  EXPECT_EQ(place(2), whole.size());
  EXPECT_EQ(place(9), whole.size());
}

TEST_F(RecordPlaces, WhatIsNoRecordIsAnError) {
  write(line(0, 10) + "nonsense\n");
  const auto place = place_of_record(posix_env(), path_, Txn(5));
  ASSERT_FALSE(place.ok());
  EXPECT_EQ(place.error().kind, ErrorKind::kBadData);
}

}  // namespace
}  // namespace lockstep::rundir
