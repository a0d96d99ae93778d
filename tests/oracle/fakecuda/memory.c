// Device memory. Addresses come from a reserved, inaccessible range, so that they are told from
// the host's and a stray access is seen at once. They only ever rise: the driver may reuse the
// address of memory that was given back, which matters to PyTorch's allocator only where it picks
// between free blocks of one size.
#include "fake.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

// The driver hands out memory in these steps; a segment of PyTorch's allocator is whole steps.
static const size_t GRANULE = (size_t)2 << 20;
static const size_t RANGE = (size_t)16 << 40;
static void *const RANGE_START = (void *)0x100000000000ull;

enum { CAPACITY = 1 << 16 };

struct piece {
  uint64_t name; // address, or the handle of physical memory
  size_t bytes;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static char *range, *next;
static size_t total, used;
static struct piece pieces[CAPACITY];
static int held;
static uint64_t next_physical = 1;
static int trace;
struct counts counts;

static size_t granules(size_t bytes) { return (bytes + GRANULE - 1) / GRANULE * GRANULE; }

__attribute__((constructor)) static void reserve(void) {
  total = setting("FAKECUDA_MEMORY", (size_t)80 << 30);
  trace = (int)setting("FAKECUDA_TRACE", 0);
  int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
  range = mmap(RANGE_START, RANGE, PROT_NONE, flags, -1, 0);
  if (range == MAP_FAILED) {
    perror("reserving addresses for the fake device");
    abort();
  }
  next = (char *)granules((size_t)range);
}

static int on_device(const void *at) { return (char *)at >= range && (char *)at < range + RANGE; }

// Takes bytes of the device's capacity under a name; 0 if there is no room.
static int take(uint64_t name, size_t bytes) {
  if (held == CAPACITY || bytes > total - used) return 0;
  pieces[held++] = (struct piece){name, bytes};
  used += bytes;
  return 1;
}

static void give_back(uint64_t name) {
  for (int i = 0; i < held; i++) {
    if (pieces[i].name != name) continue;
    if (trace) fprintf(stderr, "fakecuda: free %#zx, %zu bytes\n", (size_t)name, pieces[i].bytes);
    used -= pieces[i].bytes;
    pieces[i] = pieces[--held];
    return;
  }
}

EXPORT cudaError_t cudaMalloc(void **at, size_t bytes) {
  pthread_mutex_lock(&lock);
  int fits = take((uint64_t)next, granules(bytes));
  *at = fits ? next : NULL;
  if (fits) next += granules(bytes);
  if (trace) fprintf(stderr, "fakecuda: malloc %zu bytes: %p\n", bytes, *at);
  pthread_mutex_unlock(&lock);
  return fits ? cudaSuccess : cudaErrorMemoryAllocation;
}

EXPORT cudaError_t cudaFree(void *at) {
  pthread_mutex_lock(&lock);
  give_back((uint64_t)at);
  pthread_mutex_unlock(&lock);
  return cudaSuccess;
}

EXPORT cudaError_t cudaMallocAsync(void **at, size_t bytes, cudaStream_t stream) {
  return cudaMalloc(at, bytes);
}
EXPORT cudaError_t cudaFreeAsync(void *at, cudaStream_t stream) { return cudaFree(at); }
EXPORT cudaError_t cudaMallocManaged(void **at, size_t bytes, unsigned flags) {
  return cudaMalloc(at, bytes);
}

// The host's memory that is pinned, as far as there is room to note it: DDP asks whether its own is.
enum { PINNED = 1024 };
static struct {
  char *at;
  size_t bytes;
} pinned[PINNED];
static size_t pinnings;

EXPORT cudaError_t cudaMallocHost(void **at, size_t bytes) {
  *at = aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  size_t i = pinnings++ % PINNED;
  pinned[i].at = *at;
  pinned[i].bytes = bytes;
  return *at ? cudaSuccess : cudaErrorMemoryAllocation;
}
EXPORT cudaError_t cudaHostAlloc(void **at, size_t bytes, unsigned flags) {
  return cudaMallocHost(at, bytes);
}
EXPORT cudaError_t cudaFreeHost(void *at) {
  for (size_t i = 0; i < PINNED; i++)
    if (pinned[i].at == at) pinned[i].at = NULL;
  free(at);
  return cudaSuccess;
}

static int is_pinned(const void *at) {
  for (size_t i = 0; i < PINNED; i++)
    if (pinned[i].at && (const char *)at >= pinned[i].at && (const char *)at < pinned[i].at + pinned[i].bytes) return 1;
  return 0;
}

EXPORT cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total_bytes) {
  *free_bytes = total - used;
  *total_bytes = total;
  return cudaSuccess;
}

// With FAKECUDA_REMEMBER=1, what is copied to the device in pieces of 4 bytes to 64 KiB is kept by its address and handed
// out when it is read back: DDP sends the numbers of its buckets through the device.
enum { REMEMBERED = 256, SMALLEST = 4, LARGEST = 1 << 16 };
static struct {
  const void *at;
  size_t bytes;
  void *content;
} remembered[REMEMBERED];
static size_t copies;

static int is_remembered(size_t bytes) {
  static int asked = -1;
  if (asked < 0) asked = getenv("FAKECUDA_REMEMBER") != NULL;
  return asked && bytes >= SMALLEST && bytes <= LARGEST;
}

static void remember(const void *at, const void *from, size_t bytes) {
  size_t i = copies++ % REMEMBERED;
  free(remembered[i].content);
  remembered[i].at = at;
  remembered[i].bytes = bytes;
  remembered[i].content = malloc(bytes);
  memcpy(remembered[i].content, from, bytes);
}

static int recall(void *to, const void *at, size_t bytes) {
  for (size_t back = 1; back <= REMEMBERED && back <= copies; back++) {
    size_t i = (copies - back) % REMEMBERED;
    if (remembered[i].at == at && remembered[i].bytes == bytes) {
      memcpy(to, remembered[i].content, bytes);
      return 1;
    }
  }
  return 0;
}

// Nothing was computed, so the host reads zeros. A single byte is a bool, and the one such question
// that training asks (is this a batch of packed sequences? in transformers' masks) is answered
// "true, all of it" by real data.
EXPORT cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, enum cudaMemcpyKind kind) {
  if (on_device(to)) {
    if (is_remembered(bytes) && !on_device(from)) remember(to, from, bytes);
    return cudaSuccess;
  }
  if (!on_device(from)) {
    memcpy(to, from, bytes);
    return cudaSuccess;
  }
  if (is_remembered(bytes) && recall(to, from, bytes)) return cudaSuccess;
  memset(to, bytes == 1, bytes);
  *(bytes == 1 ? &counts.bools_read : &counts.others_read) += 1;
  return cudaSuccess;
}
EXPORT cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t bytes,
                                   enum cudaMemcpyKind kind, cudaStream_t stream) {
  return cudaMemcpy(to, from, bytes, kind);
}

EXPORT cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *answer, const void *at) {
  memset(answer, 0, sizeof *answer);
  if (on_device(at)) {
    answer->type = cudaMemoryTypeDevice;
    answer->devicePointer = (void *)at;
  } else if (is_pinned(at)) {
    answer->type = cudaMemoryTypeHost;
    answer->hostPointer = (void *)at;
  } else {
    answer->type = cudaMemoryTypeUnregistered;
    answer->hostPointer = (void *)at;
    answer->device = cudaInvalidDeviceId;
  }
  return cudaSuccess;
}

// Where a kernel's variables would lie; nobody reads them.
EXPORT cudaError_t cudaGetSymbolAddress(void **at, const void *symbol) {
  static void *variables;
  if (!variables) cudaMalloc(&variables, GRANULE);
  *at = variables;
  return cudaSuccess;
}

// The driver's virtual memory management, by which the allocator makes expandable segments: an
// address range, and physical memory that is mapped into it piece by piece.
enum { DRIVER_SUCCESS = 0, DRIVER_OUT_OF_MEMORY = 2 };

EXPORT int cuMemGetAllocationGranularity(size_t *bytes, const void *properties, int option) {
  *bytes = GRANULE;
  return DRIVER_SUCCESS;
}
EXPORT int cuMemAddressReserve(void **at, size_t bytes, size_t alignment, void *hint,
                               unsigned long long flags) {
  pthread_mutex_lock(&lock);
  *at = next;
  next += granules(bytes);
  pthread_mutex_unlock(&lock);
  return DRIVER_SUCCESS;
}
EXPORT int cuMemAddressFree(void *at, size_t bytes) { return DRIVER_SUCCESS; }
EXPORT int cuMemCreate(uint64_t *physical, size_t bytes, const void *properties,
                       unsigned long long flags) {
  pthread_mutex_lock(&lock);
  *physical = next_physical++;
  int fits = take(*physical, bytes);
  pthread_mutex_unlock(&lock);
  return fits ? DRIVER_SUCCESS : DRIVER_OUT_OF_MEMORY;
}
EXPORT int cuMemRelease(uint64_t physical) {
  pthread_mutex_lock(&lock);
  give_back(physical);
  pthread_mutex_unlock(&lock);
  return DRIVER_SUCCESS;
}

EXPORT size_t fakecuda_count(const char *name) {
  if (!strcmp(name, "launches")) return counts.launches;
  if (!strcmp(name, "bools_read")) return counts.bools_read;
  if (!strcmp(name, "others_read")) return counts.others_read;
  return counts.unknown;
}
