// A list of endpoints: what is one, and what goes with it.
#include "launcher/options/endpoints.h"

#include <gmock/gmock.h>

#include "launcher/options/options.h"
#include "unit/launcher/nodes_options_parse.h"

namespace lockstep::launcher {
namespace {

using testing::AllOf;
using testing::HasSubstr;

Words several(Words more) {
  Words words{"--nnodes=3"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Endpoints, AListIsTakenInItsOrder) {
  const NodesOptions of = nodes(several({"--rdzv-endpoint", "a, b:7,[fe80::1]:8"}));
  EXPECT_EQ(of.endpoint_host, "a");
  EXPECT_EQ(of.endpoint_port, 29400);
  EXPECT_EQ(text_of(of.places), "a:29400,b:7,[fe80::1]:8");
  EXPECT_FALSE(of.is_static) << "the store has a port of its own";
  const NodesOptions second = with_endpoint(of, 1);
  EXPECT_EQ(second.endpoint_host, "b");
  EXPECT_EQ(second.endpoint_port, 7);
}

TEST(Endpoints, TheVariableIsReadLikewise) {
  EXPECT_EQ(text_of(nodes(several({}), {{"PET_RDZV_ENDPOINT", "a,b"}}).places), "a:29400,b:29400");
}

TEST(Endpoints, OneIsNoList) {
  const NodesOptions of = nodes(several({"--rdzv-endpoint", "a:5"}));
  EXPECT_TRUE(of.places.empty());
  EXPECT_TRUE(of.is_static);
}

TEST(Endpoints, APortOfTheMasterIsNoneOfAList) {
  const Variables job{{"PET_MASTER_PORT", "7"}, {"PET_MASTER_ADDR", "m"}};
  EXPECT_EQ(text_of(nodes(several({"--rdzv-endpoint=a,b"}), job).places), "a:29400,b:29400");
}

TEST(Endpoints, MistakesAreToldWithTheirRemedy) {
  const auto told = [](const std::string& list, Words more = {}) {
    Words words = several({"--rdzv-endpoint", list});
    words.insert(words.end(), more.begin(), more.end());
    return refusal_of(words);
  };
  EXPECT_THAT(told("a,,b"), AllOf(HasSubstr("'a,,b'"), HasSubstr("endpoint 2"), HasSubstr("empty"),
                                  HasSubstr("the form is")));
  EXPECT_THAT(told("a,"), HasSubstr("endpoint 2"));
  EXPECT_THAT(told("a,b:x"), HasSubstr("b:x"));
  EXPECT_THAT(told("a,b,a:29400"), AllOf(HasSubstr("a:29400 twice"), HasSubstr("leave one")));
  EXPECT_THAT(told("a,b:0"), HasSubstr("port 0"));
  EXPECT_THAT(told("1,2,3,4,5,6,7,8,9"), AllOf(HasSubstr("9 endpoints"), HasSubstr("limit 8")));
  EXPECT_THAT(told("a,localhost:7"), AllOf(HasSubstr("'localhost'"), HasSubstr("'a'")));
  EXPECT_EQ(text_of(nodes(several({"--rdzv-endpoint=127.0.0.1:1,localhost:2"})).places),
            "127.0.0.1:1,localhost:2");
  EXPECT_THAT(told("a,b", {"--rdzv-backend=static"}),
              AllOf(HasSubstr("a:29400,b:29400"), HasSubstr("--rdzv-backend"), HasSubstr("c10d")));
  EXPECT_THAT(told("a,b", {"--master-addr=a"}),
              AllOf(HasSubstr("--master-addr"), HasSubstr("leave it out")));
  EXPECT_THAT(told("a,b", {"--master-port=5"}), HasSubstr("--master-port"));
  EXPECT_THAT(told("a,b:5", {"--store-port=5"}),
              AllOf(HasSubstr("--store-port 5"), HasSubstr("another one")));
  EXPECT_THAT(refusal_of({"--rdzv-endpoint=a,b"}),
              AllOf(HasSubstr("--rdzv-endpoint is a list"), HasSubstr("--nnodes N")));
  EXPECT_THAT(told("a,b", {"--rdzv-conf=is_host=true"}), HasSubstr("is_host=true"));
  EXPECT_EQ(nodes(several({"--rdzv-endpoint=a,b", "--rdzv-conf=is_host=false"})).is_host, false);
}

}  // namespace
}  // namespace lockstep::launcher
