// A web server on loopback with fixed answers, for downloads. One connection at a time, closed
// after each answer.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include <atomic>
#include <map>
#include <string>
#include <thread>

#include "base/unique_fd.h"

namespace lockstep::data {

class HttpServer {
 public:
  // Path to the whole answer, status line included; other paths get 404.
  explicit HttpServer(std::map<std::string, std::string> answers)
      : answers_(std::move(answers)), socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ::bind(socket_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address);
    ::listen(socket_.get(), 8);
    socklen_t size = sizeof address;
    ::getsockname(socket_.get(), reinterpret_cast<sockaddr*>(&address), &size);
    port_ = ntohs(address.sin_port);
    thread_ = std::thread([this] { serve(); });
  }
  ~HttpServer() {
    stop_ = true;
    thread_.join();
  }
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  std::string address() const { return "http://127.0.0.1:" + std::to_string(port_) + "/"; }
  int requests() const { return requests_; }

  // With the true length, or a claimed one.
  static std::string ok(const std::string& body) { return ok(body, body.size()); }
  static std::string ok(const std::string& body, std::size_t length) {
    return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(length) +
           "\r\n\r\n" + body;
  }
  static std::string without_length(const std::string& body) {
    return "HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + body;
  }
  static std::string moved(const std::string& to) {
    return "HTTP/1.1 302 Found\r\nConnection: close\r\nContent-Length: 0\r\nLocation: " + to +
           "\r\n\r\n";
  }

 private:
  void serve() {
    while (!stop_) {
      pollfd waiting{socket_.get(), POLLIN, 0};
      if (::poll(&waiting, 1, 10) != 1) continue;
      const UniqueFd client(::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC));
      if (client) answer(client.get());
    }
  }

  void answer(int client) {
    std::string request;
    char buffer[1024];
    while (request.find("\r\n\r\n") == std::string::npos) {
      const ssize_t n = ::recv(client, buffer, sizeof buffer, 0);
      if (n <= 0) return;
      request.append(buffer, static_cast<std::size_t>(n));
    }
    ++requests_;
    const auto found = answers_.find(request.substr(4, request.find(' ', 4) - 4));
    const std::string text =
        found != answers_.end()
            ? found->second
            : "HTTP/1.1 404 Not Found\r\nConnection: close\r\nContent-Length: 0\r\n\r\n";
    for (std::size_t sent = 0; sent < text.size();) {
      const ssize_t n = ::send(client, text.data() + sent, text.size() - sent, MSG_NOSIGNAL);
      if (n <= 0) return;
      sent += static_cast<std::size_t>(n);
    }
  }

  const std::map<std::string, std::string> answers_;
  const UniqueFd socket_;
  std::uint16_t port_ = 0;
  std::atomic<bool> stop_ = false;
  std::atomic<int> requests_ = 0;
  std::thread thread_;
};

}  // namespace lockstep::data
