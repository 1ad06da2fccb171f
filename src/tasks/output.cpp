// The output of the commands that work on tasks.

#include "tasks/address.hpp"
#include "tasks/operations.hpp"
#include "tasks/refusals.hpp"

namespace holdfast::tasks {

using runtime::Op;

Op<OutputRun> perform(Call call, operation::AppendTaskOutput what) {
  const auto task = call.address(what.owner, std::move(what.id));
  if (!task) co_return task.error();
  const NewOutput output = what.what;
  AppendOutput request{.key = task->key,
                       .incarnation = std::string(output.incarnation),
                       .fence = FencingToken(output.token),
                       .attempt = output.attempt,
                       .pieces = {OutputPiece{.at = output.out_at, .bytes = std::string(output.out)},
                                  OutputPiece{.at = output.err_at, .bytes = std::string(output.err)}},
                       .keep = output.keep,
                       .is_complete = output.is_complete};
  auto outcome = co_await call.ask(std::move(request));
  if (!outcome) co_return outcome.error();
  if (const auto* refused = std::get_if<FenceRefused>(&*outcome))
    co_return refusal(*refused, "the task " + task->id);
  if (auto* run = std::get_if<OutputRun>(&*outcome)) co_return *run;
  co_return no_such_task(task->id);
}

Op<KeptOutput> perform(Call call, operation::ReadTaskOutput what) {
  const auto task = call.address(what.owner, std::move(what.id));
  if (!task) co_return task.error();
  ReadOutput request{.key = task->key,
                     .incarnation = call.incarnation,
                     .run = what.part.run,
                     .from = {what.part.out_from, what.part.err_from}};
  auto output = co_await call.ask(std::move(request));
  if (!output) co_return output.error();
  if (!*output) co_return no_such_task(task->id);
  co_return **std::move(output);
}

}  // namespace holdfast::tasks
