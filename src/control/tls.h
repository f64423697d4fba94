// TLS 1.3 with a pre-shared key, between memory and memory: bytes of the wire in, plain ones out.
//
// External PSK of RFC 8446 with a key exchange (psk_dhe_ke) and AES-128-GCM, by OpenSSL: who has
// not the key can neither read nor speak, and recordings stay closed even to who gets the key
// later. No certificates, tickets, resumption, early data. The PSK is HMAC-SHA-256 of the key over
// the identity, which is "lockstep-1 " and a hash of the run's id: each run has its own.
//
// Ownership: a Tls keeps its settings alive. Errors: kInternal where OpenSSL lacks what is needed.
// Threads: settings any, a Tls one at a time.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "control/failure.h"
#include "control/key.h"
#include "lockstep/status.h"

namespace lockstep::control {

enum class Side { kDials, kListens };

class TlsSettings {
 public:
  static Result<std::shared_ptr<const TlsSettings>> of(const RunKey& key);
  ~TlsSettings();
  TlsSettings(const TlsSettings&) = delete;
  TlsSettings& operator=(const TlsSettings&) = delete;

 private:
  friend class Tls;
  struct State;
  explicit TlsSettings(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

class Tls {
 public:
  // `run_id` binds what is dialled to a run; who listens takes each run's.
  static Result<Tls> begin(std::shared_ptr<const TlsSettings> settings, Side side,
                           std::string_view run_id);
  Tls(Tls&&) noexcept;
  Tls& operator=(Tls&&) noexcept;
  ~Tls();

  // Takes all of `wire`. Appends to `plain` what the other side said, and to `answer` what is to be
  // sent, an alert of a failure included. Only the outcome kWrongKey, kKeyMissing or kNotLockstep
  // before established(), kBroken after, and OpenSSL's reason as text.
  std::optional<Failure> receive(std::string_view wire, std::string& plain, std::string& answer);
  // Appends `plain`, sealed, to `wire`; established() only.
  std::optional<Failure> send(std::string_view plain, std::string& wire);
  bool established() const;

 private:
  friend class TlsSettings;
  struct State;
  explicit Tls(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

// The alert by which a side without a key says so to one that speaks TLS.
extern const std::string_view kNoKeyAlert;

}  // namespace lockstep::control
