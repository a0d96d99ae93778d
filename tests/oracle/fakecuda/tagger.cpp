// Writes on every event of the allocator's history in which phase of the loop and in which
// operators it happened, through a RecordFunction callback. A TorchDispatchMode would not do: under
// one, autograd adds gradients up out of place, which changes the very thing that is recorded.
#include <ATen/record_function.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace {

std::mutex lock;
std::string phase;
// Backward has a thread of its own, and so its own operators.
thread_local std::vector<std::string> operators;

void publish() {
  std::string text;
  {
    std::lock_guard<std::mutex> guard(lock);
    text = phase + '|';
  }
  for (size_t i = 0; i < operators.size(); i++) text += (i ? ">" : "") + operators[i];
  c10::cuda::CUDACachingAllocator::setUserMetadata(text);
}

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction &function) {
  operators.emplace_back(function.name());
  publish();
  return nullptr;
}

void leave(const at::RecordFunction &, at::ObserverContext *) {
  if (!operators.empty()) operators.pop_back();
  publish();
}

} // namespace

extern "C" void tagger_on() {
  at::addGlobalCallback(at::RecordFunctionCallback(&enter, &leave)
                            .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
}

extern "C" void tagger_phase(const char *name) {
  {
    std::lock_guard<std::mutex> guard(lock);
    phase = name;
  }
  publish();
}
