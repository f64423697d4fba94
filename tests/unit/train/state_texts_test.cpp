#include "train/state_texts.h"

#include <gtest/gtest.h>

namespace lockstep::training {
namespace {

struct Note {
  explicit Note(std::string before) : text(std::move(before)) {
    EXPECT_TRUE(state
                    .add({"note", [this] { return text; },
                          [this](const std::string& loaded) {
                            text = loaded;
                            return Status();
                          }})
                    .ok());
  }
  std::string text;
  TrainState state;
};

TEST(StateTexts, ComeBackWithTheRunsNotes) {
  const Note from("at 3");
  const std::string json = texts_json(from.state, save_texts(from.state),
                                      {.ended_early = true,
                                       .stopped = false,
                                       .ran_ns = 18446744073709551615u,
                                       .idle_steps = 7,
                                       .workers = 3,
                                       .optimizers = {{1, 0}, {2}}});
  Note to("");
  const auto notes = load_texts(to.state, json);
  ASSERT_TRUE(notes.ok());
  EXPECT_EQ(to.text, "at 3");
  EXPECT_TRUE(notes->ended_early);
  EXPECT_FALSE(notes->stopped);
  EXPECT_EQ(notes->ran_ns, 18446744073709551615u);
  EXPECT_EQ(notes->idle_steps, 7u);
  EXPECT_EQ(notes->workers, 3);
  EXPECT_EQ(notes->optimizers, (std::vector<std::vector<std::size_t>>{{1, 0}, {2}}));
}

TEST(StateTexts, ACheckpointFromBeforeHasOneOptimizer) {
  Note to("");
  const auto notes = load_texts(to.state, R"({"note": "", "lockstep:next_optimizer": "3"})");
  ASSERT_TRUE(notes.ok());
  EXPECT_EQ(notes->optimizers, (std::vector<std::vector<std::size_t>>{{3}}));
  for (const char* bad : {"x", "1;x", "1,,2", "-1"}) {
    const std::string json =
        std::string(R"({"note": "", "lockstep:next_optimizers": ")") + bad + R"("})";
    EXPECT_TRUE(load_texts(to.state, json)->optimizers.empty()) << bad;
  }
}

TEST(StateTexts, AnOptionalOneIsThereOnlyIfItSaysSomething) {
  std::string text;
  const auto add = [&](TrainState& state) {
    TrainState::Text optional{"phase", [&] { return text; },
                              [&](const std::string& loaded) {
                                text = loaded;
                                return Status();
                              }};
    optional.optional = true;
    EXPECT_TRUE(state.add(optional).ok());
  };
  TrainState from, none;
  add(from);
  EXPECT_EQ(texts_json(from, save_texts(from), {}), texts_json(none, save_texts(none), {}));
  EXPECT_EQ(from.sha256(), none.sha256());
  text = "010";
  const std::string json = texts_json(from, save_texts(from), {});
  EXPECT_NE(from.sha256(), none.sha256());
  text = "";
  ASSERT_TRUE(load_texts(from, json).ok());
  EXPECT_EQ(text, "010");
  ASSERT_TRUE(load_texts(from, "{}").ok());
  EXPECT_EQ(text, "");
}

TEST(StateTexts, BytesOfAnyKindComeBackAsTheyWere) {
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& text : {all, std::string("caf\xe9"), std::string("caf\\xe9")}) {
    const Note from(text);
    Note to("");
    ASSERT_TRUE(load_texts(to.state, texts_json(from.state, save_texts(from.state), {})).ok());
    EXPECT_EQ(to.text, text);
  }
  for (const char* json : {R"({"note": [256]})", R"({"note": [-1]})", R"({"note": ["x"]})"}) {
    Note to("before");
    EXPECT_FALSE(load_texts(to.state, json).ok()) << json;
    EXPECT_EQ(to.text, "before");
  }
}

TEST(StateTexts, WhatIsMissingIsNamed) {
  for (const char* json :
       {"{}", "[]", "", "{\"note\": 3}", "{\"other\": \"x\"}", "{\"note\": \"x\""}) {
    Note to("before");
    const auto notes = load_texts(to.state, json);
    ASSERT_FALSE(notes.ok()) << json;
    EXPECT_EQ(notes.error().kind, ErrorKind::kBadData);
    EXPECT_NE(notes.error().message.find("'note'"), std::string::npos) << notes.error().message;
    EXPECT_EQ(to.text, "before");
  }
}

TEST(StateTexts, NotesOfAnotherFormCountForNothing) {
  Note to("");
  const auto notes = load_texts(to.state, R"({"note": "x", "lockstep:ran_ns": 7})");
  ASSERT_TRUE(notes.ok());
  EXPECT_EQ(notes->ran_ns, 0u);
  EXPECT_TRUE(notes->optimizers.empty());
}

}  // namespace
}  // namespace lockstep::training
