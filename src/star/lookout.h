// Looks now and then whether somebody leads at one of several places: dials each, asks, and closes.
// For nodes::Succession.
//
// Ownership: `loop` and `timers` must outlive it. Errors are events. Threads: the loop's.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/deadline.h"
#include "base/loop.h"
#include "control/connection.h"
#include "control/dial.h"
#include "nodes/succession.h"
#include "star/messages.h"

namespace lockstep::star {

class Lookout {
 public:
  struct At {
    std::string host;
    int port = 0;
  };
  struct Plan {
    std::vector<At> places;
    bool on_this_machine = false;  // by their abstract sockets, without a key
    message::Hello self;
    control::Party party;
    std::shared_ptr<const control::TlsSettings> tls;  // none: without a key
    std::optional<control::Address> from;             // --local-addr
    control::FindAddresses find = control::find_addresses;
  };
  // None may destroy the Lookout.
  struct Events {
    // Its machine answers, and no leader of this run. `here`: it is this machine.
    std::function<void(int place, bool here)> nobody;
    std::function<void(int place)> silence;
    std::function<void(const nodes::Lead&)> lead;
    // A leader of this run is there, and an option differs.
    std::function<void(const message::Refused&)> refused;
  };
  Lookout(Loop& loop, control::Timers& timers, Plan plan, Events events);
  ~Lookout();
  Lookout(const Lookout&) = delete;
  Lookout& operator=(const Lookout&) = delete;

  // At all places but that one (-1: at all), each anew so long after its answer; the first time at
  // once. Does nothing but take `every` while it looks.
  void look(std::chrono::milliseconds every, int but);
  void rest();

 private:
  struct Place {
    std::unique_ptr<control::Dial> dial;
    std::shared_ptr<control::Connection> connection;
    control::Timers::Timer next, limit;
  };
  Place& at(int place) { return places_[static_cast<std::size_t>(place)]; }
  void dial(int place);
  void ask(int place, std::shared_ptr<control::Connection> connection);
  void hear(int place, std::string_view frame);
  void failed(int place, const control::Failure& failure);
  void done(int place);

  Loop& loop_;
  control::Timers& timers_;
  const Plan plan_;
  const Events events_;
  std::vector<Place> places_;
  std::chrono::milliseconds every_{0};
  bool looks_ = false;
};

}  // namespace lockstep::star
