#include "support/certificates.hpp"

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include <atomic>
#include <cstdio>
#include <memory>
#include <stdexcept>

namespace holdfast::test {
namespace {

namespace fs = std::filesystem;

template <auto free>
struct Freed {
  template <class T>
  void operator()(T* object) const {
    free(object);
  }
};
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;

void expect(bool done, const char* what) {
  if (!done) throw std::runtime_error(std::string("cannot make a certificate: ") + what);
}

using File = std::unique_ptr<std::FILE, Freed<std::fclose>>;
File open_file(const fs::path& path, const char* mode) {
  File file(std::fopen(path.c_str(), mode));
  expect(file != nullptr, path.c_str());
  return file;
}

void add_extension(X509& certificate, X509& issuer, int kind, const std::string& value) {
  X509V3_CTX context;
  X509V3_set_ctx_nodb(&context);
  X509V3_set_ctx(&context, &issuer, &certificate, nullptr, nullptr, 0);
  const std::unique_ptr<X509_EXTENSION, Freed<X509_EXTENSION_free>> extension(
      X509V3_EXT_conf_nid(nullptr, &context, kind, value.c_str()));
  expect(extension != nullptr && X509_add_ext(&certificate, extension.get(), -1) == 1, value.c_str());
}

/// A new key and its certificate, not signed yet.
Certificate draft(EVP_PKEY& key, const std::string& name, std::chrono::hours valid_for) {
  static std::atomic<long> serial{1};
  Certificate certificate(X509_new());
  expect(certificate != nullptr, "memory");
  X509_set_version(certificate.get(), 2);
  ASN1_INTEGER_set(X509_get_serialNumber(certificate.get()), serial++);
  const long until = std::chrono::seconds(valid_for).count();
  X509_gmtime_adj(X509_getm_notBefore(certificate.get()), std::min(until, 0L) - 3600);
  X509_gmtime_adj(X509_getm_notAfter(certificate.get()), until);
  X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate.get()), "CN", MBSTRING_UTF8,
                             reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
  expect(X509_set_pubkey(certificate.get(), &key) == 1, "public key");
  return certificate;
}

void write(X509& certificate, EVP_PKEY& key, const CertificateAuthority::Issued& to) {
  expect(PEM_write_X509(open_file(to.certificate, "w").get(), &certificate) == 1, "writing");
  expect(PEM_write_PrivateKey(open_file(to.key, "w").get(), &key, nullptr, nullptr, 0, nullptr, nullptr) == 1,
         "writing the key");
}

}  // namespace

CertificateAuthority::CertificateAuthority(fs::path directory, const std::string& name)
    : directory_(std::move(directory)), own_{directory_ / (name + ".crt"), directory_ / (name + ".key")} {
  const Key key(EVP_EC_gen("P-256"));
  expect(key != nullptr, "key");
  const auto certificate = draft(*key, name, std::chrono::hours(24));
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(certificate.get()));
  add_extension(*certificate, *certificate, NID_basic_constraints, "critical,CA:TRUE");
  add_extension(*certificate, *certificate, NID_key_usage, "critical,keyCertSign,digitalSignature");
  add_extension(*certificate, *certificate, NID_subject_key_identifier, "hash");
  expect(X509_sign(certificate.get(), key.get(), EVP_sha256()) > 0, "signature");
  write(*certificate, *key, own_);
}

CertificateAuthority::Issued CertificateAuthority::issue(const Request& request) const {
  const Certificate issuer(PEM_read_X509(open_file(own_.certificate, "r").get(), nullptr, nullptr, nullptr));
  const Key issuer_key(PEM_read_PrivateKey(open_file(own_.key, "r").get(), nullptr, nullptr, nullptr));
  const Key key(EVP_EC_gen("P-256"));
  expect(issuer != nullptr && issuer_key != nullptr && key != nullptr, "keys");
  const auto certificate = draft(*key, request.name, request.valid_for);
  X509_set_issuer_name(certificate.get(), X509_get_subject_name(issuer.get()));
  std::string names;
  for (const auto& name : request.names) names += (names.empty() ? "" : ",") + name;
  if (!names.empty()) add_extension(*certificate, *issuer, NID_subject_alt_name, names);
  add_extension(*certificate, *issuer, NID_authority_key_identifier, "keyid:always");
  expect(X509_sign(certificate.get(), issuer_key.get(), EVP_sha256()) > 0, "signature");
  Issued issued{directory_ / (request.name + ".crt"), directory_ / (request.name + ".key")};
  write(*certificate, *key, issued);
  return issued;
}

}  // namespace holdfast::test
