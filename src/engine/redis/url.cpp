#include <algorithm>
#include <array>
#include <filesystem>
#include <holdfast/duration.hpp>
#include <holdfast/redis.hpp>
#include <limits>
#include <set>

#include "core/number.hpp"
#include "core/percent.hpp"
#include "core/utf8.hpp"
#include "engine/redis/password.hpp"

// A password may stand in a URL, and a URL may be mistyped so that part of the password ends up where the
// host, the path or a parameter should be. So messages repeat only the names of parameters that we know (or
// that could be one), and the values of parameters that we know.

namespace holdfast {
namespace {

/// What a URL names, by its scheme.
enum class Names : std::uint8_t { server, sentinels, cluster, socket };
struct Scheme {
  std::string_view text;
  Names names;
  bool tls = false;
};
constexpr std::array schemes{
    Scheme{"redis://", Names::server},
    Scheme{"rediss://", Names::server, true},
    Scheme{"redis+sentinel://", Names::sentinels},
    Scheme{"rediss+sentinel://", Names::sentinels, true},
    Scheme{"redis+cluster://", Names::cluster},
    Scheme{"rediss+cluster://", Names::cluster, true},
    Scheme{"unix:", Names::socket},
};
constexpr std::uint16_t default_port = 6379, default_sentinel_port = 26379;

Names named_by(const RedisOptions& options) {
  if (!options.unix_socket.empty()) return Names::socket;
  if (!options.cluster_nodes.empty()) return Names::cluster;
  return options.sentinels.empty() ? Names::server : Names::sentinels;
}

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::InvalidArgument, "cannot use this Redis URL: " + what);
}

std::string decoded(const std::string& part, std::string_view text) {
  auto plain = core::percent_decoded(text);
  if (!plain) refuse(part + ": % must be followed by two hex digits; write a plain % as %25");
  if (std::ranges::any_of(*plain, core::is_control)) refuse(part + " contains a control character");
  return *std::move(plain);
}

/// Only digits, up to `highest`.
std::uint32_t number(const std::string& part, std::string_view text, std::uint32_t lowest,
                     std::uint32_t highest) {
  const auto value = core::whole_number<std::uint32_t>(text);
  if (!value || *value < lowest || *value > highest) {
    refuse(part + " must be a number from " + std::to_string(lowest) + " to " + std::to_string(highest));
  }
  return *value;
}

std::uint32_t database(std::string_view text) {
  return number("the database", text, 0, std::numeric_limits<std::int32_t>::max());
}

std::chrono::milliseconds timeout(const std::string& name, const std::string& text) {
  const auto length = parse_duration(text);
  if (!length) refuse(name + " " + length.error().message());
  if (*length == std::chrono::milliseconds::zero()) refuse(name + " must be more than zero");
  return *length;
}

/// Made absolute, so that the URL means the same in another working directory.
std::string file(const std::string& name, const std::string& path) {
  if (path.empty()) refuse(name + " is empty; set it to a file");
  std::error_code failed;
  auto absolute = std::filesystem::absolute(path, failed);
  if (failed) refuse(name + " must be an absolute path here (" + failed.message() + ")");
  return absolute.string();
}

std::string client_name(const std::string& text) {
  // The characters that CLIENT SETNAME accepts.
  if (!std::ranges::all_of(text, [](char c) { return c > ' ' && c <= '~'; })) {
    refuse("name must be printable ASCII without spaces");
  }
  return text;
}

std::string label(const std::string& text) {
  const auto checked = LockHolder::from_setting(text);
  if (!checked) refuse("holder: " + checked.error().message());
  return text;
}

RedisLayout layout(const std::string& text) {
  if (text == "documented") return RedisLayout::documented;
  if (text == "native") return RedisLayout::native;
  refuse("layout must be documented or native");
}

std::string layout_text(const std::optional<RedisLayout>& layout) {
  if (!layout) return {};
  return *layout == RedisLayout::native ? "native" : "documented";
}

bool boolean(const std::string& name, const std::string& text) {
  if (text == "true" || text == "1") return true;
  if (text == "false" || text == "0") return false;
  refuse(name + " must be true or false");
}

constexpr std::uint32_t most_replicas = 1000;

void set_fence_floor(RedisOptions& options, const std::string& text) {
  options.fence_floor_clock = text == "clock";
  options.fence_floor = 0;
  if (text == "clock" || text == "none") return;
  const auto floor = core::whole_number<std::uint64_t>(text);
  if (!floor || *floor > RedisOptions::highest_fence_floor) {
    refuse("fence_floor must be clock, none, or a fence of at most " +
           std::to_string(RedisOptions::highest_fence_floor));
  }
  options.fence_floor = *floor;
}

std::string fence_floor_text(const RedisOptions& options) {
  if (options.fence_floor_clock) return "clock";
  return options.fence_floor == 0 ? "none" : std::to_string(options.fence_floor);
}

std::string host_name(std::string_view text) {
  auto name = decoded("the host", text);
  const auto is_plain = [](char c) {
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' ||
           c == '.' || c == '_';
  };
  if (!std::ranges::all_of(name, is_plain) || name.size() > 253) {
    refuse("the host must be a name, an IPv4 address, or an IPv6 address in brackets");
  }
  return name;
}

std::string ipv6_address(std::string_view text) {
  auto address = decoded("the address in brackets", text);
  const auto zone = address.find('%');  // written %25: fe80::1%25eth0
  const auto is_part = [](char c) {
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F') || c == ':' || c == '.';
  };
  if (address.find(':') == std::string::npos || !std::ranges::all_of(address.substr(0, zone), is_part)) {
    refuse("the address in brackets must be an IPv6 address");
  }
  return address;
}

/// Parts that are missing have the values of `address`.
RedisAddress read_address(std::string_view text, RedisAddress address) {
  std::string_view port;
  bool has_port = false;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) refuse("the bracket of an IPv6 address is not closed");
    address.host = ipv6_address(text.substr(1, end - 1));
    const auto rest = text.substr(end + 1);
    has_port = rest.starts_with(':');
    if (!rest.empty() && !has_port) refuse("only :PORT may follow the address in brackets");
    port = rest.substr(has_port ? 1 : 0);
  } else {
    const auto colon = text.find(':');
    has_port = colon != std::string_view::npos;
    if (has_port) port = text.substr(colon + 1);
    if (port.find(':') != std::string_view::npos) {
      refuse(
          "the address has more than one colon; put an IPv6 address in brackets, and write a colon in a user "
          "name as %3A");
    }
    if (auto name = host_name(text.substr(0, colon)); !name.empty()) address.host = std::move(name);
  }
  if (has_port) {
    address.port =
        static_cast<std::uint16_t>(number("the port", port, 1, std::numeric_limits<std::uint16_t>::max()));
  }
  return address;
}

/// The parts between commas.
std::vector<std::string_view> parts_of(std::string_view text) {
  std::vector<std::string_view> parts;
  for (;;) {
    const auto comma = text.find(',');
    parts.push_back(text.substr(0, comma));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::string address_part(const RedisAddress& address, std::uint16_t port_to_omit) {
  const bool is_ipv6 = address.host.find(':') != std::string::npos;
  auto text =
      is_ipv6 ? "[" + core::percent_encoded(address.host, ":") + "]" : core::percent_encoded(address.host);
  if (address.port != port_to_omit) text += ":" + std::to_string(address.port);
  return text;
}

std::string addresses_part(const std::vector<RedisAddress>& addresses, std::uint16_t port_to_omit) {
  std::string text;
  for (const auto& address : addresses)
    text += (text.empty() ? "" : ",") + address_part(address, port_to_omit);
  return text;
}

std::vector<RedisAnnouncement> announcements(const std::string& text) {
  std::vector<RedisAnnouncement> read;
  for (const auto one : parts_of(text)) {
    const auto equals = one.find('=');
    if (equals == std::string_view::npos)
      refuse("connect_to must be ANNOUNCED=REACHED_AT, separated by commas");
    RedisAnnouncement pair{.announced = read_address(one.substr(0, equals), {.host = {}, .port = 0}),
                           .reached_at = read_address(one.substr(equals + 1), {.host = {}, .port = 0})};
    if (pair.announced.host.empty() || pair.reached_at.host.empty()) {
      refuse("connect_to needs a host on both sides of each =");
    }
    read.push_back(std::move(pair));
  }
  return read;
}

std::string announcements_text(const std::vector<RedisAnnouncement>& all) {
  std::string text;
  for (const auto& one : all) {
    text +=
        (text.empty() ? "" : ",") + address_part(one.announced, 0) + "=" + address_part(one.reached_at, 0);
  }
  return text;
}

/// One parameter of the query: how to set the option from it, and its text if the option is set.
struct Parameter {
  enum class Only : std::uint8_t { never, tls, sentinels, cluster };
  std::string name;
  void (*set)(RedisOptions& options, const std::string& value);
  std::string (*get)(const RedisOptions& options);
  Only only = Only::never;  ///< the URLs that may have it
};

const std::vector<Parameter>& parameters() {
  using Options = RedisOptions;
  using Text = const std::string;
  // Never ends: a thread may still open a store while the process exits.
  static const auto& table = *new std::vector<Parameter>{
      {"db", [](Options& o, Text& v) { o.db = database(v); },
       [](const Options& o) { return std::to_string(o.db); }},
      {"user", [](Options& o, Text& v) { o.user = v; }, [](const Options& o) { return o.user; }},
      {"password_file", [](Options& o, Text& v) { o.password_file = file("password_file", v); },
       [](const Options& o) { return o.password_file; }},
      {"lock_prefix", [](Options& o, Text& v) { o.lock_prefix = v; },
       [](const Options& o) { return o.lock_prefix; }},
      {"task_prefix", [](Options& o, Text& v) { o.task_prefix = v; },
       [](const Options& o) { return o.task_prefix; }},
      {"name", [](Options& o, Text& v) { o.client_name = client_name(v); },
       [](const Options& o) { return o.client_name.value_or("holdfast"); }},
      {"holder", [](Options& o, Text& v) { o.holder = label(v); }, [](const Options& o) { return o.holder; }},
      {"connect_timeout", [](Options& o, Text& v) { o.connect_timeout = timeout("connect_timeout", v); },
       [](const Options& o) { return duration_text(o.connect_timeout); }},
      {"command_timeout", [](Options& o, Text& v) { o.command_timeout = timeout("command_timeout", v); },
       [](const Options& o) { return duration_text(o.command_timeout); }},
      {"layout", [](Options& o, Text& v) { o.layout = layout(v); },
       [](const Options& o) { return layout_text(o.layout); }},
      {"cleanup_in_is_locked",
       [](Options& o, Text& v) { o.cleanup_in_is_locked = boolean("cleanup_in_is_locked", v); },
       [](const Options& o) { return std::string(o.cleanup_in_is_locked ? "true" : "false"); }},
      {"min_replicas",
       [](Options& o, Text& v) { o.min_replicas = number("min_replicas", v, 0, most_replicas); },
       [](const Options& o) { return std::to_string(o.min_replicas); }},
      {"replica_timeout", [](Options& o, Text& v) { o.replica_timeout = timeout("replica_timeout", v); },
       [](const Options& o) { return duration_text(o.replica_timeout); }},
      {"fence_floor", set_fence_floor, fence_floor_text},
      {"tls_ca", [](Options& o, Text& v) { o.tls_ca_file = file("tls_ca", v); },
       [](const Options& o) { return o.tls_ca_file; }, Parameter::Only::tls},
      {"tls_cert", [](Options& o, Text& v) { o.tls_cert_file = file("tls_cert", v); },
       [](const Options& o) { return o.tls_cert_file; }, Parameter::Only::tls},
      {"tls_key", [](Options& o, Text& v) { o.tls_key_file = file("tls_key", v); },
       [](const Options& o) { return o.tls_key_file; }, Parameter::Only::tls},
      {"tls_server_name", [](Options& o, Text& v) { o.tls_server_name = v; },
       [](const Options& o) { return o.tls_server_name; }, Parameter::Only::tls},
      {"sentinel_user", [](Options& o, Text& v) { o.sentinel_user = v; },
       [](const Options& o) { return o.sentinel_user; }, Parameter::Only::sentinels},
      {"sentinel_password_file",
       [](Options& o, Text& v) { o.sentinel_password_file = file("sentinel_password_file", v); },
       [](const Options& o) { return o.sentinel_password_file; }, Parameter::Only::sentinels},
      {"connect_to", [](Options& o, Text& v) { o.cluster_connect_to = announcements(v); },
       [](const Options& o) { return announcements_text(o.cluster_connect_to); }, Parameter::Only::cluster},
  };
  return table;
}

const Parameter& known_parameter(const std::string& name) {
  const auto& known = parameters();
  const auto found = std::ranges::find(known, name, &Parameter::name);
  if (found != known.end()) return *found;
  if (name == "password") {
    refuse("password is not a parameter; use password_file=PATH or the variable " +
           std::string(redis::password_variable) + ", or write user:password@host");
  }
  if (name == "sentinel_password") {
    refuse("sentinel_password is not a parameter; use sentinel_password_file=PATH or the variable " +
           std::string(redis::sentinel_password_variable));
  }
  const bool could_be_one = !name.empty() && name.size() <= 32 && std::ranges::all_of(name, [](char c) {
    return (c >= 'a' && c <= 'z') || c == '_';
  });
  std::string names;
  for (const auto& parameter : known) {
    if (!names.empty()) names += ", ";
    names += parameter.name;
  }
  refuse("unknown parameter" + (could_be_one ? " \"" + name + "\"" : "") + "; known are " + names);
}

/// `seen`: the parameters that the part before the query has set.
void read_query(std::string_view query, std::set<std::string> seen, RedisOptions& options) {
  while (!query.empty()) {
    const auto one = query.substr(0, query.find('&'));
    query.remove_prefix(std::min(query.size(), one.size() + 1));
    const auto equals = one.find('=');
    const auto name = decoded("a parameter's name", one.substr(0, equals));
    const auto& parameter = known_parameter(name);
    if (equals == std::string_view::npos) refuse(name + " has no value; write NAME=VALUE");
    if (!seen.insert(name).second) refuse(name + " is given twice");
    if (parameter.only == Parameter::Only::tls && !options.tls) refuse(name + " is for rediss:// (TLS) only");
    if (parameter.only == Parameter::Only::sentinels && options.sentinels.empty())
      refuse(name + " is for redis+sentinel:// and rediss+sentinel:// only");
    if (parameter.only == Parameter::Only::cluster && options.cluster_nodes.empty())
      refuse(name + " is for redis+cluster:// and rediss+cluster:// only");
    parameter.set(options, decoded(name, one.substr(equals + 1)));
  }
}

void read_user(std::string_view text, RedisOptions& options) {
  const auto colon = text.find(':');
  options.user = decoded("the user", text.substr(0, colon));
  if (colon == std::string_view::npos) return;
  options.password = decoded("the password", text.substr(colon + 1));
  if (options.password.empty()) refuse("the password is empty; to use none, omit the colon too");
}

/// Addresses that are separated by commas; each names its host.
std::vector<RedisAddress> read_addresses(std::string_view text, std::uint16_t port) {
  std::vector<RedisAddress> addresses;
  for (const auto one : parts_of(text)) {
    auto address = read_address(one, {.host = {}, .port = port});
    if (address.host.empty()) refuse("a host is missing; write HOST[:PORT],HOST[:PORT],...");
    if (std::ranges::find(addresses, address) != addresses.end()) refuse("a host is given twice");
    addresses.push_back(std::move(address));
  }
  return addresses;
}

/// Reads SERVICE[/DB] into the service, and returns the rest.
std::string_view read_service(std::string_view path, RedisOptions& options) {
  const auto slash = path.find('/');
  options.sentinel_service = decoded("the service", path.substr(0, slash));
  if (options.sentinel_service.empty()) {
    refuse(
        "the service is missing; write redis+sentinel://HOST,HOST/SERVICE, with the name in `sentinel "
        "monitor SERVICE ...`");
  }
  return slash == std::string_view::npos ? std::string_view() : path.substr(slash + 1);
}

/// Reads the part before the query, except that of unix:. Returns the names of the parameters that it sets.
std::set<std::string> read_network_part(std::string_view text, Names names, RedisOptions& options) {
  std::set<std::string> given;
  const auto slash = text.find('/');
  auto authority = text.substr(0, slash);
  auto path = slash == std::string_view::npos ? std::string_view() : text.substr(slash + 1);
  if (const auto at = authority.rfind('@'); at != std::string_view::npos) {
    read_user(authority.substr(0, at), options);
    authority.remove_prefix(at + 1);
  }
  if (names == Names::sentinels) {
    options.sentinels = read_addresses(authority, default_sentinel_port);
    path = read_service(path, options);
  } else if (names == Names::cluster) {
    options.cluster_nodes = read_addresses(authority, default_port);
  } else {
    const auto address = read_address(authority, {.host = options.host, .port = options.port});
    options.host = address.host;
    options.port = address.port;
  }
  if (!options.user.empty()) given.insert("user");
  if (!path.empty()) {
    options.db = database(decoded("the database", path));
    given.insert("db");
  }
  return given;
}

void read_unix_part(std::string_view text, RedisOptions& options) {
  if (text.starts_with("//")) {
    text.remove_prefix(2);
    if (!text.starts_with('/')) {
      refuse(
          "write the path of a local socket after unix:, as unix:/path or unix:///path; pass a user as "
          "?user=");
    }
  }
  if (!text.starts_with('/')) refuse("the path of the socket must be absolute: unix:/path");
  options.unix_socket = decoded("the path of the socket", text);
}

void check_characters(std::string_view url) {
  if (std::ranges::any_of(url, [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7F; })) {
    refuse("it contains a space or control character; write a space as %20");
  }
  if (url.find('#') != std::string_view::npos) refuse("it contains a #; write it as %23");
}

void find_passwords(RedisOptions& options) {
  if (!options.password_file.empty()) {
    if (!options.password.empty())
      refuse("it has a password and a password_file; keep only one, preferably the file");
    options.password = redis::password_in(options.password_file).value_or_throw();
  } else if (options.password.empty()) {
    options.password = redis::password_in_environment();
  }
  if (options.sentinels.empty()) return;
  const auto& file = options.sentinel_password_file;
  options.sentinel_password = file.empty()
                                  ? redis::password_in_environment(redis::sentinel_password_variable)
                                  : redis::password_in(file, "sentinel_password_file").value_or_throw();
}

RedisOptions parse(std::string_view url) {
  check_characters(url);
  RedisOptions options;
  const auto* const scheme =
      std::ranges::find_if(schemes, [&](const Scheme& one) { return url.starts_with(one.text); });
  if (scheme == schemes.end()) {
    refuse(
        "it must start with redis://, rediss://, redis+sentinel://, rediss+sentinel://, redis+cluster://, "
        "rediss+cluster:// or unix:");
  }
  options.tls = scheme->tls;
  url.remove_prefix(scheme->text.size());
  const auto question = url.find('?');
  const auto front = url.substr(0, question);
  const auto query = question == std::string_view::npos ? std::string_view() : url.substr(question + 1);
  std::set<std::string> given;
  if (scheme->names == Names::socket) {
    read_unix_part(front, options);
  } else {
    // Checked before any part is used as a host or a parameter: it may be the end of a password.
    if (url.rfind('@') != std::string_view::npos && url.rfind('@') > url.find_first_of("/?")) {
      refuse(
          "an @ follows the first / or ?; in a user or password write / as %2F and ? as %3F, elsewhere write "
          "@ as %40");
    }
    given = read_network_part(front, scheme->names, options);
  }
  read_query(query, std::move(given), options);
  if (scheme->names == Names::cluster && options.db != 0) {
    refuse("a cluster has only database 0; omit the database");
  }
  if (options.tls_cert_file.empty() != options.tls_key_file.empty()) {
    refuse("tls_cert and tls_key belong together; set both or neither");
  }
  find_passwords(options);
  return options;
}

std::string unix_part(const RedisOptions& options) {
  // A path with two leading slashes must not be read as the empty host of unix:///path.
  const auto* slashes = options.unix_socket.starts_with("//") ? "//" : "";
  return "unix:" + std::string(slashes) + core::percent_encoded(options.unix_socket, "/");
}

std::string network_part(const RedisOptions& options) {
  const auto* const scheme = std::ranges::find_if(
      schemes, [&](const Scheme& one) { return one.names == named_by(options) && one.tls == options.tls; });
  std::string text(scheme->text);
  if (!options.user.empty()) text += core::percent_encoded(options.user) + "@";
  switch (named_by(options)) {
    case Names::sentinels:
      text += addresses_part(options.sentinels, default_sentinel_port);
      text += "/" + core::percent_encoded(options.sentinel_service);
      break;
    case Names::cluster:
      text += addresses_part(options.cluster_nodes, default_port);
      break;
    case Names::server:
    case Names::socket:
      text += address_part({.host = options.host, .port = options.port}, default_port);
      break;
  }
  if (options.db != 0) text += "/" + std::to_string(options.db);
  return text;
}

}  // namespace

Result<RedisOptions> parse_redis_url(std::string_view url) {
  try {
    return parse(url);
  } catch (const Error& error) {
    return error;
  }
}

std::string redis_url(const RedisOptions& options) {
  const bool is_unix = named_by(options) == Names::socket;
  auto url = is_unix ? unix_part(options) : network_part(options);
  char separator = '?';
  for (const auto& parameter : parameters()) {
    if (!is_unix && (parameter.name == "db" || parameter.name == "user")) continue;
    const auto value = parameter.get(options);
    if (value == parameter.get(RedisOptions())) continue;
    url += separator + parameter.name + "=" + core::percent_encoded(value, "/:=,");
    separator = '&';
  }
  return url;
}

}  // namespace holdfast
