// A client of a store, as plain as a socket.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <string>

#include "base/unique_fd.h"
#include "store/protocol.h"

namespace lockstep::store {

// A client with blocking calls, which give up after 10 s.
class Peer {
 public:
  explicit Peer(int port, bool validated = true)
      : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const timeval limit{10, 0};
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof limit);
    connected_ =
        ::connect(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
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

}  // namespace lockstep::store
