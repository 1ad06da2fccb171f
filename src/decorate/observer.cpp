#include <algorithm>
#include <holdfast/instruments.hpp>
#include <holdfast/observer.hpp>

namespace holdfast {

std::string_view to_string(Activity activity) noexcept {
  switch (activity) {
    case Activity::acquire:
      return "acquire";
    case Activity::release:
      return "release";
    case Activity::break_lock:
      return "break";
    case Activity::extend:
      return "extend";
    case Activity::is_locked:
      return "is_locked";
    case Activity::lookup:
      return "lookup";
    case Activity::list_locks:
    case Activity::list_records:
      return "list";
    case Activity::get_record:
      return "get";
    case Activity::create_record:
      return "create";
    case Activity::put_record:
      return "put";
    case Activity::remove_record:
      return "remove";
    case Activity::bind_record:
      return "bind";
    case Activity::rebind_record:
      return "rebind";
    case Activity::list_owners:
      return "list_owners";
    case Activity::cleanup_records:
      return "cleanup_expired";
    case Activity::wait:
      return "wait";
    case Activity::hold:
      return "hold";
    case Activity::renew:
      return "renew";
    case Activity::reconnect:
      return "reconnect";
    case Activity::fence_regression:
      return "fence_regression";
    case Activity::clock_jump:
      return "clock_jump";
  }
  return "";
}

std::string_view subject_of(Activity activity) noexcept {
  if (activity == Activity::reconnect || activity == Activity::clock_jump) return "connection";
  return activity >= Activity::get_record && activity <= Activity::cleanup_records ? "task" : "lock";
}

std::string_view to_string(Reason reason) noexcept {
  switch (reason) {
    case Reason::none:
      return "";
    case Reason::locked:
      return "locked";
    case Reason::expired:
      return "expired";
    case Reason::not_found:
      return "not-found";
    case Reason::exists:
      return "exists";
    case Reason::quota:
      return "quota";
    case Reason::conflict:
      return "conflict";
    case Reason::stale_fence:
      return "stale-fence";
    case Reason::wrong_lock:
      return "wrong-lock";
    case Reason::unproven:
      return "unproven";
    case Reason::gone:
      return "gone";
    case Reason::max_hold:
      return "max-hold";
  }
  return "";
}

namespace {

class All final : public Observer {
 public:
  explicit All(std::vector<std::shared_ptr<Observer>> all) : all_(std::move(all)) {}

  void begun(Activity activity, std::string_view backend) noexcept override {
    for (const auto& one : all_) one->begun(activity, backend);
  }
  void ended(const Occurrence& occurrence) noexcept override {
    if (!occurrence.context) {
      for (const auto& one : all_) one->ended(occurrence);
      return;
    }
    const auto& contexts = *static_cast<const Contexts*>(occurrence.context.get());
    Occurrence own = occurrence;
    for (std::size_t i = 0; i < all_.size(); ++i) {
      own.context = contexts[i];
      all_[i]->ended(own);
    }
  }
  TraceContext context() noexcept override {
    Contexts contexts;
    for (const auto& one : all_) contexts.push_back(one->context());
    if (std::ranges::none_of(contexts, [](const auto& context) { return context != nullptr; })) return {};
    return std::make_shared<const Contexts>(std::move(contexts));
  }

 private:
  /// One context per observer: only the observer that returned it can interpret it.
  using Contexts = std::vector<TraceContext>;

  const std::vector<std::shared_ptr<Observer>> all_;
};

}  // namespace

std::shared_ptr<Observer> observers(std::vector<std::shared_ptr<Observer>> all) {
  std::erase(all, nullptr);
  if (all.empty()) return nullptr;
  if (all.size() == 1) return std::move(all.front());
  return std::make_shared<All>(std::move(all));
}

std::shared_ptr<Observer> observer_of(const Instruments& instruments) {
  std::vector<std::shared_ptr<Observer>> all{instruments.metrics, instruments.observer};
  if (instruments.telemetry.on_event) {
    all.push_back(std::make_shared<Telemetry>(instruments.telemetry, instruments.metrics));
  }
  if (instruments.tracer) all.push_back(make_tracing(instruments.tracer));
  return observers(std::move(all));
}

}  // namespace holdfast
