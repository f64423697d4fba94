#include <gtest/gtest.h>

#include "support/checkpoint_fault_env.h"
#include "unit/checkpoint_pt/old_files.h"

namespace lockstep::checkpoint::pt::test {
namespace {

#ifdef __SANITIZE_ADDRESS__
constexpr std::size_t kEveryBit =
    7;  // ten times slower there; odd, so that each bit of a byte has its turn
#else
constexpr std::size_t kEveryBit = 1;
#endif

TEST(PtHostile, ASystemCallIsNamedAndNotMade) {
  const lockstep::test::TempFolder folder;
  const std::string body = global("os", "system") + unicode("touch " + (folder / "ran")) + "\x85R";
  folder.write("evil.pt", around(body));
  const auto value = read(posix_env(), folder / "evil.pt");
  ASSERT_FALSE(value.ok());
  EXPECT_EQ(value.error().kind, ErrorKind::kBadData);
  EXPECT_EQ(value.error().message, "'" + (folder / "evil.pt") +
                                       "': byte 2 of the pickle, GLOBAL: it names 'os.system', "
                                       "which is not on the list of what data may name; "
                                       "nothing of it was run; save tensors and plain values alone "
                                       "in Python: torch.save(model.state_dict(), path)");
  EXPECT_FALSE(posix_env().exists(folder / "ran"));
  folder.write("evil.pt", stream_start() + pickled(body) + pickled("]"));
  EXPECT_TRUE(
      has(read(posix_env(), folder / "evil.pt").error().message, "pickle 'object' at byte"));
  EXPECT_FALSE(posix_env().exists(folder / "ran"));
}

TEST(PtHostile, TensorsOutsideOfTheirStorages) {
  const auto error = [](const std::string& body) { return shown(around(body)); };
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 6), 0, int1(7), int1(1))),
                  "goes beyond its storage of 24 bytes"));
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 6), 5, int1(2), int1(1))), "goes beyond"));
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 6), 7, "", "")), "goes beyond"));
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 6), 0, int1(2) + int1(2), int1(1))), "strides"));
  const std::string huge = "\x8a\x08" + little(1ULL << 60, 8);
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 6), 0, huge, int1(0))), "2^62"));
  EXPECT_TRUE(
      has(error(rebuild_v2(storage("0", 6), 0, huge + huge, int1(0) + int1(0))), "64 bits"));
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 6), 0, int1(2), huge)), "goes beyond"));
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 6), 0, int4(-1), int1(1))), "no count"));
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 6), 0, times(int1(1), 65), times(int1(1), 65))),
                  "at most 64"));
  const std::string expanded =
      rebuild_v2(storage("0", 6), 0, "\x8a\x05" + little(1ULL << 33, 5), int1(0));
  EXPECT_TRUE(has(error(expanded), "is expanded from 24 bytes"));  // by packed() alone
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 5), 0, int1(5), int1(1))),
                  "has 24 bytes in the archive, and its tensors say 20"));
  EXPECT_TRUE(has(error(rebuild_v2(storage("1", 6), 0, int1(6), int1(1))),
                  "storage '1' is not in the archive"));
  EXPECT_TRUE(
      has(error(rebuild_v2(storage("../../x", 6), 0, int1(6), int1(1))), "is not in the archive"));
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 6), 0, int1(6), int1(1)) +
                        rebuild_v2(storage("0", 5), 0, int1(5), int1(1)) + "\x86"),
                  "has two sizes"));
  EXPECT_TRUE(has(error("(" + unicode("model") + "NNNtQ"), "a persistent id is not"));
  // Leaves have sizes, too.
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 6, "meta"), 0, int4(-1), int1(1))), "no count"));
  EXPECT_TRUE(has(error(rebuild_v2(storage("0", 6, "meta"), 0, times(int1(1), 65), int1(1))),
                  "at most 64"));
}

// A stream's storages follow each other: one of unknown length hides the rest.
TEST(PtHostile, AStreamsStoragesHaveKnownSizes) {
  const std::string odd = rebuild_v2(storage("7", 1, "cpu", "OddStorage"), 0, int1(1), int1(1));
  EXPECT_TRUE(has(shown(stream_start() + pickled(odd) + pickled("]" + unicode("7") + "a") +
                        little(1, 8) + floats({1})),
                  "elements' size is not known"));
  const std::string complex =
      rebuild_v2(storage("7", 1, "cpu", "ComplexFloatStorage"), 0, int1(1), int1(1));
  const auto with = [&](const std::string& rest) {
    return shown(stream_start() + pickled(complex) + pickled("]" + unicode("7") + "a") + rest);
  };
  EXPECT_EQ(with(little(1, 8) + floats({1, 2})), "<C64 [1]>");
  EXPECT_TRUE(has(with(little(2, 8) + floats({1, 2, 3, 4})), "has 2 elements"));
  EXPECT_TRUE(has(with(little(1, 8) + floats({1})), "goes beyond the file's end"));
}

TEST(PtHostile, FilesThatAreSomethingElse) {
  EXPECT_TRUE(has(shown(""), "has 0 bytes"));
  EXPECT_TRUE(has(shown("<!DOCTYPE html>"), "starts with '<!DO'"));
  EXPECT_TRUE(has(shown(pickled("N")), "not one of torch.save"));
  EXPECT_TRUE(has(shown(zip_of({{"word/document.xml", "x"}})), "has no data.pkl"));
  EXPECT_TRUE(has(shown(zip_of({{"m/data.pkl", pickled("N")}, {"n/data.pkl", pickled("N")}})),
                  "two data.pkl"));
  EXPECT_TRUE(has(shown(zip_of({{"m/data.pkl", pickled("N")}})), "no version"));
  EXPECT_TRUE(
      has(shown(zip_of({{"m/data.pkl", pickled("N")}, {"m/version", "11"}})), "version is '11'"));
  EXPECT_TRUE(
      has(shown(zip_of({{"m/data.pkl", pickled("N")}, {"m/version", "3"}, {"m/byteorder", "big"}})),
          "byte order is 'big'"));
  EXPECT_TRUE(has(
      shown(
          zip_of({{"m/data.pkl", pickled("N")}, {"m/data.pkl", pickled("N")}, {"m/version", "3"}})),
      "is there twice"));
  EXPECT_EQ(shown(zip_of({{"m/data.pkl", pickled("N")}, {"m/version", "3"}})), "None");
}

TEST(PtHostile, SizesThatLie) {
  const std::string pickle = pickled("N");
  EXPECT_TRUE(
      has(shown(zip_of({{"m/data.pkl", pickle, true, false, 0xfffffff0}, {"m/version", "3"}})),
          "more than deflate can"));
  EXPECT_TRUE(
      has(shown(zip_of({{"m/data.pkl", pickle, false, false, 0xfffffff0}, {"m/version", "3"}})),
          "not what the directory says"));
  EXPECT_TRUE(has(shown(zip_of({{"m/data.pkl", pickle, true, false, 3}, {"m/version", "3"}})),
                  "does not unpack"));
  EXPECT_TRUE(has(shown(zip_of({{"m/data.pkl", pickle, true, false, 5}, {"m/version", "3"}})),
                  "does not unpack"));
  ReadLimits limits;
  limits.pickle_bytes = 3;
  EXPECT_TRUE(has(shown(around("N"), limits), "'m/data.pkl' has 4 bytes; at most 3 are read"));
  limits = {};
  limits.inflated_bytes = 1000;
  EXPECT_TRUE(
      has(shown(zip_of({{"m/data.pkl", times("N", 5000), true}, {"m/version", "3"}}), limits),
          "more than the 1000 bytes"));
  // Two entries over the same bytes.
  std::string doubled = zip_of({{"m/data.pkl", pickle}, {"m/version", "3"}});
  const std::size_t second = doubled.rfind("PK\x01\x02");
  doubled.replace(second + 42, 4, little(0, 4));
  EXPECT_TRUE(has(shown(doubled), "error: zip: "));
}

std::string sample() {
  return file_of(Value::dict(
      {{"w", tensor_of(DType::kF32, {2, 3}, floats({1, 2, 3, 4, 5, 6}))}, {"epoch", 3}}));
}

TEST(PtHostile, CutAtEveryByte) {
  const std::string whole = sample();
  for (std::size_t cut = 0; cut < whole.size(); ++cut)
    ASSERT_TRUE(has(shown(whole.substr(0, cut)), "error: ")) << cut;
  const std::string other = around(rebuild_v2(storage("0", 6), 0, int1(6), int1(1)));
  for (std::size_t cut = 0; cut < other.size(); ++cut)
    ASSERT_TRUE(has(shown(other.substr(0, cut)), "error: ")) << cut;
}

TEST(PtHostile, EveryFlippedBitIsSeenOrMeansNothing) {
  const std::string whole = sample();
  const std::string value = shown(whole);
  std::size_t seen = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); bit += kEveryBit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    const std::string got = shown(flipped);
    seen += got != value ? 1U : 0U;
    ASSERT_TRUE(got == value || has(got, "error: ")) << bit / 8 << " " << got;
  }
  EXPECT_GT(seen, 8 * (24U + 100U) / kEveryBit);  // at least all of the data and the pickle
}

TEST(PtHostile, TheStreamsListsMustAgree) {
  const auto v2 = rebuild_v2(storage("7", 1), 0, int1(1), int1(1));
  const auto with = [&](const std::string& keys, const std::string& rest) {
    return shown(stream_start() + pickled(v2) + pickled(keys) + rest);
  };
  const std::string data = little(1, 8) + floats({1});
  EXPECT_EQ(with("]" + unicode("7") + "a", data), show(tensor_of(DType::kF32, {1}, floats({1}))));
  EXPECT_TRUE(has(with("]", data), "not complete"));
  EXPECT_TRUE(has(with("]" + unicode("8") + "a", data), "that no tensor names"));
  EXPECT_TRUE(has(with("](" + unicode("7") + unicode("7") + "e", data), "has one twice"));
  EXPECT_TRUE(has(with("]" + unicode("7") + "a", little(2, 8) + floats({1, 2})),
                  "has 2 elements, and its tensors say 1"));
  EXPECT_TRUE(has(with("N", data), "are no list"));
  const std::string huge = global("torch._utils", "_rebuild_tensor") + "((" + unicode("storage") +
                           global("torch", "FloatStorage") + unicode("7") + unicode("cpu") +
                           "\x8a\x06" + little(1ULL << 40, 6) + "tQ" + int1(0) + "))tR";
  const std::string file =
      stream_start() + pickled(huge) + pickled("]" + unicode("7") + "a") + little(1ULL << 40, 8);
  EXPECT_TRUE(has(shown(file), "goes beyond the file's end"));
}

// Without a checksum a changed number is a changed number; all else must hold.
TEST(PtHostile, AStreamsFlippedBitsDoNoHarm) {
  const std::string whole = gpu_stream().content;
  std::size_t refused = 0;
  for (std::size_t bit = 0; bit < 8 * whole.size(); bit += kEveryBit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ 1 << bit % 8);
    refused += has(shown(flipped), "error: ") ? 1U : 0U;
  }
  EXPECT_GT(refused, 4 * whole.size() / kEveryBit);
}

// Whichever call of the file system fails, and if power then fails, too: the old file or the new.
TEST(PtHostile, AFailedWriteLeavesTheOldFile) {
  const Value old_value = Value::dict({{"epoch", 1}});
  const Value new_value = Value::dict({{"epoch", 2}, {"w", tensor_of(DType::kU8, {3}, "abc")}});
  std::size_t failures = 0;
  for (std::uint64_t n = 1; n < 100; ++n) {
    testing::MemoryEnv env;
    ASSERT_TRUE(env.make_dirs("/run").ok() && env.sync_dir("/").ok());
    ASSERT_TRUE(write(env, "/run/snapshot.pt", old_value).ok());
    env.fail_at(n, false);
    const Status written = write(env, "/run/snapshot.pt", new_value);
    env.fail_at(0, false);
    failures += written.ok() ? 0U : 1U;
    env.crash(n);
    const auto back = read(env, "/run/snapshot.pt");
    ASSERT_TRUE(back.ok()) << n << back.error().message;
    EXPECT_TRUE(show(*back) == show(new_value) ||
                (!written.ok() && show(*back) == show(old_value)));
    if (written.ok()) break;
  }
  EXPECT_GT(failures, 10U);
}

}  // namespace
}  // namespace lockstep::checkpoint::pt::test
