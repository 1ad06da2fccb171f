#pragma once

#include <asio/version.hpp>
#if ASIO_VERSION >= 102400
#include <asio/as_tuple.hpp>
#include <asio/deferred.hpp>
#else
#include <asio/experimental/as_tuple.hpp>
#include <asio/experimental/deferred.hpp>
#endif

namespace holdfast::test {

/// Where Asio has `as_tuple` and `deferred`: until 1.22 in asio::experimental, from 1.36 on in asio only.
#if ASIO_VERSION >= 102400
namespace asio_tokens = asio;
#else
namespace asio_tokens = asio::experimental;
#endif

}  // namespace holdfast::test
