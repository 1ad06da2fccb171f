#pragma once

#include <holdfast/asio/call.hpp>
#include <holdfast/asio/locks.hpp>
#include <holdfast/asio/tasks.hpp>
