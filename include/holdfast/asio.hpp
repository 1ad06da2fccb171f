#pragma once

/// Everything for coroutines, futures and callbacks with standalone Asio (docs/guide/asio.md).
#include <holdfast/asio/as_result.hpp>
#include <holdfast/asio/call.hpp>
#include <holdfast/asio/locks.hpp>
#include <holdfast/asio/open.hpp>
#include <holdfast/asio/queue.hpp>
#include <holdfast/asio/register.hpp>
#include <holdfast/asio/tasks.hpp>
