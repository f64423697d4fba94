// `lockstep checkpoint` over checkpoints of the checkpoint room's own making.
#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "checkpoint/pt/writer.h"
#include "inspect/commands.h"
#include "support/python.h"
#include "unit/checkpoint/samples.h"
#include "unit/checkpoint_pt/build.h"
#include "unit/inspect/support.h"

namespace lockstep::inspect {
namespace {

using Json = nlohmann::json;

Answer answer(const Texts& words) {
  auto result = checkpoint_command(posix_env(), words);
  EXPECT_TRUE(result.ok()) << (result.ok() ? "" : result.error().message);
  return result.ok() ? *std::move(result) : Answer{};
}

Json json_of(Texts words) {
  words.emplace_back("--json");
  return Json::parse(answer(words).text, nullptr, false);
}

Error checkpoint_error(const Texts& words) {
  const auto result = checkpoint_command(posix_env(), words);
  EXPECT_FALSE(result.ok());
  return result.ok() ? Error{} : result.error();
}

bool says(const Error& error, const std::string& words) {
  return error.message.find(words) != std::string::npos;
}

class Checkpoints : public testing::Test {
 protected:
  std::string save(std::uint64_t txn) {
    const auto path = checkpoint::save(posix_env(), run_, checkpoint::Sample(txn), txn);
    EXPECT_TRUE(path.ok());
    return path.ok() ? *path : "";
  }
  // A bit of its last byte, which is a tensor's.
  void flip(const std::string& path) {
    std::string content = test::read_text(path);
    content.back() = static_cast<char>(content.back() ^ 1);
    std::ofstream(path, std::ios::binary) << content;
  }

  test::TempFolder folder_;
  const std::string run_ = folder_ / "run";
};

TEST_F(Checkpoints, ListNamesAllAndWhatIsWrong) {
  save(12);
  const std::string newest = save(30);
  ASSERT_TRUE(checkpoint::set_pointer(posix_env(), run_, "best", 12).ok());
  flip(newest + "/model.safetensors");
  EXPECT_EQ(answer({"ls", run_}).code, 65);
  const Json list = json_of({"ls", run_})["checkpoints"];
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["path"], newest);
  EXPECT_EQ(list[0]["valid"], false);
  EXPECT_NE(list[0]["reason"].get<std::string>().find("hash"), std::string::npos);
  EXPECT_EQ(list[1]["valid"], true);
  EXPECT_EQ(list[1]["cursor"], (Json{{"txn", 12}, {"epoch", 1}, {"step", 2}}));
  EXPECT_EQ(list[1]["pointers"], Json{"best"});
  EXPECT_GT(list[1]["bytes"], 500);
  EXPECT_LT(list[1]["age_s"], 100);
  const std::string text = answer({"ls", run_}).text;
  EXPECT_NE(text.find("step-00000012  epoch 1, step 2"), std::string::npos) << text;
  EXPECT_NE(text.find("whole"), std::string::npos) << text;
  EXPECT_EQ(answer({"ls", newest}).text.find("step-00000012"), std::string::npos);
}

TEST_F(Checkpoints, ListOfARunWithoutOne) {
  std::filesystem::create_directories(run_ + "/checkpoints");
  EXPECT_EQ(answer({"ls", run_}).text, "no checkpoint in '" + run_ + "' yet\n");
  EXPECT_TRUE(says(checkpoint_error({"show", run_}), "no whole checkpoint in"));
  EXPECT_TRUE(says(checkpoint_error({"verify", run_}), "nothing to verify"));
}

// Before the first one there is no checkpoints/, but the run's own manifest.json.
TEST_F(Checkpoints, ARunThatHasJustBegunIsNotDamaged) {
  folder_.write("run/manifest.json", R"({"initial_weights_sha256":"00"})");
  folder_.write("run/ledger.jsonl", "");
  EXPECT_EQ(answer({"ls", run_}).text, "no checkpoint in '" + run_ + "' yet\n");
  EXPECT_EQ(answer({"ls", run_}).code, 0);
  EXPECT_TRUE(says(checkpoint_error({"show", run_}), "no whole checkpoint in"));
  EXPECT_TRUE(says(checkpoint_error({"verify", run_}), "nothing to verify"));
  EXPECT_TRUE(says(checkpoint_error({"export", run_, folder_ / "a.pt"}), "no whole checkpoint in"));
}

TEST_F(Checkpoints, AnExportNeverTakesThePlaceOfWhatItReads) {
  const std::string whole = folder_ / "whole.pt", linked = folder_ / "linked.pt";
  ASSERT_TRUE(checkpoint::pt::write(posix_env(), whole, pickle::Value::dict({{"epoch", 1}})).ok());
  std::filesystem::create_hard_link(whole, folder_ / "again.pt");
  std::filesystem::create_symlink("whole.pt", linked);
  const std::string before = test::read_text(whole);
  for (const std::string& out : {whole, folder_ / "again.pt", linked, folder_ / "./whole.pt"}) {
    const Error error = checkpoint_error({"export", whole, out});
    EXPECT_EQ(error.kind, ErrorKind::kUsage);
    EXPECT_TRUE(says(error, "would be lost; give another name")) << error.message;
  }
  EXPECT_EQ(test::read_text(whole), before);
  save(12);
  for (int i = 0; i < 2; ++i) answer({"export", run_, run_ + "/weights.pt"});  // of its own making
}

TEST_F(Checkpoints, WhatCannotBeLookedAtIsNotCalledMissing) {
  std::filesystem::create_symlink("loop", folder_ / "loop");
  for (const char* verb : {"ls", "show", "verify"}) {
    const Error error = checkpoint_error({verb, folder_ / "loop"});
    EXPECT_EQ(error.kind, ErrorKind::kDisk) << verb;
    EXPECT_TRUE(says(error, "loop': Too many levels of symbolic links")) << error.message;
  }
}

TEST_F(Checkpoints, ShowsTheNewestWholeOne) {
  const std::string older = save(12), newest = save(30);
  flip(newest + "/model.safetensors");
  const Json shown = json_of({"show", run_});
  EXPECT_EQ(shown["path"], older);
  EXPECT_EQ(shown["skipped"].size(), 1U);
  EXPECT_EQ(shown["state"], (Json{{"step", 12}}));
  EXPECT_EQ(shown["virtual_workers"], 3);
  const Json model = shown["parts"][0];
  EXPECT_EQ(model["part"], "model");
  EXPECT_EQ(model["values"], 30 + 10 + 1);
  EXPECT_EQ(model["sha256"], checkpoint::read_manifest(posix_env(), older)->weights_sha256);
  EXPECT_EQ(model["tensors"].size(), 4U);
  EXPECT_EQ(shown["parts"][1]["tensors"][0]["dtype"], "BF16");
  const std::string text = answer({"show", older}).text;
  EXPECT_NE(text.find("  fc.weight               F32    [10, 3]"), std::string::npos) << text;
  EXPECT_NE(text.find("state {\"step\":12}"), std::string::npos) << text;
}

TEST_F(Checkpoints, VerifyTellsDamageByItsCode) {
  const std::string older = save(12), newest = save(30);
  EXPECT_EQ(answer({"verify", run_}).code, 0);
  flip(newest + "/optimizer.safetensors");
  const Answer verified = answer({"verify", run_, older});
  EXPECT_EQ(verified.code, 65);
  EXPECT_NE(verified.text.find("damaged  " + newest), std::string::npos) << verified.text;
  EXPECT_NE(verified.text.find("whole    " + older), std::string::npos) << verified.text;
  EXPECT_EQ(answer({"verify", older + "/model.safetensors"}).code, 0);
  const std::string cut = folder_.write("cut.safetensors", "x");
  EXPECT_EQ(answer({"verify", cut}).code, 65);
  EXPECT_EQ(json_of({"verify", cut})[0]["valid"], false);
}

TEST_F(Checkpoints, DiffIsZeroForEqualBits) {
  const std::string a = save(12), b = save(30);
  EXPECT_EQ(answer({"diff", a, a}).code, 0);
  EXPECT_EQ(answer({"diff", a, a}).text, "5 tensors with equal bits, 0 others\n");
  const Answer differs = answer({"diff", a, b});
  EXPECT_EQ(differs.code, 1);
  EXPECT_NE(differs.text.find("model/fc.bias"), std::string::npos) << differs.text;
  const Json json = json_of({"diff", a, b});
  EXPECT_EQ(json["equal"], 1);  // the empty one
  EXPECT_EQ(json["differences"].size(), 4U);
  EXPECT_GT(json["differences"][0]["differing"], 0);
}

TEST_F(Checkpoints, DiffNamesWhatOnlyOneHas) {
  const std::string a = save(12) + "/model.safetensors", b = save(30) + "/optimizer.safetensors";
  const Answer differs = answer({"diff", a, b});
  EXPECT_EQ(differs.code, 1);
  EXPECT_NE(differs.text.find("only in A: F32 [10, 3]"), std::string::npos) << differs.text;
  EXPECT_NE(differs.text.find("only in B: BF16 [10, 3]"), std::string::npos) << differs.text;
}

TEST_F(Checkpoints, AnExportHasTheSameBits) {
  const std::string from = save(12), to = folder_ / "out.pt";
  EXPECT_NE(answer({"export", run_, to}).text.find("4 tensors"), std::string::npos);
  EXPECT_EQ(answer({"diff", from, to}).text, "4 tensors with equal bits, 0 others\n");
  EXPECT_EQ(answer({"verify", to}).code, 0);
  EXPECT_EQ(json_of({"show", to})["parts"][0]["sha256"],
            json_of({"show", from})["parts"][0]["sha256"]);
  EXPECT_NE(answer({"export", from, to, "--part", "optimizer"}).text.find("1 tensor of"),
            std::string::npos);
  EXPECT_TRUE(says(checkpoint_error({"export", from, to, "--part", "modle"}),
                   "it has 'model', 'optimizer'"));
  EXPECT_TRUE(says(checkpoint_error({"export", from, folder_ / "out"}), "does not end with .pt"));
}

// Of those of "fc." one module is made, of the rest another.
TEST_F(Checkpoints, AnExportOfAModuleHasItsOwnNames) {
  const checkpoint::Sample sample(5);
  checkpoint::Image image;
  ASSERT_TRUE(image.fill(sample.parts(), sample.state()).ok());
  checkpoint::Manifest manifest;
  manifest.cursor = {5, 0, 5};
  manifest.set_modules({{"head", "fc.", 2}, {"rest", "", 2}});
  const auto from = checkpoint::publish(
      posix_env(), run_, manifest, image.files(), [&] { return image.weights_sha256(); }, nullptr);
  ASSERT_TRUE(from.ok()) << from.error().message;
  const std::string to = folder_ / "out.pt";
  EXPECT_EQ(answer({"export", run_, to, "--module", "head"}).text,
            to + ": 2 tensors of " + *from + "\n");
  const Json shown = json_of({"show", to})["parts"][0]["tensors"];
  ASSERT_EQ(shown.size(), 2U);
  EXPECT_EQ(shown[0]["name"], "weight");
  EXPECT_EQ(shown[0]["shape"], (Json{10, 3}));
  EXPECT_EQ(shown[1]["name"], "bias");
  answer({"export", *from, to, "--module", "rest"});
  EXPECT_EQ(json_of({"show", to})["parts"][0]["tensors"][0]["name"], "bn.num_batches_tracked");
  EXPECT_NE(answer({"show", run_}).text.find("2 modules: 'head', 'rest'\n"), std::string::npos);
  EXPECT_EQ(json_of({"show", run_})["modules"][0]["prefix"], "fc.");
  const Error unknown = checkpoint_error({"export", run_, to, "--module", "haed"});
  EXPECT_EQ(unknown.kind, ErrorKind::kUsage);
  EXPECT_TRUE(says(unknown, "no module 'haed'; the nearest: 'head'; it has: 'head', 'rest'"))
      << unknown.message;
  EXPECT_TRUE(says(checkpoint_error({"export", run_, to, "--module", "head", "--part", "model"}),
                   "leave --part out"));
  EXPECT_TRUE(
      says(checkpoint_error({"export", *from + "/model.safetensors", to, "--module", "head"}),
           "it is no checkpoint"));
  const std::string before = save(4);  // without a map
  answer({"export", before, to, "--module", "fc"});
  EXPECT_EQ(json_of({"show", to})["parts"][0]["tensors"].size(), 2U);
  EXPECT_TRUE(says(checkpoint_error({"export", before, to, "--module", "head"}), "it has no map"));
}

// What is not read is listed, and an error for who asks for it.
TEST_F(Checkpoints, LeavesOfAPtFileAreListed) {
  using namespace checkpoint::pt::test;  // NOLINT(google-build-using-namespace)
  const std::string sizes = int1(2) + int1(3), strides = int1(3) + int1(1);
  const std::string weight = rebuild_v2(storage("0", 6), 0, sizes, strides);
  const std::string freqs =
      rebuild_v2(storage("1", 6, "cpu", "ComplexFloatStorage"), 0, sizes, strides);
  const std::string args = global("argparse", "Namespace") + ")\x81}b";
  folder_.write("a.pt", around("}(" + unicode("model") + "}(" + unicode("w") + weight +
                               unicode("freqs") + freqs + unicode("_extra") + args + "u" +
                               unicode("args") + args + unicode("epoch") + int1(3) + "u"));
  const std::string text = answer({"show", folder_ / "a.pt"}).text;
  for (const char* const line :
       {"args = argparse.Namespace\n", "model._extra = argparse.Namespace\n", "epoch = 3\n",
        "model: 2 tensors, 12 values, 24 B, sha256 ", "(of the 1 that are read)\n",
        "  freqs  C64    [2, 3]    -\n", "  w      F32    [2, 3]   21\n"})
    EXPECT_NE(text.find(line), std::string::npos) << line << text;
  const Json part = json_of({"show", folder_ / "a.pt"})["parts"][0];
  EXPECT_EQ(part["tensors"][0]["read"], true);
  EXPECT_EQ(part["tensors"][1]["read"], false);
  EXPECT_EQ(part["tensors"][1]["dtype"], "C64");
  EXPECT_EQ(part["tensors"][1]["sum"], nullptr);
  EXPECT_NE(answer({"verify", folder_ / "a.pt"}).text.find("1 tensor, readable; 1 of kinds"),
            std::string::npos);
  EXPECT_TRUE(
      says(checkpoint_error({"export", folder_ / "a.pt", folder_ / "b.pt"}), "'freqs' is C64"));
  const Answer same = answer({"diff", folder_ / "a.pt", folder_ / "a.pt"});
  EXPECT_EQ(same.code, 1);
  EXPECT_NE(same.text.find("C64 [2, 3] in both, of a kind that is not read"), std::string::npos);
}

TEST_F(Checkpoints, ATensorExpandedBeyondMemoryIsALeaf) {
  auto huge = std::make_shared<checkpoint::pt::TensorValue>();
  huge->storage = *checkpoint::pt::allocate(4);
  std::memset(huge->storage->owner.get(), 0, 4);
  huge->shape = {100000, 100000};
  huge->strides = {0, 0};
  const std::string file = folder_ / "huge.pt";
  const auto value = pickle::Value::dict({{"mask", pickle::Value(huge)}, {"epoch", 3}});
  ASSERT_TRUE(checkpoint::pt::write(posix_env(), file, value).ok());
  const std::string shown = answer({"show", file}).text;
  EXPECT_NE(shown.find("epoch = 3"), std::string::npos) << shown;
  EXPECT_NE(shown.find("F32 (expanded)  [100000, 100000]"), std::string::npos) << shown;
  const Error error = checkpoint_error({"export", file, folder_ / "out.pt"});
  EXPECT_TRUE(says(error, "huge.pt': tensor 'mask'")) << error.message;
}

TEST_F(Checkpoints, DtypesOfSafetensorsThatAreNotReadAreListed) {
  const auto file = [](const std::string& scale) {
    const std::string json =
        R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]},"s":{"dtype":")" + scale +
        R"(","shape":[4],"data_offsets":[4,8]}})";
    return pickle::test::little(json.size(), 8) + json + std::string("\0\0\x80?abcd", 8);
  };
  folder_.write("a.safetensors", file("F8_E8M0"));
  folder_.write("b.safetensors", file("F9_NEW"));
  EXPECT_NE(answer({"show", folder_ / "a.safetensors"}).text.find("  s     F8_E8M0  [4]      -"),
            std::string::npos);
  EXPECT_NE(answer({"show", folder_ / "b.safetensors"}).text.find("  s     F9_NEW  [4]      -"),
            std::string::npos);
  EXPECT_EQ(answer({"diff", folder_ / "a.safetensors", folder_ / "a.safetensors"}).code, 0);
  EXPECT_EQ(answer({"diff", folder_ / "a.safetensors", folder_ / "b.safetensors"}).code, 1);
  EXPECT_EQ(answer({"verify", folder_ / "b.safetensors"}).code, 0);
  EXPECT_TRUE(says(checkpoint_error({"export", folder_ / "a.safetensors", folder_ / "b.pt"}),
                   "'s' is F8_E8M0"));
}

TEST_F(Checkpoints, PythonOpensAnExport) {
  const std::string python = test::python_with("torch");
  if (python.empty()) GTEST_SKIP() << "no Python with torch; set LOCKSTEP_PYTHON";
  save(12);
  const std::string to = folder_ / "out.pt";
  answer({"export", run_, to});
  const std::string script = folder_.write("load.py", R"(import hashlib, sys, torch
state = torch.load(sys.argv[1], weights_only=True)
whole = hashlib.sha256()
for name in sorted(state):
    whole.update(name.encode() + state[name].numpy().tobytes())
print(type(state).__name__, tuple(state["fc.weight"].shape), state["empty"].dtype)
print(whole.hexdigest())
print(*state)
# And back: with values beside the weights.
torch.save({"MODEL_STATE": state, "EPOCHS_RUN": 3, "VALID_HISTORY": [0.5, 0.25]}, sys.argv[2])
)");
  const std::string back = folder_ / "snapshot.pt";
  const std::string sha256 = json_of({"show", run_})["parts"][0]["sha256"];
  EXPECT_EQ(test::output_of(python + " " + script + " " + to + " " + back),
            "OrderedDict (10, 3) torch.bool\n" + sha256 +
                "\nfc.weight fc.bias bn.num_batches_tracked empty\n");
  EXPECT_EQ(answer({"diff", run_, back}).code, 0);
  const std::string text = answer({"show", back}).text;
  EXPECT_NE(text.find("EPOCHS_RUN = 3\nVALID_HISTORY = [0.5, 0.25]\n"), std::string::npos) << text;
  EXPECT_NE(text.find("MODEL_STATE: 4 tensors"), std::string::npos) << text;
}

TEST_F(Checkpoints, AnExportKeepsSharedStorages) {
  namespace pt = checkpoint::pt;
  constexpr std::uint64_t kElements = 1'000'000;
  auto tied = std::make_shared<pt::TensorValue>();
  auto storage = pt::allocate(kElements * sizeof(float));
  ASSERT_TRUE(storage.ok());
  std::memset((*storage)->owner.get(), 0, (*storage)->size);
  tied->storage = *storage;
  tied->shape = {kElements};
  tied->strides = {1};
  pickle::Pairs pairs;
  for (const char* name : {"a", "b", "c", "d"})
    pairs.emplace_back(pickle::Value(name), pickle::Value(tied));
  const std::string from = folder_ / "tied.pt", to = folder_ / "out.pt";
  ASSERT_TRUE(pt::write(posix_env(), from, pickle::Value::ordered_dict(std::move(pairs))).ok());
  answer({"export", from, to});
  EXPECT_EQ(answer({"diff", from, to}).code, 0);
  EXPECT_LT(std::filesystem::file_size(to), 1.1 * kElements * sizeof(float));
}

TEST_F(Checkpoints, WhatIsNoneIsRefused) {
  for (const char* verb : {"ls", "show", "verify"}) {
    const Error missing = checkpoint_error({verb, folder_ / "nowhere"});
    EXPECT_EQ(missing.kind, ErrorKind::kBadData);
    EXPECT_TRUE(says(missing, "does not exist")) << missing.message;
    const Error other = checkpoint_error({verb, folder_.path()});
    EXPECT_EQ(other.kind, ErrorKind::kBadData);
    EXPECT_TRUE(says(other, "no run directory")) << other.message;
  }
  const std::string page = folder_.write("page.pt", "<html>not found</html>");
  EXPECT_TRUE(says(checkpoint_error({"show", page}), "page.pt': the file starts with '<htm'"));
  const std::string code = folder_.write("code.pt",
                                         "\x80\x02"
                                         "cposix\nsystem\nq\x00.");
  EXPECT_EQ(checkpoint_error({"show", code}).kind, ErrorKind::kBadData);
  EXPECT_TRUE(says(checkpoint_error({"diff", page, code}), "page.pt"));
  EXPECT_EQ(checkpoint_error({}).kind, ErrorKind::kUsage);
  EXPECT_TRUE(says(checkpoint_error({"lss", run_}), "did you mean 'ls'?"));
}

}  // namespace
}  // namespace lockstep::inspect
