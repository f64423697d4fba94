// Where a transaction's line begins, in files of all sizes.
#include "rundir/record_file.h"

#include <gtest/gtest.h>

#include <filesystem>
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

// Counts what is read.
class CountingEnv final : public Env {
 public:
  std::uint64_t bytes = 0;

  std::uint64_t now_ns() override { return posix_env().now_ns(); }
  double wall_time_s() override { return posix_env().wall_time_s(); }
  Result<std::unique_ptr<File>> create(const std::string& path) override {
    return posix_env().create(path);
  }
  Result<std::unique_ptr<File>> open_append(const std::string& path) override {
    return posix_env().open_append(path);
  }
  Result<std::string> read(const std::string& path, std::uint64_t limit) override {
    auto text = posix_env().read(path, limit);
    if (text.ok()) bytes += text->size();
    return text;
  }
  Result<std::unique_ptr<ReadableFile>> open_read(const std::string& path) override {
    LOCKSTEP_ASSIGN(auto file, posix_env().open_read(path));
    return std::unique_ptr<ReadableFile>(std::make_unique<Counted>(std::move(file), bytes));
  }
  Status rename(const std::string& from, const std::string& to) override {
    return posix_env().rename(from, to);
  }
  Status remove_all(const std::string& path) override { return posix_env().remove_all(path); }
  Status make_dirs(const std::string& path) override { return posix_env().make_dirs(path); }
  Status sync_dir(const std::string& path) override { return posix_env().sync_dir(path); }
  Status truncate(const std::string& path, std::uint64_t size) override {
    return posix_env().truncate(path, size);
  }
  Result<std::vector<std::string>> list(const std::string& path) override {
    return posix_env().list(path);
  }
  bool exists(const std::string& path) override { return posix_env().exists(path); }

 private:
  struct Counted final : ReadableFile {
    Counted(std::unique_ptr<ReadableFile> of, std::uint64_t& count)
        : file(std::move(of)), bytes(count) {}
    std::uint64_t size() const override { return file->size(); }
    Status read_at(std::uint64_t offset, std::span<std::byte> out) override {
      bytes += out.size();
      return file->read_at(offset, out);
    }
    std::unique_ptr<ReadableFile> file;
    std::uint64_t& bytes;
  };
};

TEST_F(RecordPlaces, LongFilesAreCutWithoutBeingRead) {
  std::string text;
  std::size_t upto = 0;  // where 30,000 begins
  for (std::uint64_t txn = 0; txn < 40'000; ++txn) {
    if (txn == 30'000) upto = text.size();
    text += line(txn, 500);
  }
  write(text);
  CountingEnv env;
  const auto opened = open_records(env, path_, Txn(0), Txn(30'000), 600);
  ASSERT_TRUE(opened.ok()) << opened.error().message;
  EXPECT_EQ(std::filesystem::file_size(path_), upto);
  EXPECT_TRUE(opened->cut.starts_with("{\"txn\":30000,")) << opened->cut;
  EXPECT_LT(env.bytes, text.size() / 4);
}

}  // namespace
}  // namespace lockstep::rundir
