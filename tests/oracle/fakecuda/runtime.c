// The CUDA runtime: one device with the properties of the environment, streams and events that are
// handles only, kernels that are registered and launched without running.
#include "fake.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

static size_t capability, processors, threads, blocks, shared_memory, memory;

__attribute__((constructor)) static void read_settings(void) {
  capability = setting("FAKECUDA_CAPABILITY", 80);
  processors = setting("FAKECUDA_PROCESSORS", 108);
  threads = setting("FAKECUDA_THREADS", 2048);
  blocks = setting("FAKECUDA_BLOCKS", 32);
  shared_memory = setting("FAKECUDA_SHARED", 164 << 10);
  memory = setting("FAKECUDA_MEMORY", (size_t)80 << 30);
}

EXPORT cudaError_t cudaGetDeviceCount(int *count) {
  *count = 1;
  return cudaSuccess;
}
EXPORT cudaError_t cudaGetDevice(int *device) {
  *device = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDriverGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
EXPORT cudaError_t cudaRuntimeGetVersion(int *version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) {
  *can = 0;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) {
  if (least) *least = 0;
  if (greatest) *greatest = -5;
  return cudaSuccess;
}
EXPORT cudaError_t cudaDeviceGetPCIBusId(char *text, int size, int device) {
  snprintf(text, size, "0000:00:00.0");
  return cudaSuccess;
}

EXPORT cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
  memset(p, 0, sizeof *p);
  snprintf(p->name, sizeof p->name, "Fake CUDA device sm_%zu", capability);
  p->uuid.bytes[0] = 1;
  p->major = capability / 10;
  p->minor = capability % 10;
  p->totalGlobalMem = memory;
  p->multiProcessorCount = processors;
  p->maxThreadsPerMultiProcessor = threads;
  p->maxBlocksPerMultiProcessor = blocks;
  p->sharedMemPerMultiprocessor = shared_memory;
  p->reservedSharedMemPerBlock = 1 << 10;
  p->sharedMemPerBlockOptin = shared_memory - p->reservedSharedMemPerBlock;
  p->sharedMemPerBlock = 48 << 10;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = p->maxThreadsDim[0] = p->maxThreadsDim[1] = 1024;
  p->maxThreadsDim[2] = 64;
  p->maxGridSize[0] = p->memPitch = 2147483647;
  p->maxGridSize[1] = p->maxGridSize[2] = 65535;
  p->totalConstMem = 65536;
  p->textureAlignment = 512;
  p->memoryBusWidth = 5120;
  p->l2CacheSize = 40 << 20;
  p->asyncEngineCount = 3;
  p->canMapHostMemory = p->concurrentKernels = p->unifiedAddressing = 1;
  p->streamPrioritiesSupported = p->globalL1CacheSupported = p->localL1CacheSupported = 1;
  p->managedMemory = p->concurrentManagedAccess = p->cooperativeLaunch = 1;
  p->memoryPoolsSupported = 1;
  return cudaSuccess;
}

EXPORT cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
  struct cudaDeviceProp p;
  cudaGetDeviceProperties(&p, device);
  switch (attribute) {
  case cudaDevAttrComputeCapabilityMajor: *value = p.major; break;
  case cudaDevAttrComputeCapabilityMinor: *value = p.minor; break;
  case cudaDevAttrMultiProcessorCount: *value = p.multiProcessorCount; break;
  case cudaDevAttrMaxThreadsPerBlock: *value = p.maxThreadsPerBlock; break;
  case cudaDevAttrMaxBlockDimX: *value = p.maxThreadsDim[0]; break;
  case cudaDevAttrMaxBlockDimY: *value = p.maxThreadsDim[1]; break;
  case cudaDevAttrMaxBlockDimZ: *value = p.maxThreadsDim[2]; break;
  case cudaDevAttrMaxGridDimX: *value = p.maxGridSize[0]; break;
  case cudaDevAttrMaxGridDimY: *value = p.maxGridSize[1]; break;
  case cudaDevAttrMaxGridDimZ: *value = p.maxGridSize[2]; break;
  case cudaDevAttrMaxSharedMemoryPerBlock: *value = p.sharedMemPerBlock; break;
  case cudaDevAttrMaxSharedMemoryPerBlockOptin: *value = p.sharedMemPerBlockOptin; break;
  case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *value = p.sharedMemPerMultiprocessor; break;
  case cudaDevAttrReservedSharedMemoryPerBlock: *value = p.reservedSharedMemPerBlock; break;
  case cudaDevAttrMaxThreadsPerMultiProcessor: *value = p.maxThreadsPerMultiProcessor; break;
  case cudaDevAttrMaxBlocksPerMultiprocessor: *value = p.maxBlocksPerMultiProcessor; break;
  case cudaDevAttrMaxRegistersPerBlock: *value = p.regsPerBlock; break;
  case cudaDevAttrMaxRegistersPerMultiprocessor: *value = p.regsPerMultiprocessor; break;
  case cudaDevAttrWarpSize: *value = p.warpSize; break;
  case cudaDevAttrL2CacheSize: *value = p.l2CacheSize; break;
  case cudaDevAttrClockRate: *value = 1410000; break;
  case cudaDevAttrMemoryClockRate: *value = 1593000; break;
  case cudaDevAttrGlobalMemoryBusWidth: *value = p.memoryBusWidth; break;
  case cudaDevAttrUnifiedAddressing: *value = p.unifiedAddressing; break;
  case cudaDevAttrCooperativeLaunch: *value = p.cooperativeLaunch; break;
  default: *value = 0;
  }
  return cudaSuccess;
}

EXPORT cudaError_t cudaStreamCreate(cudaStream_t *stream) {
  *stream = handle();
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) {
  return cudaStreamCreate(stream);
}
EXPORT cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int level) {
  return cudaStreamCreate(stream);
}
EXPORT cudaError_t cudaEventCreate(cudaEvent_t *event) {
  *event = handle();
  return cudaSuccess;
}
EXPORT cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
  return cudaEventCreate(event);
}
EXPORT cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
  *ms = 1;
  return cudaSuccess;
}

// A CUDA graph is recorded on one stream at a time; what is recorded is never looked at, as nothing
// of it would run.
static cudaStream_t recorded_stream;
static unsigned long long recordings;
static int recording;

static enum cudaStreamCaptureStatus capture_status(cudaStream_t stream) {
  int ours = recording && stream == recorded_stream;
  return ours ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
}
EXPORT cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) {
  recorded_stream = stream;
  recording = 1;
  recordings++;
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
  recording = 0;
  *graph = handle();
  return cudaSuccess;
}
EXPORT cudaError_t cudaGraphInstantiate(cudaGraphExec_t *program, cudaGraph_t graph,
                                        unsigned long long flags) {
  *program = handle();
  return cudaSuccess;
}
EXPORT cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *program, cudaGraph_t graph,
                                                 unsigned long long flags) {
  return cudaGraphInstantiate(program, graph, flags);
}
EXPORT cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
  *count = 1;
  return cudaSuccess;
}
EXPORT cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *is) {
  *is = capture_status(stream);
  return cudaSuccess;
}
#if CUDART_VERSION >= 13000
EXPORT cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *is,
                                            unsigned long long *id, cudaGraph_t *graph,
                                            const cudaGraphNode_t **nodes,
                                            const cudaGraphEdgeData **edges, size_t *count) {
#else
EXPORT cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream,
                                               enum cudaStreamCaptureStatus *is,
                                               unsigned long long *id, cudaGraph_t *graph,
                                               const cudaGraphNode_t **nodes, size_t *count) {
#endif
  *is = capture_status(stream);
  if (id) *id = *is == cudaStreamCaptureStatusActive ? recordings : 0;
  if (count) *count = 0;
  return cudaSuccess;
}

EXPORT const char *cudaGetErrorString(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation) return "out of memory";
  return error == cudaSuccess ? "no error" : "an error of the fake device";
}
EXPORT const char *cudaGetErrorName(cudaError_t error) {
  if (error == cudaErrorMemoryAllocation) return "cudaErrorMemoryAllocation";
  return error == cudaSuccess ? "cudaSuccess" : "cudaErrorUnknown";
}

// What nvcc's generated code calls. A kernel's address serves as its own handle.
EXPORT void **__cudaRegisterFatBinary(void *image) {
  static void *module[4];
  return module;
}
EXPORT unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, void *stream) {
  return 0;
}
EXPORT cudaError_t __cudaPopCallConfiguration(unsigned *grid, unsigned *block, size_t *shared,
                                              void **stream) {
  for (int i = 0; i < 3; i++) grid[i] = block[i] = 1;
  *shared = 0;
  *stream = NULL;
  return cudaSuccess;
}
EXPORT cudaError_t __cudaGetKernel(void **kernel, const void *function) {
  *kernel = (void *)function;
  return cudaSuccess;
}
EXPORT cudaError_t __cudaLaunchKernel(void *kernel) {
  counts.launches++;
  return cudaSuccess;
}
EXPORT cudaError_t cudaLaunchKernel(const void *kernel, dim3 grid, dim3 block, void **arguments,
                                    size_t shared, cudaStream_t stream) {
  counts.launches++;
  return cudaSuccess;
}
EXPORT cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *config, const void *kernel,
                                       void **arguments) {
  counts.launches++;
  return cudaSuccess;
}
EXPORT cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *answer, const void *kernel) {
  memset(answer, 0, sizeof *answer);
  answer->maxThreadsPerBlock = 1024;
  answer->numRegs = 32;
  answer->ptxVersion = answer->binaryVersion = capability;
  return cudaSuccess;
}

// As if threads alone limited how many blocks run at once: registers of a kernel are not known.
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *count, const void *kernel,
                                                                 int block, size_t shared) {
  size_t by_threads = block > 0 && threads > (size_t)block ? threads / block : 1;
  *count = by_threads < blocks ? by_threads : blocks;
  return cudaSuccess;
}
EXPORT cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    int *count, const void *kernel, int block, size_t shared, unsigned flags) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessor(count, kernel, block, shared);
}

// PyTorch asks for the driver's functions by name: those written here, else one that succeeds.
static int succeed(void) { return 0; }

EXPORT cudaError_t cudaGetDriverEntryPointByVersion(const char *name, void **function,
                                                    unsigned version, unsigned long long flags,
                                                    enum cudaDriverEntryPointQueryResult *found) {
  void *written = dlsym(RTLD_DEFAULT, name);
  *function = written ? written : (void *)succeed;
  if (found) *found = cudaDriverEntryPointSuccess;
  return cudaSuccess;
}
EXPORT cudaError_t cudaGetDriverEntryPoint(const char *name, void **function,
                                           unsigned long long flags,
                                           enum cudaDriverEntryPointQueryResult *found) {
  return cudaGetDriverEntryPointByVersion(name, function, 0, flags, found);
}
EXPORT int cuGetErrorString(int error, const char **text) {
  *text = "an error of the fake driver";
  return 0;
}
EXPORT int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) {
  *flags = 0;
  *active = 1;
  return 0;
}
EXPORT int cuCtxGetCurrent(void **context) {
  static char the_context[64];
  *context = the_context;
  return 0;
}
EXPORT int cuDeviceGet(int *device, int ordinal) {
  *device = 0;
  return 0;
}
// Runtime and driver number attributes alike.
EXPORT int cuDeviceGetAttribute(int *value, int attribute, int device) {
  return cudaDeviceGetAttribute(value, attribute, device);
}
