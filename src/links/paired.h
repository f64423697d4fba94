// What the engines have in common: all pairs that are wanted.
//
// Threads: the loop's.
#pragma once

#include <map>
#include <memory>
#include <string>

#include "links/links.h"
#include "links/pair.h"

namespace lockstep::links {

class PairedLinks : public Links {
 public:
  explicit PairedLinks(Pair::Place place);
  void open(const Other& other) override;
  void abort(HostIndex host) override;
  bool is_up(HostIndex host) const override { return stream_of(host) != nullptr; }
  void send(HostIndex host, std::string_view header, std::span<const std::byte> body) override;
  void send_copy(HostIndex host, std::string_view header, std::string body) override;
  std::size_t unsent(HostIndex host) const override;

 protected:
  virtual void look() {}  // now and then
  // None: it is not wanted.
  std::shared_ptr<Pair> pair_of(HostIndex host) const;
  const Pair::Place& place() const { return place_; }

 private:
  Stream* stream_of(HostIndex host) const;
  void tick_later();
  void tick();

  const Pair::Place place_;
  std::map<HostIndex, std::shared_ptr<Pair>> pairs_;
  control::Timers::Timer tick_;
};

}  // namespace lockstep::links
