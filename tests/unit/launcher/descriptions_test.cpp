#include "launcher/linked/descriptions.h"

#include <gtest/gtest.h>

namespace lockstep::launcher {
namespace {

Descriptions::Describe sample(std::uint32_t virtual_workers = 3) {
  Descriptions::Describe description;
  description.run_dir = "/runs/1";
  description.virtual_workers = description.board.virtual_workers = virtual_workers;
  return description;
}

TEST(Descriptions, TheFirstHoldsAndOthersAreToldHowTheyDiffer) {
  Descriptions descriptions;
  ASSERT_TRUE(descriptions.add(WorkerUid(1), sample(), {}).ok());
  ASSERT_TRUE(descriptions.add(WorkerUid(2), sample(4), {}).ok());
  EXPECT_EQ(descriptions.first()->virtual_workers, 3U);
  const auto settled = descriptions.settle(std::nullopt);
  ASSERT_EQ(settled.size(), 2U);
  EXPECT_FALSE(settled[0].refusal.has_value());
  ASSERT_TRUE(settled[1].refusal.has_value());
  EXPECT_NE(settled[1].refusal->message.find("virtual workers"), std::string::npos)
      << settled[1].refusal->message;
  EXPECT_TRUE(descriptions.settle(std::nullopt).empty()) << "each is settled once";
  descriptions.forget();
  EXPECT_EQ(descriptions.first(), nullptr);
  ASSERT_TRUE(descriptions.add(WorkerUid(3), sample(4), {}).ok());
  EXPECT_FALSE(descriptions.settle(std::nullopt)[0].refusal.has_value());
}

TEST(Descriptions, WhoDiffersIsToldTheWayToTheSame) {
  for (const auto& [key, says] : {std::pair("dataset_fingerprint", "The run splits them by itself"),
                                  {"test_set_size", "drawn with the same seed"},
                                  {"initial_weights_sha256", "Call torch::manual_seed()"}}) {
    Descriptions descriptions;
    for (const std::uint64_t worker : {1, 2}) {
      auto description = sample();
      description.manifest = "{\"" + std::string(key) + "\":\"" + std::to_string(worker) + "\"}";
      ASSERT_TRUE(descriptions.add(WorkerUid(worker), description, {}).ok());
    }
    const auto settled = descriptions.settle(std::nullopt);
    ASSERT_TRUE(settled[1].refusal.has_value());
    EXPECT_NE(settled[1].refusal->message.find(says), std::string::npos)
        << settled[1].refusal->message;
  }
}

TEST(Descriptions, ARefusalIsForAllThatWait) {
  Descriptions descriptions;
  for (const int uid : {1, 2})
    ASSERT_TRUE(descriptions.add(WorkerUid(static_cast<std::uint64_t>(uid)), sample(), {}).ok());
  const auto settled = descriptions.settle(Error{ErrorKind::kUnavailable, "in use"});
  ASSERT_EQ(settled.size(), 2U);
  for (const auto& each : settled) {
    ASSERT_TRUE(each.refusal.has_value());
    EXPECT_EQ(each.refusal->kind, ErrorKind::kUnavailable);
  }
}

TEST(Descriptions, WhatCannotBeIsAsIfNothingHadBeenSaid) {
  auto relative = sample(), ring = sample(), none = sample(0), records = sample();
  relative.run_dir = "runs/1";
  ring.board.ring = 3;
  records.board.ids_capacity = 1U << 30;
  for (const auto& [wrong, says] :
       {std::pair(relative, "absolute"), std::pair(ring, "a ring of 3"),
        std::pair(none, "0 virtual workers"), std::pair(records, "fit")}) {
    Descriptions descriptions;
    const Status added = descriptions.add(WorkerUid(1), wrong, {});
    ASSERT_FALSE(added.ok());
    EXPECT_NE(added.error().message.find(says), std::string::npos) << added.error().message;
    EXPECT_EQ(added.error().kind, ErrorKind::kUsage);
    EXPECT_TRUE(descriptions.first() == nullptr && descriptions.refused_options());
    EXPECT_TRUE(descriptions.settle(std::nullopt).empty());
  }
}

}  // namespace
}  // namespace lockstep::launcher
