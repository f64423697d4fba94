// A client of a store, as plain as a socket.
#pragma once

#include <netdb.h>
#include <sys/socket.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>

#include "base/loop.h"
#include "base/unique_fd.h"
#include "store/protocol.h"

namespace lockstep::store {

// A client with blocking calls, which give up after 10 s.
class Peer {
 public:
  explicit Peer(int port, bool validated = true, const char* host = "127.0.0.1") {
    addrinfo hints{}, *found = nullptr;
    hints.ai_flags = AI_NUMERICHOST;
    hints.ai_socktype = SOCK_STREAM;
    if (::getaddrinfo(host, std::to_string(port).c_str(), &hints, &found) != 0) return;
    socket_.reset(::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const timeval limit{10, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    connected_ = ::connect(socket_.get(), found->ai_addr, found->ai_addrlen) == 0;
    ::freeaddrinfo(found);
    if (validated) send(encode({Query::kValidate, {}, {}, kMagic}));
  }
  bool connected() const { return connected_; }
  bool send(const std::string& bytes) const {
    for (std::size_t sent = 0; sent < bytes.size();) {
      const ssize_t size =
          ::send(socket_.get(), bytes.data() + sent, bytes.size() - sent, MSG_NOSIGNAL);
      if (size <= 0) return false;
      sent += static_cast<std::size_t>(size);
    }
    return true;
  }
  std::string receive(std::size_t size) const {
    std::string bytes(size, '\0');
    const ssize_t got = ::recv(socket_.get(), bytes.data(), size, MSG_WAITALL);
    bytes.resize(got < 0 ? 0 : static_cast<std::size_t>(got));
    return bytes;
  }
  bool closed() const {  // by the other side, and nothing to read before
    char byte = 0;
    const ssize_t got = ::recv(socket_.get(), &byte, 1, 0);
    return got == 0 || (got < 0 && errno == ECONNRESET);
  }
  std::string ask(const Request& request, std::size_t size) const {
    send(encode(request));
    return receive(size);
  }
  // A question that everybody gets an answer to.
  bool served() const { return ask({Query::kPing, {}, {}, 77}, 4) == std::string("\x4d\0\0\0", 4); }
  int fd() const { return socket_.get(); }

 private:
  UniqueFd socket_;
  bool connected_ = false;
};

inline std::string text(const std::string& value) {
  std::string bytes;
  put_text(bytes, value);
  return bytes;
}

// What `talk` returns: blocking calls, on a thread of their own, while the loop turns here.
template <class Talk>
bool alongside(Loop& loop, Talk talk) {
  std::atomic<bool> over = false;
  bool result = false;
  std::thread thread([&] {
    result = talk();
    over = true;
  });
  while (!over) loop.run_once(Deadline::in(std::chrono::milliseconds(1)));
  thread.join();
  return result;
}

}  // namespace lockstep::store
