#include "control/tls.h"

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <openssl/ssl.h>

#include <algorithm>
#include <array>
#include <utility>

#include "base/hash.h"

namespace lockstep::control {

// What OpenSSL has made, freed by its function.
template <auto Free>
struct OpenSslFreed {
  template <class T>
  void operator()(T* object) const {
    Free(object);
  }
};
using SslContext = std::unique_ptr<SSL_CTX, OpenSslFreed<SSL_CTX_free>>;
using Ssl = std::unique_ptr<SSL, OpenSslFreed<SSL_free>>;
using SslSession = std::unique_ptr<SSL_SESSION, OpenSslFreed<SSL_SESSION_free>>;

namespace {

constexpr std::string_view kIdentityPrefix = "lockstep-1 ";
constexpr std::size_t kIdentityBytes = kIdentityPrefix.size() + 32;
constexpr int kUnknownPskIdentity = 115;  // alerts of RFC 8446, section 6
constexpr int kReasonOfAlerts = 1000;     // SSL_AD_REASON_OFFSET: the reason of alert n is 1000 + n

std::string identity_of(std::string_view run_id) {
  return std::string(kIdentityPrefix) + sha256_hex(run_id).substr(0, 32);
}

SslSession session_of(SSL* ssl, const std::string& key, std::string_view identity) {
  std::array<unsigned char, 32> psk{};
  unsigned bytes = 0;
  const auto* const data = reinterpret_cast<const unsigned char*>(identity.data());
  SslSession session(SSL_SESSION_new());
  constexpr std::array<unsigned char, 2> kAes128Gcm{0x13, 0x01};
  const SSL_CIPHER* const cipher = SSL_CIPHER_find(ssl, kAes128Gcm.data());
  const bool made = session && cipher != nullptr &&
                    HMAC(EVP_sha256(), key.data(), static_cast<int>(key.size()), data,
                         identity.size(), psk.data(), &bytes) != nullptr &&
                    SSL_SESSION_set1_master_key(session.get(), psk.data(), bytes) == 1 &&
                    SSL_SESSION_set_cipher(session.get(), cipher) == 1 &&
                    SSL_SESSION_set_protocol_version(session.get(), TLS1_3_VERSION) == 1;
  OPENSSL_cleanse(psk.data(), psk.size());
  return made ? std::move(session) : SslSession();
}

std::string first_reason(unsigned long code) {
  if (ERR_GET_LIB(code) == ERR_LIB_SSL && ERR_GET_REASON(code) == SSL_R_WRONG_VERSION_NUMBER)
    return "it does not speak TLS; another program has that port, as a web server or torchrun";
  const char* const reason = ERR_reason_error_string(code);
  return reason == nullptr ? "the handshake failed" : reason;
}

// Why a handshake has failed.
Outcome outcome_of(unsigned long code) {
  const int reason = ERR_GET_REASON(code);
  if (ERR_GET_LIB(code) != ERR_LIB_SSL) return Outcome::kNotLockstep;
  switch (reason) {
    case SSL_R_BINDER_DOES_NOT_VERIFY:                 // here
    case kReasonOfAlerts + SSL3_AD_ILLEGAL_PARAMETER:  // the other side says it
    case kReasonOfAlerts + TLS1_AD_DECRYPT_ERROR:
      return Outcome::kWrongKey;
    case kReasonOfAlerts + kUnknownPskIdentity:
      return Outcome::kKeyMissing;
    default:
      return Outcome::kNotLockstep;
  }
}

}  // namespace

// Level fatal (2), in a record of type alert (21), version 3.3, 2 bytes.
const std::string_view kNoKeyAlert("\x15\x03\x03\x00\x02\x02\x73", 7);

struct TlsSettings::State {
  SslContext context;
  RunKey key;
};

struct Tls::State {
  std::shared_ptr<const TlsSettings> settings;
  std::string identity;  // of who dials
  Ssl ssl;
  BIO* in = nullptr;   // the SSL's
  BIO* out = nullptr;  // the SSL's
  bool established = false;

  static State& of(SSL* ssl) { return *static_cast<State*>(SSL_get_app_data(ssl)); }
  const std::string& key() const { return settings->state_->key.text(); }

  static int use(SSL* ssl, const EVP_MD* digest, const unsigned char** id, std::size_t* id_bytes,
                 SSL_SESSION** session) {
    State& state = of(ssl);
    *session = nullptr;
    if (digest != nullptr && !EVP_MD_is_a(digest, "SHA256")) return 1;
    *session = session_of(ssl, state.key(), state.identity).release();
    *id = reinterpret_cast<const unsigned char*>(state.identity.data());
    *id_bytes = state.identity.size();
    return *session != nullptr ? 1 : 0;
  }
  static int find(SSL* ssl, const unsigned char* id, std::size_t id_bytes, SSL_SESSION** session) {
    const std::string_view identity(reinterpret_cast<const char*>(id), id_bytes);
    *session = nullptr;  // none: a stranger
    if (identity.size() == kIdentityBytes && identity.starts_with(kIdentityPrefix))
      *session = session_of(ssl, of(ssl).key(), identity).release();
    return 1;
  }

  void take_output(std::string& answer) {
    std::array<char, 4096> bytes;
    for (int count; (count = BIO_read(out, bytes.data(), static_cast<int>(bytes.size()))) > 0;)
      answer.append(bytes.data(), static_cast<std::size_t>(count));
  }
  // Why a call did not succeed; nothing: it wants more bytes.
  std::optional<Failure> failure(int result) const {
    const int error = SSL_get_error(ssl.get(), result);
    if (error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE) return std::nullopt;
    const unsigned long code = ERR_peek_error();
    Failure what{established ? Outcome::kBroken : outcome_of(code), first_reason(code)};
    if (what.outcome == Outcome::kNotLockstep) what.text = "what it sends is no TLS";
    if (error == SSL_ERROR_ZERO_RETURN) what.text = "TLS was closed";
    ERR_clear_error();
    return what;
  }
};

TlsSettings::TlsSettings(std::unique_ptr<State> state) : state_(std::move(state)) {}
TlsSettings::~TlsSettings() = default;

Result<std::shared_ptr<const TlsSettings>> TlsSettings::of(const RunKey& key) {
  SslContext context(SSL_CTX_new(TLS_method()));
  const auto failed = [] {
    const std::string reason = first_reason(ERR_peek_error());
    ERR_clear_error();
    return Error{ErrorKind::kInternal,
                 "this machine's OpenSSL gives no TLS 1.3 with TLS_AES_128_GCM_SHA256: " + reason};
  };
  SSL_CTX* const made = context.get();
  if (made == nullptr || SSL_CTX_set_min_proto_version(made, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_max_proto_version(made, TLS1_3_VERSION) != 1 ||
      SSL_CTX_set_ciphersuites(made, "TLS_AES_128_GCM_SHA256") != 1 ||
      SSL_CTX_set_num_tickets(made, 0) != 1)
    return failed();
  SSL_CTX_set_options(made, SSL_OP_NO_TICKET);
  SSL_CTX_set_session_cache_mode(made, SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(made, SSL_MODE_RELEASE_BUFFERS);
  SSL_CTX_set_psk_use_session_callback(made, &Tls::State::use);
  SSL_CTX_set_psk_find_session_callback(made, &Tls::State::find);
  auto state = std::make_unique<State>(State{std::move(context), key});
  return std::shared_ptr<const TlsSettings>(new TlsSettings(std::move(state)));
}

Tls::Tls(std::unique_ptr<State> state) : state_(std::move(state)) {}
Tls::Tls(Tls&&) noexcept = default;
Tls& Tls::operator=(Tls&&) noexcept = default;
Tls::~Tls() = default;

Result<Tls> Tls::begin(std::shared_ptr<const TlsSettings> settings, Side side,
                       std::string_view run_id) {
  auto state = std::make_unique<State>();
  state->ssl.reset(SSL_new(settings->state_->context.get()));
  state->in = BIO_new(BIO_s_mem());
  state->out = BIO_new(BIO_s_mem());
  if (!state->ssl || state->in == nullptr || state->out == nullptr) {
    BIO_free(state->in);
    BIO_free(state->out);
    return Error{ErrorKind::kInternal, "OpenSSL has no memory for a connection"};
  }
  SSL_set_bio(state->ssl.get(), state->in, state->out);
  SSL_set_app_data(state->ssl.get(), state.get());
  state->settings = std::move(settings);
  state->identity = identity_of(run_id);
  if (side == Side::kDials) {
    SSL_set_connect_state(state->ssl.get());
    // Who answers with a certificate has not the key: no authority is believed.
    SSL_set_verify(state->ssl.get(), SSL_VERIFY_PEER, nullptr);
  } else {
    SSL_set_accept_state(state->ssl.get());
  }
  return Tls(std::move(state));
}

std::optional<Failure> Tls::receive(std::string_view wire, std::string& plain,
                                    std::string& answer) {
  ERR_clear_error();
  if (!wire.empty() && BIO_write(state_->in, wire.data(), static_cast<int>(wire.size())) <= 0)
    return Failure{Outcome::kBroken, "OpenSSL has no memory for what was received"};
  std::array<char, 8192> bytes;
  for (;;) {
    const bool shaking = !state_->established;
    const int result =
        shaking ? SSL_do_handshake(state_->ssl.get())
                : SSL_read(state_->ssl.get(), bytes.data(), static_cast<int>(bytes.size()));
    if (result <= 0) {
      auto failed = state_->failure(result);
      state_->take_output(answer);
      return failed;
    }
    if (!shaking) {
      plain.append(bytes.data(), static_cast<std::size_t>(result));
    } else if (SSL_session_reused(state_->ssl.get()) != 1) {
      return Failure{Outcome::kNotLockstep, "the key was not used"};
    } else {
      state_->established = true;
    }
  }
}

std::optional<Failure> Tls::send(std::string_view plain, std::string& wire) {
  if (plain.empty()) return std::nullopt;
  ERR_clear_error();
  const int result = SSL_write(state_->ssl.get(), plain.data(), static_cast<int>(plain.size()));
  state_->take_output(wire);
  if (result == static_cast<int>(plain.size())) return std::nullopt;
  auto failed = state_->failure(result);
  return failed ? failed : Failure{Outcome::kBroken, "TLS takes no more"};
}

bool Tls::established() const { return state_->established; }

}  // namespace lockstep::control
