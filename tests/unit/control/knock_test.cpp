#include "control/knock.h"

#include "control/sockets.h"
#include "unit/control/net.h"

namespace lockstep::control::test {
namespace {

using namespace std::chrono_literals;

class Knocks : public Net {
 protected:
  void start(int port) {
    knock_ = Knock::start(*loop_, *timers_, *Address::numeric("127.0.0.1", port), {}, [this] {
      ++refusals_;
      knock_.reset();
    });
  }
  bool refused_within(std::chrono::milliseconds time) {
    return run_until([this] { return refusals_ > 0; }, time);
  }
  std::unique_ptr<Knock> knock_;
  int refusals_ = 0;
};

TEST_F(Knocks, APortThatNobodyHoldsIsRefused) {
  const int port = Address::local_of(listen_everywhere(0)->get())->port();
  start(port);
  EXPECT_TRUE(refused_within(5s));
  EXPECT_EQ(refusals_, 1);
}

TEST_F(Knocks, WhoListensDoesNotRefuseUntilItEnds) {
  auto listener = listen_everywhere(0);
  const int port = Address::local_of(listener->get())->port();
  start(port);
  EXPECT_FALSE(refused_within(100ms));
  listener->reset();
  EXPECT_TRUE(refused_within(5s));
}

TEST_F(Knocks, WhoGivesUpHearsNothing) {
  const int port = Address::local_of(listen_everywhere(0)->get())->port();
  start(port);
  knock_.reset();
  EXPECT_FALSE(refused_within(50ms));
}

}  // namespace
}  // namespace lockstep::control::test
