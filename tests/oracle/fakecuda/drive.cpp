// A sequence of allocations and frees through PyTorch's allocator from C++, to take its time: from
// Python, the interpreter would be most of it.
#include <c10/cuda/CUDACachingAllocator.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

// A call above zero allocates so many bytes, one below frees the allocation of that number, counted
// from 1. Whatever is left is freed at the end. Answers nanoseconds.
extern "C" double drive(const int64_t *calls, size_t count) {
  namespace allocator = c10::cuda::CUDACachingAllocator;
  std::vector<void *> made;
  made.reserve(count);
  auto start = std::chrono::steady_clock::now();
  for (size_t i = 0; i < count; i++) {
    if (calls[i] >= 0) {
      made.push_back(allocator::raw_alloc(static_cast<size_t>(calls[i])));
      continue;
    }
    void *&block = made[static_cast<size_t>(-calls[i] - 1)];
    allocator::raw_delete(block);
    block = nullptr;
  }
  for (void *block : made)
    if (block) allocator::raw_delete(block);
  std::chrono::duration<double, std::nano> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count();
}
