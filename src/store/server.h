// Serves a store to PyTorch's TCPStore clients over TCP, on the thread of a Loop.
//
// Nobody holds anybody up: sockets never block, each gets one read and one write a turn, and who
// does not take its answers is not read from. A client that breaks the protocol or a limit loses
// its connection, it alone. There is no key: whoever can reach the addresses can read and write.
//
// Strangers are those who come from another machine than this one and the run's others, which are
// known by recognize_by(). They are served like all, and give way to all: where connections or
// descriptors run out they go by the rule of a Crowd, those first that have not said VALIDATE;
// where buffers are full it is they who lose their connections; and what is stored may be above
// half of its limit by the run's clients alone. Beyond that, who has not said VALIDATE within a
// second makes room; else newcomers wait in the kernel's queue.
//
// Ownership: owns its sockets; the loop must outlive it. Errors: kUnavailable. Threads: the loop's.
#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/crowd.h"
#include "base/deadline.h"
#include "base/loop.h"
#include "base/unique_fd.h"
#include "lockstep/status.h"
#include "store/protocol.h"
#include "store/tables.h"

namespace lockstep::store {

struct Limits {
  std::size_t stored = 512 << 20;  // bytes; see Tables
  // Bytes of all requests that are not whole, and of answers that are not taken. Above it who holds
  // most of them loses its connection.
  std::size_t buffered = 256 << 20;
  std::size_t clients = 512;  // connections at a time
};

class Server {
 public:
  // Listens at `port` of each of `addresses`, which are numeric; 0: at one that is free at all of
  // them. Errors: kUnavailable with address, port and what the system says.
  static Result<std::unique_ptr<Server>> listen(Loop& loop,
                                                const std::vector<std::string>& addresses, int port,
                                                const Limits& limits = {});
  // Has no socket of its own: all clients are adopted, and port() is 0.
  static Result<std::unique_ptr<Server>> without_listener(Loop& loop, const Limits& limits = {});
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  int port() const { return port_; }
  // A connection that somebody else has accepted, and of which nothing has been read, with the
  // address that it comes from (comes_from()). It does not
  // wait for a place: where there is none its connection is closed, and who has not sent the whole
  // of VALIDATE yet makes room at once. PyTorch's clients try again.
  void adopt(UniqueFd socket, const std::string& from);
  // Who asks for a COMPARE_SET of this key, which nobody else can know, is a machine of the run,
  // and stays one.
  void recognize_by(std::string key) { sign_ = std::move(key); }
  // A new, empty store at the same port. Connections are closed, those included that have not been
  // accepted yet.
  void begin_anew();
  std::size_t clients() const { return clients_.size(); }
  std::size_t held() const { return tables_->held(); }  // bytes stored

 private:
  struct Client {
    UniqueFd socket;
    Parser parser;
    std::string in;   // what has come after a request whose answer is not taken yet
    std::string out;  // the answer, from `sent` on
    std::size_t sent = 0;
    std::size_t counted = 0;  // in buffered_
    std::string stranger;     // its address; "": it is of the run
    bool closing = false;
  };

  Server(Loop& loop, std::vector<UniqueFd> listeners, int port, const Limits& limits);
  static Result<std::unique_ptr<Server>> open(Loop& loop, std::vector<UniqueFd> listeners, int port,
                                              const Limits& limits);
  void make_tables();
  void watch_listeners();
  void rest();
  void tell_it_is_full();
  void accept(int listener);
  std::optional<ClientId> first_to_go() const;
  bool make_room();
  void tell_who_goes(const Client& client);
  void recognize(const Client& client);
  void welcome(UniqueFd socket, const std::string& from, std::chrono::milliseconds patience);
  void on_ready(ClientId id, Loop::Readiness readiness);
  void read(ClientId id, Client& client);
  void serve(ClientId id, Client& client, std::string_view bytes);
  void answer(ClientId id, const std::string& bytes);
  void write(ClientId id, Client& client);
  std::size_t send_some(ClientId id, Client& client, std::string_view bytes);
  void watch(ClientId id, Client& client, Loop::Readiness readiness);
  void refuse(ClientId id, Client& client, const Error& error);
  void close(ClientId id, Client& client);
  void count(Client& client);
  void tidy_up();  // at the end of each turn: close who is to be closed, heed limits

  Loop& loop_;
  const Limits limits_;
  std::vector<UniqueFd> listeners_;
  UniqueFd timer_;  // while newcomers have to wait
  bool resting_ = true, told_it_is_full_ = false, told_who_goes_ = false;
  int port_;
  std::optional<Tables> tables_;
  std::string sign_;                // recognize_by()'s; "": none
  std::set<std::string> machines_;  // of the run, but for this one
  std::map<ClientId, Client> clients_;
  // Those that have not sent VALIDATE yet, and how long they may take.
  std::map<ClientId, Deadline> silent_;
  Crowd silent_strangers_, strangers_;  // the latter have sent VALIDATE
  std::vector<ClientId> closing_;
  ClientId next_id_ = 0;
  std::size_t buffered_ = 0;
  int refusals_told_ = 0;
  std::vector<char> buffer_;  // of one read
};

}  // namespace lockstep::store
